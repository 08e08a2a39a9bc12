"""Decisions of a group member on a simulated network: no sockets, no threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from orbitmq._native import Command, dumps_lenient, encode_record, loads_lenient
from orbitmq.client.consumer import retry as settling
from orbitmq.client.consumer.handlers import Handler, HandlerTable
from orbitmq.client.consumer.push_member import PushMember
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.workers import TaskWorkers
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import BrokerRefused, ConnectionLost
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from tests.client.playing import answer

BROKER = "10.0.0.1:10911"
QUEUES = [MessageQueue("T", "a", number) for number in range(2)]


class PlayedCluster:
    """Answers like one broker and its nameserver; `log` holds the requests."""

    def __init__(self) -> None:
        self.log: list[tuple[int, dict[str, str], bytes | None]] = []
        self.members: list[str] | None = None
        self.stored = dict.fromkeys(range(4), 0)
        self.messages: dict[int, list[bytes]] = {number: [] for number in range(4)}
        self.refused_locks: set[int] = set()
        self.answers: dict[int, Callable[[dict[str, str]], Command]] = {}
        self.committed: dict[str, int] = {}
        self.arrived = asyncio.Event()
        self.queue_count = 2
        self.topics = {"T"}

    def codes(self, *wanted: int) -> list[int]:
        return [code for code, _, _ in self.log if code in wanted]

    async def invoke(
        self,
        address: str,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        **_how: Any,
    ) -> Command:
        ext = ext or {}
        self.log.append((code, ext, body))
        if code in self.answers:
            return self.answers[code](ext)
        if code == RequestCode.PULL_MESSAGE:
            return await self._pull(ext)
        return self._answer(code, ext, body)

    def _answer(self, code: int, ext: dict[str, str], body: bytes | None) -> Command:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            count = self.queue_count
            if ext["topic"] not in self.topics:
                return answer(ResponseCode.TOPIC_NOT_EXIST)
            brokers = [{"brokerName": "a", "cluster": "c", "brokerAddrs": {0: BROKER}}]
            queues = [
                {"brokerName": "a", "readQueueNums": count, "writeQueueNums": count, "perm": 6}
            ]
            return answer(body=dumps_lenient({"brokerDatas": brokers, "queueDatas": queues}))
        if code == RequestCode.HEART_BEAT:
            self.client_id = loads_lenient(body or b"")["clientID"]
        elif code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            ids = [self.client_id] if self.members is None else self.members
            return answer(body=dumps_lenient({"consumerIdList": ids}))
        elif code == RequestCode.QUERY_CONSUMER_OFFSET:
            return answer(ext={"offset": str(self.stored[int(ext["queueId"])])})
        elif code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self.committed[ext["queueId"]] = int(ext["commitOffset"])
        elif code == RequestCode.LOCK_BATCH_MQ:
            wanted = loads_lenient(body or b"")["mqSet"]
            granted = [each for each in wanted if each["queueId"] not in self.refused_locks]
            return answer(body=dumps_lenient({"lockOKMQSet": granted}))
        return answer()

    async def _pull(self, ext: dict[str, str]) -> Command:
        queue, offset = int(ext["queueId"]), int(ext["queueOffset"])
        if ext["topic"] != "T":
            await asyncio.Event().wait()  # No message arrives.
        while not self.messages[queue][offset:]:
            await self.arrived.wait()
            self.arrived.clear()
        records = self.messages[queue][offset:]
        end = {"nextBeginOffset": offset + len(records), "maxOffset": 100, "minOffset": 0}
        fields = {name: str(value) for name, value in end.items()} | {"suggestWhichBrokerId": "0"}
        return answer(ext=fields, body=b"".join(records))

    def put(self, queue: int, *bodies: bytes) -> None:
        for body in bodies:
            offset = len(self.messages[queue])
            record = encode_record("T", body, queue_id=queue, queue_offset=offset)
            self.messages[queue].append(record)
        self.arrived.set()

    async def notify(
        self,
        address: str,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        **_how: Any,
    ) -> None:
        self.log.append((code, ext or {}, body))
        self._answer(code, ext or {}, body)

    def ready(self, address: str) -> None:
        """No shortcut around `invoke`."""

    def open_connection(self, address: str) -> object:
        return self

    async def close(self) -> None:
        self.log.append((-1, {}, None))


def _play(
    test: Callable[[PushMember, PlayedCluster, list[bytes]], Awaitable[None]],
    *,
    handle: Callable[[Any], None] | None = None,
    ordered: bool = False,
    **options: Any,
) -> None:
    async def run() -> None:
        done: list[bytes] = []

        async def handler(message: Any) -> None:
            if handle is not None:
                handle(message)
            done.append(message.body)

        handlers = HandlerTable()
        handlers.put(Handler("T", handler, is_ordered=ordered))
        settings = ConsumerSettings(group="g", **options)
        client = ClientSettings.of("10.9.9.9:9876")
        member = PushMember(client, settings, handlers, TaskWorkers(4), awaits=True)
        cluster = PlayedCluster()
        member.instance.network = cluster  # type: ignore[assignment]
        await member.subscribe("T")
        await test(member, cluster, done)
        if member.instance.is_running:
            await member.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nobody tells of what is waited for here
        await asyncio.sleep(0.001)


def _has_committed(member: PushMember, offset: int) -> bool:
    """Return True if the first queue is assigned and its work is done up to an offset."""
    cache = member.queues.get(QUEUES[0])
    return cache is not None and cache.commit_offset == offset


def test_start_sends_a_heartbeat_before_the_first_pull() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(cluster.codes(RequestCode.PULL_MESSAGE)) == 2)
        first_pull = next(
            at for at, (code, _, _) in enumerate(cluster.log) if code == RequestCode.PULL_MESSAGE
        )
        assert RequestCode.HEART_BEAT in [code for code, _, _ in cluster.log[:first_pull]]
        entry = member.describe()
        assert entry["consumeType"] == "CONSUME_PASSIVELY"
        topics = [each["topic"] for each in entry["subscriptionDataSet"]]
        assert topics == ["%RETRY%g", "T"]

    _play(test)


def test_start_fails_when_brokers_refuse_the_signature() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        remark = "org.apache.rocketmq.acl.common.AclException: Check signature failed"
        cluster.answers[RequestCode.HEART_BEAT] = lambda _: answer(1, remark=remark)
        with pytest.raises(BrokerRefused, match="check access_key and secret_key"):
            await member.start()
        assert not member.instance.is_running
        assert cluster.codes(-1) == [-1], "its connections are closed"
        assert not cluster.codes(RequestCode.PULL_MESSAGE)

    _play(test)


def test_a_heartbeat_refused_for_another_reason_does_not_stop_the_start() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        cluster.client_id = member.instance.client_id
        cluster.answers[RequestCode.HEART_BEAT] = lambda _: answer(1, remark="not now")
        await member.start()
        await _until(lambda: len(cluster.codes(RequestCode.PULL_MESSAGE)) == 2)

    _play(test)


def test_stopping_commits_finished_messages_before_unregistering() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.put(0, b"0", b"1", b"2")
        await member.start()
        await _until(lambda: len(done) == 3)
        await member.stop()
        assert cluster.committed["0"] == 3
        order = cluster.codes(RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNREGISTER_CLIENT, -1)
        # First the offsets, then the unregistration, then the connections.
        assert order[-2:] == [RequestCode.UNREGISTER_CLIENT, -1]
        assert order[0] == RequestCode.UPDATE_CONSUMER_OFFSET

    _play(test)


def test_stopping_waits_for_handlers_and_commits_what_they_finish() -> None:
    async def run() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()
        done: list[bytes] = []

        async def handler(message: Any) -> None:
            begun.set()
            await go_on.wait()
            done.append(message.body)

        handlers = HandlerTable()
        handlers.put(Handler("T", handler))
        settings = ConsumerSettings(group="g", concurrency=1)
        member = PushMember(
            ClientSettings.of("10.9.9.9:9876"), settings, handlers, TaskWorkers(1), awaits=True
        )
        cluster = PlayedCluster()
        member.instance.network = cluster  # type: ignore[assignment]
        await member.subscribe("T")
        cluster.put(0, b"0", b"1", b"2")
        await member.start()
        await begun.wait()
        stopping = asyncio.get_running_loop().create_task(member.stop())
        await asyncio.sleep(0.02)
        assert not stopping.done()
        go_on.set()
        await stopping
        assert done == [b"0"]
        assert cluster.committed["0"] == 1

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_lost_queue_is_committed_and_dropped() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.put(0, b"0")
        cluster.put(1, b"1")
        await member.start()
        await _until(lambda: len(done) == 2)
        cluster.members = [member.instance.client_id, "zzz"]
        await member.rebalance()
        assert list(member.queues) == [QUEUES[0]]
        assert cluster.committed == {"1": 1}
        cluster.members = None
        cluster.stored[1] = 1
        await member.rebalance()
        assert sorted(member.queues) == QUEUES
        cluster.put(1, b"2")
        await _until(lambda: len(done) == 3)

    _play(test)


def test_all_queues_are_dropped_when_the_group_does_not_list_the_member() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        cluster.members = ["somebody", "else"]
        await member.rebalance()
        assert member.queues == {}
        cluster.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: answer(1)
        cluster.members = None
        await member.rebalance()
        assert member.queues == {}

    _play(test)


def test_a_queue_without_an_offset_answer_waits_for_the_next_round() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        def lost(ext: dict[str, str]) -> Command:
            if ext["queueId"] == "1":
                raise ConnectionLost("gone")
            return answer(ext={"offset": "0"})

        cluster.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lost
        await member.start()
        await _until(lambda: len(member.queues) == 1)
        assert list(member.queues) == [QUEUES[0]]
        del cluster.answers[RequestCode.QUERY_CONSUMER_OFFSET]
        await member.rebalance()
        assert sorted(member.queues) == QUEUES

    _play(test)


def test_a_moved_offset_is_used_and_committed() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.stored[0] = 50
        cluster.put(0, b"0", b"1", b"2")

        def moved(ext: dict[str, str]) -> Command:
            if ext["queueId"] == "0":
                del cluster.answers[RequestCode.PULL_MESSAGE]
                cluster.stored[0] = 2
                fields = {"nextBeginOffset": "2", "minOffset": "2", "maxOffset": "3"}
                return answer(ResponseCode.PULL_OFFSET_MOVED, ext=fields)
            raise ConnectionLost("busy with the other")

        cluster.answers[RequestCode.PULL_MESSAGE] = moved
        await member.start()
        await _until(lambda: done == [b"2"])
        assert cluster.committed["0"] == 2

    _play(test, error_delay_ms=10)


def test_a_heartbeat_is_sent_when_a_broker_has_no_subscription() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(cluster.codes(RequestCode.PULL_MESSAGE)) == 2)
        await _until(lambda: not member._rebalancing.locked())
        beats = len(cluster.codes(RequestCode.HEART_BEAT))
        cache = member.queues[QUEUES[0]]
        refusal = BrokerRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "who are you")
        await member._pull_failed(cache, refusal)
        assert len(cluster.codes(RequestCode.HEART_BEAT)) == beats + 1

    _play(test, error_delay_ms=1)


def test_a_failed_message_goes_back_once() -> None:
    def fail(message: Any) -> None:
        if message.body == b"1":
            raise ValueError("no")

    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.put(0, b"0", b"1", b"2")
        await member.start()
        await _until(lambda: _has_committed(member, 3))
        assert done == [b"0", b"2"]
        (back,) = [
            ext for code, ext, _ in cluster.log if code == RequestCode.CONSUMER_SEND_MSG_BACK
        ]
        assert (back["group"], back["delayLevel"], back["maxReconsumeTimes"]) == ("g", "0", "16")

    _play(test, handle=fail)


def test_a_message_is_retried_locally_when_no_broker_takes_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling, "LOCAL_RETRY_S", 0.01)
    tries: list[int] = []

    def fail(message: Any) -> None:
        tries.append(message.reconsume_times)
        if len(tries) < 3:
            raise ValueError("no")

    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: answer(1)
        cluster.put(0, b"0")
        await member.start()
        await _until(lambda: done == [b"0"])
        assert tries == [0, 1, 2]
        await _until(lambda: _has_committed(member, 1))

    _play(test, handle=fail)


def _never_back(cluster: PlayedCluster, code: int = ResponseCode.MESSAGE_ILLEGAL) -> None:
    """Have no broker accept a message or a copy of it back."""
    cluster.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda _: answer(1)
    cluster.answers[RequestCode.SEND_MESSAGE] = lambda _: answer(code)
    cluster.topics.add("%RETRY%g")


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
def test_a_message_no_broker_can_take_back_is_finally_set_aside(
    ordered: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settling, "LOCAL_RETRY_S", 0.001)
    tries: list[int] = []

    def fail(message: Any) -> None:
        if message.body == b"bad":
            tries.append(message.reconsume_times)
            raise ValueError("no")

    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        _never_back(cluster)
        cluster.put(0, b"0", b"bad", b"2")
        await member.start()
        await _until(lambda: _has_committed(member, 3))
        assert done == [b"0", b"2"]
        assert tries == [0, 1, 2, 3]
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "at offset 1, physical offset 0, was tried 3 times" in record.getMessage()

    _play(test, handle=fail, ordered=ordered, max_reconsume_times=3, suspend_ms=10)


def test_a_message_is_not_set_aside_when_brokers_are_only_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling, "LOCAL_RETRY_S", 0.001)
    tries: list[int] = []

    def fail(message: Any) -> None:
        tries.append(message.reconsume_times)
        if len(tries) < 8:
            raise ValueError("no")

    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        _never_back(cluster, ResponseCode.SERVICE_NOT_AVAILABLE)
        cluster.put(0, b"0")
        await member.start()
        await _until(lambda: done == [b"0"])
        assert tries == list(range(8))

    _play(test, handle=fail, max_reconsume_times=3)


def test_an_unexpected_error_stops_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LOCAL_RETRY_S", 0.001)
    broken = ["first", "second"]

    def fail(message: Any) -> None:
        if broken:
            raise ValueError("no")

    def send(*_args: Any, **_how: Any) -> Any:
        raise KeyError(broken.pop())

    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        monkeypatch.setattr(settling, "send_back", send)
        cluster.put(0, b"0")
        await member.start()
        await _until(lambda: done == [b"0"])
        await _until(lambda: _has_committed(member, 1))

    _play(test, handle=fail)


def test_an_ordered_queue_goes_on_when_settling_fails() -> None:
    tries: list[int] = []

    def fail(message: Any) -> None:
        tries.append(message.reconsume_times)
        if len(tries) < 3:
            raise ValueError("no")

    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        async def broken(*_args: Any) -> None:
            raise KeyError("unforeseen")

        member.orderly._settle = broken
        cluster.put(0, b"0")
        await member.start()
        await _until(lambda: done == [b"0"])

    _play(test, handle=fail, ordered=True, suspend_ms=10)


def test_a_damaged_record_is_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.put(0, b"0", b"flipped", b"2")
        record = cluster.messages[0][1]
        cluster.messages[0][1] = record.replace(b"flipped", b"flopped")
        await member.start()
        await _until(lambda: _has_committed(member, 3))
        assert done == [b"0", b"2"]
        (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "at offset 1, physical offset 0, is damaged" in told.getMessage()

    _play(test)


def test_a_malformed_answer_does_not_end_the_pulling() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        def nonsense(_ext: dict[str, str]) -> Command:
            del cluster.answers[RequestCode.PULL_MESSAGE]
            return answer(ext={"nextBeginOffset": "many"})

        cluster.answers[RequestCode.PULL_MESSAGE] = nonsense
        cluster.put(0, b"0")
        cluster.put(1, b"1")
        await member.start()
        await _until(lambda: sorted(done) == [b"0", b"1"])

    _play(test, error_delay_ms=1)


def test_broadcast_failures_are_dropped(tmp_path: Any) -> None:
    def fail(_message: Any) -> None:
        raise ValueError("no")

    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        cluster.put(0, b"0")
        await member.start()
        await _until(lambda: _has_committed(member, 1))
        assert cluster.codes(RequestCode.CONSUMER_SEND_MSG_BACK) == []
        assert cluster.codes(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == []
        assert "%RETRY%g" not in member.subscriptions

    _play(test, handle=fail, broadcast=True, consume_from="first", offset_directory=tmp_path)


def test_a_broadcast_queue_continues_at_its_offset_after_an_absence(tmp_path: Any) -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.put(0, b"0", b"1")
        cluster.put(1, b"x")
        await member.start()
        await _until(lambda: len(done) == 3)
        cluster.queue_count = 1
        await member.instance.refresh_routes()
        await member.rebalance()
        assert list(member.queues) == [QUEUES[0]]
        cluster.queue_count = 2
        cluster.put(1, b"y")
        await member.instance.refresh_routes()
        await member.rebalance()
        await _until(lambda: len(done) == 4)
        assert done[-1] == b"y", "what was done before does not come again"

    _play(test, broadcast=True, consume_from="first", offset_directory=tmp_path)


def test_an_ordered_queue_is_pulled_only_with_its_lock() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        cluster.refused_locks = {1}
        cluster.put(0, b"0", b"1")
        cluster.put(1, b"x")
        await member.start()
        await _until(lambda: done == [b"0", b"1"])
        assert list(member.queues) == [QUEUES[0]]
        cluster.refused_locks = set()
        await member.rebalance()
        await _until(lambda: done == [b"0", b"1", b"x"])
        await member.stop()
        last = [code for code, _, _ in cluster.log][-3:]
        assert last == [RequestCode.UNLOCK_BATCH_MQ, RequestCode.UNREGISTER_CLIENT, -1]

    _play(test, ordered=True)


def test_a_lost_lock_stops_the_queue() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        cluster.refused_locks = {0}
        await member._renew_locks()
        cluster.put(0, b"0")
        cluster.put(1, b"1")
        await _until(lambda: done == [b"1"])
        await asyncio.sleep(0.02)
        assert done == [b"1"]

    _play(test, ordered=True)


def _locks(cluster: PlayedCluster) -> list[tuple[int, list[int]]]:
    """Return the lock and unlock requests, in order."""
    return [
        (code, sorted(queue["queueId"] for queue in loads_lenient(body or b"{}")["mqSet"]))
        for code, _, body in cluster.log
        if code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
    ]


def test_released_locks_are_not_requested_again() -> None:
    """Not even by a renewal that is due while the broker releases the queues."""

    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        usual, renewals = cluster.invoke, []

        async def invoke(address: str, code: int, **how: Any) -> Command:
            response = await usual(address, code, **how)
            if code == RequestCode.UNLOCK_BATCH_MQ:
                renewals.append(asyncio.create_task(member._renew_locks()))
                await asyncio.sleep(0.01)
            return response

        cluster.invoke = invoke  # type: ignore[method-assign]
        await member.stop()
        await asyncio.gather(*renewals)
        assert _locks(cluster)[-1] == (RequestCode.UNLOCK_BATCH_MQ, [0, 1])
        assert len(renewals) == 1

    _play(test, ordered=True)


def test_a_lock_granted_during_the_stop_is_released() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        usual, asked, may_answer = cluster.invoke, asyncio.Event(), asyncio.Event()

        async def invoke(address: str, code: int, **how: Any) -> Command:
            response = await usual(address, code, **how)
            if code == RequestCode.LOCK_BATCH_MQ:
                asked.set()
                await may_answer.wait()
            return response

        cluster.invoke = invoke  # type: ignore[method-assign]
        await member.start()
        await asked.wait()
        stopping = asyncio.create_task(member.stop())
        await _until(lambda: member.is_closing)
        may_answer.set()
        await stopping
        assert _locks(cluster) == [
            (RequestCode.LOCK_BATCH_MQ, [0, 1]),
            (RequestCode.UNLOCK_BATCH_MQ, [0, 1]),
        ]

    _play(test, ordered=True)


def test_a_suspended_member_does_not_rebalance() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        member.is_suspended = True
        cluster.members = ["others"]
        await member.rebalance()
        assert len(member.queues) == 2

    _play(test)


def test_unsubscribing_drops_all_queues() -> None:
    async def test(member: PushMember, cluster: PlayedCluster, _done: list[bytes]) -> None:
        await member.start()
        await _until(lambda: len(member.queues) == 2)
        await member.unsubscribe("T")
        assert member.queues == {}
        assert [each["topic"] for each in member.describe()["subscriptionDataSet"]] == ["%RETRY%g"]

    _play(test)
