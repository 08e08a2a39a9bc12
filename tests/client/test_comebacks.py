"""Brokers and members that leave and return: owners of queues and their start offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from orbitmq._native import Command, dumps_lenient, loads_lenient
from orbitmq.client import instance as instances
from orbitmq.client import presence
from orbitmq.client.consumer import queue_locks as lending
from orbitmq.client.consumer.handlers import Handler, HandlerTable
from orbitmq.client.consumer.push_member import PushMember
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.workers import TaskWorkers
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import ConnectionLost
from orbitmq.protocol.codes import RequestCode
from tests.client.playing import answer
from tests.client.test_push_member import BROKER, QUEUES, PlayedCluster, _until

NEVER_S = 3600.0
OTHER = "10.0.0.2:10911"


class Cluster(PlayedCluster):
    """A broker that can be down, and the nameserver that lists it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.is_listed = True
        self.held: set[str] = set()
        """Ids of absent clients that have locked queues."""

    async def invoke(self, address: str, code: int, **how: Any) -> Command:
        if address == BROKER and self.is_down:
            raise ConnectionLost("down")
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and not self.is_listed:
            self.log.append((code, how.get("ext") or {}, None))
            brokers = [{"brokerName": "b", "cluster": "c", "brokerAddrs": {0: OTHER}}]
            queues = [{"brokerName": "b", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}]
            return answer(body=dumps_lenient({"brokerDatas": brokers, "queueDatas": queues}))
        if code == RequestCode.UNLOCK_BATCH_MQ:
            self.held.discard(loads_lenient(how.get("body") or b"")["clientId"])
            if not self.held:
                self.refused_locks = set()
        return await super().invoke(address, code, **how)

    def open_connection(self, address: str) -> object:
        return None if self.is_down else self

    def commits(self, queue_id: int = 0) -> list[int]:
        return [
            int(ext["commitOffset"])
            for code, ext, _ in self.log
            if code == RequestCode.UPDATE_CONSUMER_OFFSET and ext["queueId"] == str(queue_id)
        ]


class Slow:
    """A handler that keeps its first message until the test lets it go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.done: list[bytes] = []

    async def __call__(self, message: Any) -> None:
        if message.queue_offset == 0:
            await self.go_on.wait()
        self.done.append(message.body)


Test = Callable[[PushMember, Cluster, Slow], Awaitable[None]]


def _play(test: Test, *, concurrency: int = 2, **options: Any) -> None:
    async def run() -> None:
        handler = Slow()
        handlers = HandlerTable()
        handlers.put(Handler("T", handler))
        settings = ConsumerSettings(
            group="g",
            rebalance_s=NEVER_S,
            concurrency=concurrency,
            **({"error_delay_ms": 1} | options),
        )
        client = ClientSettings.of(
            "10.9.9.9:9876", heartbeat_s=NEVER_S, route_refresh_s=NEVER_S, offset_persist_s=NEVER_S
        )
        workers = TaskWorkers(concurrency)
        member = PushMember(client, settings, handlers, workers, awaits=True)
        cluster = Cluster()
        member.instance.network = cluster  # type: ignore[assignment]
        await member.subscribe("T")
        await test(member, cluster, handler)
        handler.go_on.set()
        cluster.is_down = False
        if member.instance.is_running:
            await member.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


async def _works(member: PushMember) -> None:
    await member.start()
    await _until(lambda: set(member.queues) >= set(QUEUES))
    await _until(lambda: not member._rebalancing.locked())


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten waits of seconds."""
    for module in (presence, lending, instances):
        monkeypatch.setattr(module, "SETTLE_S", 0.05)
    monkeypatch.setattr(instances, "FIRST_ANNOUNCE_S", 0.001)
    monkeypatch.setattr(instances, "MAX_ANNOUNCE_S", 0.001)


@pytest.fixture
def never_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a broker count as one that just came back, however slow the machine is."""
    monkeypatch.setattr(presence, "SETTLE_S", NEVER_S)


# ---- Brokers


@pytest.mark.usefixtures("soon")
def test_a_heartbeat_that_fails_is_repeated_at_once() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        await _works(member)
        cluster.is_down = True
        await member.beat()
        begin = len(cluster.log)
        cluster.is_down = False
        await _until(lambda: RequestCode.HEART_BEAT in [code for code, _, _ in cluster.log[begin:]])

    _play(test)


@pytest.mark.usefixtures("soon")
def test_heartbeat_and_locks_precede_pulls_when_a_broker_is_back() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        await _works(member)
        cluster.is_down = True
        cluster.put(0, b"0")  # The held pulls end.
        cluster.put(1, b"1")
        await _until(lambda: member.instance.presence.is_away(BROKER))
        begin = len(cluster.log)
        cluster.is_down = False
        codes = (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.PULL_MESSAGE)
        await _until(
            lambda: RequestCode.PULL_MESSAGE in [code for code, _, _ in cluster.log[begin:]]
        )
        seen = dict.fromkeys(code for code, _, _ in cluster.log[begin:] if code in codes)
        assert list(seen) == list(codes)

    _play(test)


def test_queues_of_an_absent_broker_are_kept_when_the_route_lacks_it() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        await _works(member)
        cluster.is_down, cluster.is_listed = True, False
        await member.beat()
        await member.instance.refresh_routes()
        await member.rebalance()
        assert set(member.queues) >= set(QUEUES)
        assert not any(cache.is_stopped for cache in member.queues.values())

    _play(test)


@pytest.mark.usefixtures("never_settled")
def test_the_route_is_fetched_until_it_names_a_broker_that_is_back() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        await _works(member)
        cluster.is_down, cluster.is_listed = True, False
        await member.beat()
        await member.instance.refresh_routes()
        cluster.is_down = False
        begin = len(cluster.log)

        def asked() -> int:
            route = RequestCode.GET_ROUTEINFO_BY_TOPIC
            return [code for code, ext, _ in cluster.log[begin:] if ext.get("topic") == "T"].count(
                route
            )

        await _until(lambda: asked() > 1)
        cluster.is_listed = True
        await _until(lambda: set(member.instance.routes.subscribe_queues("T")) == set(QUEUES))
        assert set(member.queues) >= set(QUEUES)

    _play(test)


@pytest.mark.usefixtures("never_settled")
def test_members_listed_by_a_broker_that_just_came_back_do_not_count() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        await _works(member)
        cluster.members = ["another"]  # This member was back earlier.
        member.instance.presence.lost(BROKER)
        member.instance.presence.back(BROKER)
        await member.rebalance()
        assert set(member.queues) >= set(QUEUES)

    _play(test)


@pytest.mark.usefixtures("never_settled")
def test_no_new_queue_is_taken_from_a_broker_that_just_came_back() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        cluster.queue_count = 1
        await member.start()
        await _until(lambda: QUEUES[0] in member.queues)
        cluster.queue_count = 2
        await member.instance.refresh_routes()
        member.instance.presence.lost(BROKER)
        member.instance.presence.back(BROKER)
        share = await member._lend([QUEUES[1]])
        assert share == []

    _play(test)


# ---- Queues that change owners


def _away(member: PushMember, cluster: Cluster) -> None:
    """Give the second queue to another member."""
    cluster.members = [member.instance.client_id, "zzz"]


def test_a_queue_is_kept_until_its_offset_is_committed() -> None:
    async def test(member: PushMember, cluster: Cluster, handler: Slow) -> None:
        handler.go_on.set()
        cluster.put(1, b"0")
        await _works(member)
        await _until(lambda: handler.done == [b"0"])

        def lost(_ext: dict[str, str]) -> Command:
            raise ConnectionLost("gone")

        cluster.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = lost
        _away(member, cluster)
        await member.rebalance()
        assert QUEUES[1] in member.queues
        assert RequestCode.UNLOCK_BATCH_MQ not in cluster.codes(RequestCode.UNLOCK_BATCH_MQ)
        del cluster.answers[RequestCode.UPDATE_CONSUMER_OFFSET]
        await _until(lambda: QUEUES[1] not in member.queues)
        await _until(lambda: bool(cluster.codes(RequestCode.UNLOCK_BATCH_MQ)))
        order = cluster.codes(RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNLOCK_BATCH_MQ)
        assert order[-1] == RequestCode.UNLOCK_BATCH_MQ
        assert cluster.committed["1"] == 1

    _play(test)


def test_running_messages_are_finished_before_a_queue_is_given_up() -> None:
    async def test(member: PushMember, cluster: Cluster, handler: Slow) -> None:
        cluster.put(1, *(b"%d" % number for number in range(16)))
        await _works(member)
        await _until(lambda: len(handler.done) >= 8)
        _away(member, cluster)
        giving_up = asyncio.create_task(member.rebalance())
        await _until(lambda: QUEUES[1] in member.queues and member.queues[QUEUES[1]].is_stopped)
        handler.go_on.set()
        await giving_up
        await _until(lambda: QUEUES[1] not in member.queues)
        assert cluster.committed["1"] == len(handler.done)

    _play(test)


def test_messages_before_the_last_one_begun_are_handled_at_the_stop() -> None:
    async def test(member: PushMember, cluster: Cluster, handler: Slow) -> None:
        cluster.put(0, *(b"%d" % number for number in range(16)))
        await _works(member)
        await _until(lambda: len(handler.done) >= 8)
        stopping = asyncio.create_task(member.stop())
        await _until(lambda: member.is_closing)
        handler.go_on.set()
        await stopping
        assert cluster.committed["0"] == len(handler.done)

    _play(test)


def test_an_offset_reset_by_an_older_pull_is_committed_again() -> None:
    async def test(member: PushMember, cluster: Cluster, handler: Slow) -> None:
        handler.go_on.set()
        cluster.put(1, b"0", b"1")
        await _works(member)
        await _until(lambda: len(handler.done) == 2)
        overtaken: list[dict[str, str]] = []

        def stored(ext: dict[str, str]) -> Command:
            overtaken.append(ext)
            first = len(overtaken) == 1
            return answer(ext={"offset": "0" if first else str(cluster.committed["1"])})

        cluster.answers[RequestCode.QUERY_CONSUMER_OFFSET] = stored
        _away(member, cluster)
        await member.rebalance()
        assert cluster.commits(1)[-2:] == [2, 2]

    _play(test)


def test_a_queue_locked_by_another_member_is_taken_once_it_is_released() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        cluster.refused_locks = {0}
        _away(member, cluster)  # The first queue belongs to this member.
        await member.start()
        await _until(lambda: RequestCode.LOCK_BATCH_MQ in cluster.codes(RequestCode.LOCK_BATCH_MQ))
        await _until(lambda: not member._rebalancing.locked())
        assert QUEUES[0] not in member.queues
        cluster.refused_locks = set()
        await _until(lambda: QUEUES[0] in member.queues)

    _play(test)


@pytest.mark.usefixtures("soon")
def test_queues_of_a_member_that_does_not_come_back_are_taken_over() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        _away(member, cluster)
        await member.start()
        await _until(lambda: QUEUES[0] in member.queues)
        cluster.held, cluster.refused_locks = {"zzz"}, {1}
        cluster.members = None
        member.rebalance_soon()
        await _until(lambda: QUEUES[1] in member.queues)
        assert not cluster.held

    _play(test)


@pytest.mark.usefixtures("soon")
def test_a_lone_member_does_not_wait_for_old_locks() -> None:
    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        cluster.refused_locks = {0, 1}
        await member.start()
        await _until(lambda: set(member.queues) >= set(QUEUES))

    _play(test)


@pytest.mark.usefixtures("soon")
def test_a_queue_locked_by_another_meanwhile_is_given_up_uncommitted() -> None:
    async def test(member: PushMember, cluster: Cluster, handler: Slow) -> None:
        handler.go_on.set()
        cluster.put(1, b"0")
        await _works(member)
        await _until(lambda: handler.done == [b"0"])
        cluster.refused_locks = {1}
        _away(member, cluster)
        await member._renew_locks()
        await _until(lambda: QUEUES[1] not in member.queues)
        await member.persist(wait=True)
        assert cluster.commits(1) == []

    _play(test)


def test_joins_assignments_recoveries_and_leaves_are_logged_once(
    caplog: pytest.LogCaptureFixture, soon: None
) -> None:
    caplog.set_level("INFO", "orbitmq.client")

    async def test(member: PushMember, cluster: Cluster, _handler: Slow) -> None:
        await _works(member)
        cluster.is_down = True
        await member.beat()
        await _until(lambda: member.instance.presence.is_away(BROKER))
        cluster.is_down = False
        await _until(lambda: not member.instance.presence.is_away(BROKER))
        await member.stop()

    _play(test)
    texts = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    for words in (
        "joins group g",
        "took up queues of T: a:0",
        "is lost",
        "is back after",
        "leaves group g",
    ):
        assert len([text for text in texts if words in text]) == 1, (words, texts)
