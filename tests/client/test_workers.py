"""Task workers."""

from __future__ import annotations

import asyncio

from orbitmq.client.consumer.workers import TaskWorkers


def test_work_submitted_as_the_last_task_ends_is_done() -> None:
    async def run() -> None:
        workers = TaskWorkers(1)
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        async def second() -> None:
            done.set()

        async def first() -> None:
            # Runs after the task has ended and before its callback runs.
            loop.call_soon(workers.submit, second)

        workers.submit(first)
        await asyncio.wait_for(done.wait(), 30)
        assert await workers.drain(30)

    asyncio.run(run())


def test_tasks_are_limited_to_the_allowed_number() -> None:
    async def run() -> None:
        workers = TaskWorkers(3)
        at_once = most = count = 0

        async def work() -> None:
            nonlocal at_once, most, count
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            count += 1

        for _ in range(20):
            workers.submit(work)
        assert await workers.drain(30)
        assert (count, most) == (20, 3)

    asyncio.run(run())
