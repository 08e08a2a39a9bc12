"""Workers that run handlers: threads for functions, tasks for coroutines, each with a limit.

Work arrives in large pieces (a pulled chunk, a queue), so the cost of a plain lock does not matter.
Workers are started when there is work for them. Threads run until `close`, tasks until no work is
left.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from orbitmq.errors import FAILURES

__all__ = ["TaskWorkers", "ThreadWorkers", "Workers", "is_told_to_end"]

_log = logging.getLogger(__name__)


def is_told_to_end(error: BaseException) -> bool:
    """Return True if the running task itself was cancelled, rather than a task that it awaits."""
    task = asyncio.current_task()
    is_cancelled = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and is_cancelled


class Workers(Protocol):
    """Pool that runs pieces of work, a limited number at a time."""

    def submit(self, work: Callable[[], Any]) -> None:
        """Run `work` as soon as a worker is free; workers may call this, too."""

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all work is done; returns False if the time runs out before."""

    def close(self) -> None:
        """Stop the workers."""


class ThreadWorkers:
    """Pool of threads."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open = 0
        self._numbers = itertools.count(1)
        self._on_idle: Callable[[], None] | None = None

    def submit(self, work: Callable[[], Any]) -> None:
        """Run `work` as soon as a thread is free."""
        self._work.put(work)
        with self._lock:
            self._open += 1
            if self._open <= len(self._threads) or len(self._threads) >= self._limit:
                return
            name = f"{self._name}-{next(self._numbers)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            try:
                work()
            except BaseException:  # the thread must not end, because it still counts as a worker
                _log.exception("worker thread raised an unexpected error; it continues")
            del work  # a waiting thread must not keep messages alive
            with self._lock:
                self._open -= 1
                told = self._on_idle if self._open == 0 else None
            if told is not None:
                told()

    @property
    def is_worker(self) -> bool:
        """True if the calling thread is one of the workers."""
        return threading.current_thread() in self._threads

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all work is done; returns False if the time runs out before."""
        loop = asyncio.get_running_loop()
        idle = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(idle.set)

        with self._lock:
            if self._open == 0:
                return True
            self._on_idle = tell
        try:
            async with asyncio.timeout(timeout_s):
                await idle.wait()
        except TimeoutError:
            return False
        finally:
            self._on_idle = None
        return True

    def close(self) -> None:
        """Stop the threads after the work that is already submitted."""
        for _ in self._threads:
            self._work.put(None)


class TaskWorkers:
    """Pool of tasks on the running loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: deque[Callable[[], Awaitable[Any]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        # Counted separately, because a task stays in `_tasks` for a moment after it found no work.
        self._looking_for_work = 0

    def submit(self, work: Callable[[], Any]) -> None:
        """Run `work` as soon as a task is free."""
        self._work.append(work)
        if self._looking_for_work < self._limit:
            self._looking_for_work += 1
            task = asyncio.get_running_loop().create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        try:
            while self._work:
                try:
                    await self._work.popleft()()
                except FAILURES:
                    _log.exception("worker task raised an unexpected error; it continues")
        finally:
            self._looking_for_work -= 1

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all work is done; returns False if the time runs out before."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        # In a loop, because the last piece of work may submit further work, which starts new tasks.
        while tasks := self._tasks - {asyncio.current_task()}:
            _, late = await asyncio.wait(tasks, timeout=max(deadline - loop.time(), 0))
            if late:
                return False
        return True

    def close(self) -> None:
        """Cancel all running tasks except the calling task."""
        current = asyncio.current_task()
        for task in list(self._tasks):
            if task is not current:
                task.cancel()
