"""Queues of a group member that are added, lost, stalled or full, on a simulated network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq._native import Command
from orbitmq.client.consumer import coordinator as group
from orbitmq.client.consumer import push_member as pushing
from orbitmq.client.consumer.handlers import Handler, HandlerTable
from orbitmq.client.consumer.push_member import PushMember
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.workers import TaskWorkers
from orbitmq.client.settings import ClientSettings
from orbitmq.protocol.codes import RequestCode
from tests.client.test_push_member import QUEUES, PlayedCluster, _play, _until


class Gate:
    """A handler that waits until the gate is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.done: list[bytes] = []

    async def __call__(self, message: Any) -> None:
        self.entered.set()
        await self.opened.wait()
        self.done.append(message.body)


async def _member(
    handler: Any, *, ordered: bool = False, **options: Any
) -> tuple[PushMember, PlayedCluster]:
    handlers = HandlerTable()
    handlers.put(Handler("T", handler, is_ordered=ordered))
    settings = ConsumerSettings(group="g", **options)
    client = ClientSettings.of("10.9.9.9:9876")
    member = PushMember(client, settings, handlers, TaskWorkers(4), awaits=True)
    cluster = PlayedCluster()
    member.instance.network = cluster  # type: ignore[assignment]
    await member.subscribe("T")
    return member, cluster


# ---- Stalled pulls


def test_a_queue_is_taken_anew_when_its_pull_is_idle_for_two_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.put(0, b"before")
        await member.start()
        await _until(lambda: done == [b"before"])
        # The next pulls are held without end: the network has lost them.
        first = dict(member.queues)
        pulls = dict(member._pulls)
        started_ms = group.now_ms()
        monkeypatch.setattr(group, "now_ms", lambda: started_ms + 119_000)
        await member.rebalance()
        assert member.queues == first, "not yet"
        later_ms = started_ms + 125_000
        monkeypatch.setattr(group, "now_ms", lambda: later_ms)
        cluster.stored[0] = 1
        await member.rebalance()
        assert sorted(member.queues) == QUEUES
        for queue, cache in member.queues.items():
            assert cache is not first[queue]
            assert first[queue].is_dropped
            assert pulls[first[queue]].cancelled()
        assert cluster.committed["0"] == 1, "what was done of it is committed"
        cluster.put(0, b"after")
        await _until(lambda: done == [b"before", b"after"])

    _play(test)


@pytest.mark.parametrize("why", ["suspended", "full"])
def test_a_full_or_suspended_queue_is_not_idle(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setattr(pushing, "SUSPENDED_S", 0.001)

    async def run() -> None:
        gate = Gate()
        member, cluster = await _member(gate, max_cached_messages=1)
        if why == "full":
            cluster.put(0, b"0", b"1", b"2")
            cluster.put(1, b"0", b"1", b"2")
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        if why == "full":
            await _until(lambda: all(cache.is_full for cache in member.queues.values()))
        else:
            for task in member._pulls.values():
                task.cancel()  # A held pull ends this way sooner or later.
            member.is_suspended = True
            for cache in member.queues.values():
                member._begin_to_pull(cache)
        first = dict(member.queues)
        started_ms = group.now_ms()
        for module in (group, pushing):
            monkeypatch.setattr(module, "now_ms", lambda: started_ms + 500_000)
        if why == "suspended":
            await _until(lambda: all(cache.last_pull_ms > started_ms for cache in first.values()))
        member.is_suspended = False
        await member.rebalance()
        assert member.queues == first
        gate.opened.set()
        await member.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


# ---- Busy orderly queues


def _unlocks(cluster: PlayedCluster) -> int:
    return len(cluster.codes(RequestCode.UNLOCK_BATCH_MQ))


def test_a_busy_ordered_queue_is_kept_when_its_handler_exceeds_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pushing.RELEASE_S == 1.0, "as long as Java's tryLock"
    monkeypatch.setattr(pushing, "RELEASE_S", 0.05)

    async def run() -> None:
        gate = Gate()
        member, cluster = await _member(gate, ordered=True)
        cluster.put(1, b"slow", b"next")
        await member.start()
        await gate.entered.wait()
        cluster.members = [member.instance.client_id, "zzz"]
        await member.rebalance()
        assert sorted(member.queues) == QUEUES, "the lost queue is tried again next round"
        assert _unlocks(cluster) == 0, "and nobody else may have it meanwhile"
        gate.opened.set()
        await _until(lambda: not member.queues[QUEUES[1]].is_busy)  # type: ignore[attr-defined]
        await member.rebalance()
        assert list(member.queues) == QUEUES[:1]
        assert _unlocks(cluster) == 1
        assert gate.done == [b"slow"], "nothing more is begun"
        assert cluster.committed["1"] == 1, "what its worker did counts"
        await member.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_busy_ordered_queue_is_released_when_its_handler_ends_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushing, "RELEASE_S", 50.0)

    async def run() -> None:
        gate = Gate()
        member, cluster = await _member(gate, ordered=True)
        cluster.put(1, b"slow", b"next")
        await member.start()
        await gate.entered.wait()
        cluster.members = [member.instance.client_id, "zzz"]
        rebalance = asyncio.get_running_loop().create_task(member.rebalance())
        await _until(lambda: member.queues[QUEUES[1]].is_stopped)
        assert not rebalance.done()
        gate.opened.set()
        await rebalance
        assert list(member.queues) == QUEUES[:1]
        assert _unlocks(cluster) == 1
        assert cluster.committed["1"] == 1
        await member.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


# ---- Handlers that hang


def test_a_stuck_message_is_sent_back_with_delay_level_3() -> None:
    async def run() -> None:
        gate = Gate()
        member, cluster = await _member(gate, consume_timeout_s=0.01)
        cluster.put(0, b"stuck")
        await member.start()
        await _until(lambda: bool(cluster.codes(RequestCode.CONSUMER_SEND_MSG_BACK)))
        ((_, ext, _),) = [
            each for each in cluster.log if each[0] == RequestCode.CONSUMER_SEND_MSG_BACK
        ]
        assert (ext["delayLevel"], ext["group"]) == ("3", "g")
        await _until(lambda: member.queues[QUEUES[0]].commit_offset == 1)
        gate.opened.set()
        await member.stop()
        assert len(cluster.codes(RequestCode.CONSUMER_SEND_MSG_BACK)) == 1

    asyncio.run(asyncio.wait_for(run(), 60))


# ---- Topics whose queues change


async def _notice(member: PushMember, cluster: PlayedCluster, queues: int) -> None:
    """Change the queues of the topic, send notices, and wait until the member has the queues."""
    cluster.queue_count = queues
    ext = {"consumerGroup": "g", "orbitTopic": "T"}
    notice = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext=ext)
    cluster.log.clear()
    for _ in range(100):
        member.instance._consumer_ids_changed(notice, None)  # type: ignore[arg-type]
    await _until(lambda: len(member.queues) == queues)
    asked = [ext for code, ext, _ in cluster.log if code == RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert len([ext for ext in asked if ext["topic"] == "T"]) == 1, "once for all notices"


def test_a_notice_with_a_topic_fetches_the_route_before_the_rebalance() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        await _notice(member, cluster, 4)
        await _notice(member, cluster, 1)

    _play(test, rebalance_s=3600)


def test_a_notice_without_a_topic_fetches_no_route() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        cluster.queue_count = 4
        cluster.log.clear()
        notice = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": "g"})
        member.instance._consumer_ids_changed(notice, None)  # type: ignore[arg-type]
        await _until(lambda: bool(cluster.codes(RequestCode.GET_CONSUMER_LIST_BY_GROUP)))
        asked = [ext for code, ext, _ in cluster.log if code == RequestCode.GET_ROUTEINFO_BY_TOPIC]
        assert {"T"} & {ext["topic"] for ext in asked} == set()
        assert len(member.queues) == 2

    _play(test, rebalance_s=3600)


# ---- Limits of a topic


def test_the_limit_of_a_topic_follows_its_number_of_queues() -> None:
    async def run() -> None:
        gate = Gate()
        member, cluster = await _member(
            gate, max_cached_messages_of_topic=8, max_cached_bytes_of_topic=4000, rebalance_s=3600
        )
        for queue in range(4):
            cluster.put(queue, b"x")
        await member.start()
        await _until(lambda: len(cluster.codes(RequestCode.PULL_MESSAGE)) >= 4)
        asked = [ext for code, ext, _ in cluster.log if code == RequestCode.PULL_MESSAGE]
        assert {(ext["maxMsgNums"], ext["orbitMaxBytes"]) for ext in asked} == {("4", "2000")}
        assert {cache.limits.messages for cache in member.queues.values()} == {4}
        cluster.queue_count = 4
        await member.instance.refresh_routes()
        await member.rebalance()
        limits = [cache.limits for cache in member.queues.values()]
        assert {(limit.messages, limit.size_bytes) for limit in limits} == {(2, 1000)}
        gate.opened.set()  # Running messages keep a queue here.
        cluster.queue_count = 1
        await member.instance.refresh_routes()
        await member.rebalance()
        (limit,) = [cache.limits for cache in member.queues.values()]
        assert (limit.messages, limit.size_bytes) == (8, 4000)
        await member.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
