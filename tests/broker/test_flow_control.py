"""Flow control: which requests a busy broker refuses, with a test clock and with real load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from orbitmq._native import Appended, Command, NewMessage, Store
from orbitmq.broker.overload import FlowControl, FlowControlledRouter
from orbitmq.broker.write.writer import MessageWriter
from orbitmq.config import BrokerConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import CommandFlag
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Encoding, Wire, broker_address, pull_ext, send_ext

SEND, PULL, BACK = (
    RequestCode.SEND_MESSAGE,
    RequestCode.PULL_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)


@dataclass
class Unflushed:
    """Sends that wait for a disk whose state a test sets."""

    waiting: int = 0
    oldest_waited_ms: float = 0.0

    def __len__(self) -> int:
        return self.waiting


class Loop:
    """A test clock, and an event loop whose turns a test ends."""

    def __init__(self) -> None:
        self.config = BrokerConfig()
        self.now_s = 1000.0
        self._at_end: list[Callable[[], None]] = []
        self.flow = FlowControl(self.config, clock_s=lambda: self.now_s)
        self.flow.call_soon = self._at_end.append

    def end_turn(self) -> None:
        works, self._at_end[:] = list(self._at_end), []
        for work in works:
            work()

    def long_turn(self) -> None:
        assert self.remark(SEND) is None
        self.now_s += 60
        assert self.remark(SEND) is None, "the broker may catch up in the next one"
        self.end_turn()

    def remark(self, code: int) -> str | None:
        """Return the remark with which a request served now is refused."""
        refused = None if self.flow.is_calm() else self.flow.refusal(code)
        assert refused is None or refused.code == ResponseCode.SYSTEM_BUSY
        return refused.remark if refused else None


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_sends_late_in_the_second_long_turn_are_refused_as_busy(loop: Loop) -> None:
    loop.long_turn()
    assert loop.remark(SEND) is None
    loop.now_s += 0.199
    assert loop.remark(SEND) is None
    loop.now_s += 0.051
    busy = (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        "period in queue: 250ms, size of queue: 0"
    )
    assert loop.remark(SEND) == loop.remark(BACK) == busy
    assert loop.remark(PULL) is None, "consumers wait longer"
    assert loop.remark(RequestCode.HEART_BEAT) is None
    loop.now_s += 5
    assert "period in queue: 5250ms" in str(loop.remark(PULL))
    loop.now_s += 30
    assert "period in queue: 35250ms" in str(loop.remark(RequestCode.HEART_BEAT))
    assert loop.flow.refused == 4


def test_a_long_turn_after_a_pause_counts_as_the_first(loop: Loop) -> None:
    loop.long_turn()
    loop.end_turn()  # No work in this turn.
    assert loop.remark(SEND) is None
    loop.now_s += 3
    assert loop.remark(SEND) is None


def test_consecutive_turns_count_even_when_the_machine_was_suspended(
    loop: Loop,
) -> None:
    loop.long_turn()
    loop.now_s += 1
    assert loop.remark(SEND) is None
    loop.now_s += 0.25
    assert "broker busy" in str(loop.remark(SEND))


def test_a_short_turn_ends_the_flow_control(loop: Loop) -> None:
    loop.long_turn()
    assert loop.remark(SEND) is None
    loop.now_s += 0.1
    assert loop.remark(SEND) is None
    loop.end_turn()
    loop.long_turn()


def test_flow_control_limits_are_settings(loop: Loop) -> None:
    loop.config.update({"waitTimeMillsInSendQueue": "1000"})
    loop.long_turn()
    loop.remark(SEND)
    loop.now_s += 0.9
    assert loop.remark(SEND) is None
    loop.now_s += 0.1
    assert loop.remark(SEND) is not None
    loop.config.update({"brokerFastFailureEnable": "false"})
    assert loop.remark(SEND) is None


def test_a_stuck_disk_refuses_only_sends(loop: Loop) -> None:
    disk = loop.flow.unflushed = Unflushed(waiting=3, oldest_waited_ms=1000.0)
    assert loop.remark(SEND) is None
    disk.oldest_waited_ms = 1001.0
    assert loop.remark(SEND) == "[REJECTREQUEST]system busy, start flow control for a while"
    assert loop.remark(BACK) is not None
    assert loop.remark(PULL) is None


def test_the_number_of_sends_that_wait_for_the_disk_is_limited(loop: Loop) -> None:
    disk = loop.flow.unflushed = Unflushed(waiting=9999)
    assert loop.remark(SEND) is None
    disk.waiting = 10_000
    assert loop.remark(SEND) == "[OVERLOAD]system busy, start flow control for a while"
    assert loop.remark(PULL) is None
    loop.config.update({"sendThreadPoolQueueCapacity": "10001"})
    assert loop.remark(SEND) is None


def test_handlers_of_other_requests_are_not_wrapped(loop: Loop) -> None:
    def handler(_request: object, _connection: object) -> None: ...

    router = FlowControlledRouter(loop.flow)
    router.add(handler, [RequestCode.GET_BROKER_CONFIG, SEND])
    assert router.find(RequestCode.GET_BROKER_CONFIG) is handler
    assert router.find(SEND) is not handler


def test_a_oneway_request_is_served_when_the_broker_is_busy(loop: Loop) -> None:
    served: list[Command] = []
    router = FlowControlledRouter(loop.flow)
    router.add(lambda request, _connection: served.append(request), [SEND])
    connection = cast("Connection", None)
    loop.flow.unflushed = Unflushed(waiting=20_000, oldest_waited_ms=5000.0)
    with pytest.raises(Refused):
        router.find(SEND)(Command(SEND), connection)
    oneway = Command(SEND, flag=CommandFlag.ONEWAY)
    router.find(SEND)(oneway, connection)
    assert served == [oneway], "refused, it would be lost without a word"


# ---- A broker under too much load


class SlowPutting(MessageWriter):
    """Takes as long for each message as a very slow disk."""

    meanwhile: Callable[[], None] | None = None
    """Called once, while the first message is being put."""

    def put_plain(self, message: NewMessage) -> Appended:
        if self.meanwhile is not None:
            self.meanwhile()
            self.meanwhile = None
        time.sleep(0.3)
        return super().put_plain(message)


@pytest.fixture
def busy_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"waitTimeMillsInSendQueue": "200"}) as cluster:
        yield cluster


def slow_down(cluster: LocalCluster, meanwhile: Callable[[], None]) -> None:
    (broker,) = cluster.brokers.values()
    good = broker.send_handlers.putting
    values = [getattr(good, name) for name in MessageWriter.__dataclass_fields__]
    slow = broker.send_handlers.putting = SlowPutting(*values)
    slow.meanwhile = meanwhile


def test_sends_to_a_stalled_broker_are_refused_as_busy(
    busy_cluster: LocalCluster, encoding: Encoding
) -> None:
    early, *late = producers = [Wire(broker_address(busy_cluster), encoding) for _ in range(5)]
    consumer = Wire(broker_address(busy_cluster), encoding)
    for wire in [*producers, consumer]:
        while wire.send("t", b"first").code == ResponseCode.SYSTEM_BUSY:
            pass  # A busy machine may have stalled the broker before this test does.
    posted: list[int] = []

    def meanwhile() -> None:
        posted.extend(wire.post(SEND, send_ext("t"), b"second") for wire in late)
        posted.append(consumer.post(PULL, pull_ext("t", 0)))

    slow_down(busy_cluster, meanwhile)
    # The first send takes a long turn; the others arrive in it, and the next turn is long as well.
    assert early.send("t", b"second").code == ResponseCode.SUCCESS
    answers = [wire.answer(opaque) for wire, opaque in zip(late, posted, strict=False)]
    codes = sorted(answer.code for answer in answers)
    assert codes == [ResponseCode.SUCCESS] + 3 * [ResponseCode.SYSTEM_BUSY]
    for answer in answers:
        if answer.code == ResponseCode.SYSTEM_BUSY:
            assert str(answer.remark).startswith("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow ")
            assert answer.encoding == encoding
    assert consumer.answer(posted[-1]).code == ResponseCode.SUCCESS
    assert early.ask(PULL, pull_ext("t", 0)).get_ext("maxOffset") == "8"
    for wire in [*producers, consumer]:
        wire.close()


class StuckDisk:
    """A store whose flush does not complete for a while."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._flushed = store.flushed_offset
        self.is_stuck = True

    @property
    def flushed_offset(self) -> int:
        return self._flushed if self.is_stuck else self._store.flushed_offset


def test_sends_are_refused_as_busy_when_the_disk_does_not_flush() -> None:
    settings = {
        "flushDiskType": "SYNC_FLUSH",
        "syncFlushTimeout": "60000",
        "osPageCacheBusyTimeOutMills": "1000",
        "sendThreadPoolQueueCapacity": "3",
    }
    with LocalCluster(settings=settings) as cluster:
        wire = Wire(broker_address(cluster))
        assert wire.send("t").code == ResponseCode.SUCCESS
        (broker,) = cluster.brokers.values()
        assert broker.acks is not None
        disk = StuckDisk(broker.store)
        broker.acks._store = disk  # type: ignore[assignment]
        waiting = [wire.post(SEND, send_ext("t")) for _ in range(3)]
        overload = wire.send("t")
        assert (overload.code, overload.remark) == (
            ResponseCode.SYSTEM_BUSY,
            "[OVERLOAD]system busy, start flow control for a while",
        )
        while (refused := wire.send("t")).remark == overload.remark:
            pass
        assert refused.remark == "[REJECTREQUEST]system busy, start flow control for a while"
        assert wire.pull("t").code == ResponseCode.SUCCESS
        disk.is_stuck = False
        # Pulling at the end of a queue writes an event to the log, which is flushed.
        assert wire.pull("t", 99).code == ResponseCode.PULL_OFFSET_MOVED
        assert {wire.answer(opaque).code for opaque in waiting} == {ResponseCode.SUCCESS}
        assert wire.send("t").code == ResponseCode.SUCCESS
        wire.close()


def test_a_send_is_answered_with_a_flush_timeout_when_the_flush_is_late() -> None:
    settings = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "100"}
    with LocalCluster(settings=settings) as cluster:
        wire = Wire(broker_address(cluster))
        (broker,) = cluster.brokers.values()
        assert broker.acks is not None
        broker.acks._store = StuckDisk(broker.store)  # type: ignore[assignment]
        late = wire.send("t")
        assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert late.get_ext("queueOffset") == "0", "it is there all the same"
        assert wire.pull("t").code == ResponseCode.SUCCESS
        wire.close()


def test_oneway_messages_to_a_stalled_broker_are_stored(busy_cluster: LocalCluster) -> None:
    early, *late = producers = [Wire(broker_address(busy_cluster)) for _ in range(5)]
    for wire in producers:
        while wire.send("t", b"first").code == ResponseCode.SYSTEM_BUSY:
            pass  # A busy machine may have stalled the broker before this test does.

    def meanwhile() -> None:
        for wire in late:
            wire.post(SEND, send_ext("t"), b"second", flag=CommandFlag.ONEWAY)

    slow_down(busy_cluster, meanwhile)
    assert early.send("t", b"second").code == ResponseCode.SUCCESS
    found = 0
    while found < 10:
        found = int(early.ask(PULL, pull_ext("t", 0)).get_ext("maxOffset") or 0)
    for wire in producers:
        wire.close()
