"""A consumer leaves its group even when its stop is cancelled or fails.

A member that stays, because nobody waited for its end, would keep its queues from all others.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq import AsyncPushConsumer
from orbitmq.testing import LocalCluster
from tests.client.conftest import LIMIT_S, eventually, has_left


def test_a_consumer_leaves_its_group_when_its_stop_is_cancelled(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    async def go() -> None:
        consumer = AsyncPushConsumer(cluster.address, group=group, consume_from="first")
        began, may_end = asyncio.Event(), asyncio.Event()

        @consumer.on(topic)
        async def handle(_message: Any) -> None:
            began.set()
            await may_end.wait()

        await consumer.start()
        await asyncio.wait_for(began.wait(), LIMIT_S)
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(stopping, LIMIT_S)
        assert has_left(cluster, group)
        assert not may_end.is_set()

    send("x")
    asyncio.run(go())


def test_a_consumer_leaves_its_group_when_offsets_cannot_be_saved(
    cluster: LocalCluster, topic: str, group: str, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        consumer = AsyncPushConsumer(cluster.address, group=group, consume_from="first")

        @consumer.on(topic)
        async def handle(_message: Any) -> None: ...

        await consumer.start()
        member = consumer._running

        async def full(**_how: Any) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(member, "persist", full)
        with pytest.raises(OSError, match="no space left"):
            await consumer.stop()

    send("x")
    asyncio.run(go())
    eventually(lambda: has_left(cluster, group))
