"""A handler stops its consumer before `start` has returned.

A member that has joined pulls at once, so with messages waiting this happens by chance; here the
start is held until it has happened.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from orbitmq import AsyncPushConsumer, PushConsumer
from orbitmq.testing import LocalCluster
from tests.client.conftest import LIMIT_S, eventually, has_left


def _hold_start(consumer: Any, until: threading.Event) -> None:
    join = consumer._join

    async def join_slowly(*args: Any) -> Any:
        member = await join(*args)
        assert await asyncio.to_thread(until.wait, LIMIT_S)
        return member

    consumer._join = join_slowly


def test_a_handler_stops_its_consumer_before_start_returns(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    consumer = PushConsumer(cluster.address, group=group, consume_from="first")
    stopped = threading.Event()
    _hold_start(consumer, until=stopped)

    @consumer.on(topic)
    def handle(_message: Any) -> None:
        consumer.stop()
        stopped.set()

    send("enough")
    consumer.start()
    assert not consumer.is_running
    eventually(lambda: has_left(cluster, group))


def test_a_coroutine_stops_its_consumer_before_start_returns(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    async def go() -> None:
        consumer = AsyncPushConsumer(cluster.address, group=group, consume_from="first")
        stopped = threading.Event()
        _hold_start(consumer, until=stopped)

        @consumer.on(topic)
        async def handle(_message: Any) -> None:
            await consumer.stop()
            stopped.set()

        await consumer.start()
        assert not consumer.is_running

    send("enough")
    asyncio.run(go())
    eventually(lambda: has_left(cluster, group))


def test_run_returns_when_the_consumer_was_stopped_during_the_start(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    """`run` waits for the end of a consumer that has already ended."""
    consumer = PushConsumer(cluster.address, group=group, consume_from="first")
    stopped = threading.Event()
    _hold_start(consumer, until=stopped)

    @consumer.on(topic)
    def handle(_message: Any) -> None:
        consumer.stop()
        stopped.set()

    send("enough")
    running = threading.Thread(target=consumer.run, daemon=True)
    running.start()
    running.join(LIMIT_S)
    assert not running.is_alive()
