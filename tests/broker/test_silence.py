"""Idle connections, clients without heartbeats, and locks that are not renewed."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.broker.periodic import PeriodicTasks
from orbitmq.broker.state.clients import EXPIRY_MS
from orbitmq.broker.state.queue_locks import MAX_LIVE_MS, QueueLocks
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address


def test_a_broker_closes_connections_that_are_idle_for_too_long() -> None:
    with LocalCluster(settings={"serverChannelMaxIdleTimeSeconds": "3"}) as cluster:
        host, _, port = broker_address(cluster).rpartition(":")
        busy = Wire(broker_address(cluster))
        with socket.create_connection((host, int(port)), timeout=0.1) as idle:
            began = time.monotonic()
            while True:
                busy.send("t")  # Ten times a second, while the other connection is idle.
                try:
                    assert idle.recv(1) == b""
                    break
                except TimeoutError:
                    assert time.monotonic() < began + 60, "still open"
        assert time.monotonic() > began + 2.9, "not at once"
        busy.send("t")
        busy.close()


def test_a_client_without_heartbeats_is_dropped(
    cluster: LocalCluster, connect: Callable[[], Wire], on_broker: Callable[..., Any]
) -> None:
    (broker,) = cluster.brokers.values()
    silent, lively = connect(), connect()
    silent.heartbeat("g", "t", client_id="silent")
    lively.heartbeat("g", "t", client_id="lively")

    def pass_time() -> list[str]:
        """Let two minutes pass in which only one client sends heartbeats."""
        for client in broker.consumers.groups["g"].members.values():
            if client.client_id == "silent":
                client.last_seen_ms -= EXPIRY_MS + 1
        broker._drop_silent_clients()
        return [client.client_id for client in broker.consumers.groups["g"].members.values()]

    assert on_broker(pass_time) == ["lively"]
    while True:
        push = lively.next_push()
        if push.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED and not lively.pushed:
            break
    with pytest.raises(AssertionError, match="closed the connection"):
        silent.answer(0)  # No answer will come.
    # A client that sends again is accepted.
    back = connect()
    back.heartbeat("g", "t", client_id="silent")
    assert len(on_broker(lambda: broker.consumers.groups["g"].members)) == 2


def test_a_lock_that_is_not_renewed_expires_after_a_minute() -> None:
    locks = QueueLocks()
    queue = MessageQueue("t", "b", 0)
    assert locks.lock("g", "one", [queue], 1000) == [queue]
    assert locks.lock("g", "two", [queue], 1000 + MAX_LIVE_MS) == []
    assert locks.lock("other", "two", [queue], 1000) == [queue], "each group has its own"
    assert locks.lock("g", "one", [queue], 2000) == [queue], "renewed"
    assert locks.lock("g", "two", [queue], 2000 + MAX_LIVE_MS) == []
    assert locks.lock("g", "two", [queue], 2001 + MAX_LIVE_MS) == [queue]
    locks.unlock("g", "one", [queue])
    assert locks.lock("g", "one", [queue], 2002 + MAX_LIVE_MS) == [], "it is another's by now"


def test_a_failed_periodic_task_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        housekeeping = PeriodicTasks()
        done: asyncio.Queue[int] = asyncio.Queue()
        rounds = 0

        def work() -> None:
            nonlocal rounds
            rounds += 1
            done.put_nowait(rounds)
            if rounds == 1:
                raise ValueError("the first round fails")

        async def slow() -> None:
            await asyncio.sleep(0)
            done.put_nowait(-1)

        housekeeping.every(1, work)
        seen = [await done.get() for _ in range(2)]
        housekeeping.every(60_000, slow, first_after_ms=0)
        while await done.get() != -1:
            pass
        await housekeeping.stop()
        assert seen == [1, 2]

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(test(), 20))
    assert "the first round fails" in caplog.text
