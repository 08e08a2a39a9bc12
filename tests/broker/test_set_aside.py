"""The broker's loops set aside a message that cannot be handled and continue with the queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import Appended, NewMessage, PanicException, Store, StoreOptions
from orbitmq.broker.write.delay import DelayService
from orbitmq.broker.write.set_aside import MessagePosition, SetAside, passes
from orbitmq.errors import (
    DiskFull,
    FlushFailed,
    InvalidMessage,
    MalformedRecord,
    OrbitError,
    StoreClosed,
    StoreError,
    StoreIOError,
    StorePanic,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from orbitmq.remoting.router import Refused
from orbitmq.testing import LocalCluster

from .conftest import Wire
from .test_delay_and_retry import wait_for
from .test_timers import HOUR_MS, Bench

ILLEGAL = Refused(ResponseCode.MESSAGE_ILLEGAL, "too long")
BUSY = Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")
ODD = "k\x01a\x01b"
"""A property of Java's clients whose value contains the character that ends a name."""


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (BUSY, True),
        (Refused(ResponseCode.SYSTEM_ERROR, "create mapped file failed"), True),
        (DiskFull("no room"), True),
        (StoreClosed("closed"), True),
        (OSError(28, "no space"), True),
        (MemoryError(), True),
        (ILLEGAL, False),
        (InvalidMessage("no room"), False),
        (MalformedRecord("cut"), False),
        (ValueError("x"), False),
        (KeyError("x"), False),
        (PanicException("a case nobody thought of"), False),
        (FlushFailed("an earlier append ended in a panic"), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_only_errors_of_the_machine_are_temporary(error: BaseException, may_pass: bool) -> None:
    assert passes(error) is may_pass
    assert SetAside("message").takes(MessagePosition("T", 0, 1, 2), error) is not may_pass


@pytest.mark.parametrize("error", [StoreIOError("bad sector"), StorePanic("read past the end")])
def test_an_unreadable_message_is_tried_several_times(error: StoreError) -> None:
    aside = SetAside("message", read_attempts=3)
    bad, other = MessagePosition("T", 0, 1, 100), MessagePosition("T", 1, 1, 200)
    assert [aside.takes(place, error) for place in (bad, bad, other, bad)] == [
        False,
        False,
        False,
        True,
    ]
    assert aside.takes(MessagePosition("T", 1, 2, 300), error) is False, (
        "the next one begins to count anew"
    )
    assert aside.count == 1


def test_a_message_set_aside_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    SetAside("delayed message").takes(MessagePosition("T", 3, 7, 4711), ValueError("no queue"))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "topic T, queue 3, offset 7, physical offset 4711" in record.getMessage()
    assert "no queue" in record.getMessage()


# ---- Delayed messages


class Level:
    """A delay service on its own store, with one level and a put that a test can break."""

    def __init__(self, root: Path) -> None:
        options = StoreOptions(
            commit_log_file_size=1 << 20, consume_queue_file_size=20_000, delay_levels_ms=[1]
        )
        self.now = 1_700_000_000_000
        self.store = Store.open(root, options, create=True)
        self.service = DelayService(self.store, [1], self._put, lambda: self.now)
        self.failures: list[Exception] = []
        self.put = asyncio.Event()

    def _put(self, message: NewMessage) -> Appended:
        if self.failures:
            raise self.failures.pop(0)
        appended = self.store.append(message, now_ms=self.now)
        self.put.set()
        return appended

    def hold(self, body: bytes, properties: dict[str, str] | str) -> None:
        message = NewMessage(SCHEDULE_TOPIC, body, queue_id=0, properties=properties)
        self.store.append(message, now_ms=self.now)

    async def deliver(self) -> list[bytes]:
        self.now += 1000
        self.service.start()
        await asyncio.wait_for(self.put.wait(), 30)
        self.service.stop()
        return [record.body for record in self.store.read("t", 0, 0, max_messages=100).records()]


@pytest.fixture
def level(tmp_path: Path) -> Iterator[Level]:
    made = Level(tmp_path / "store")
    yield made
    made.store.close()


GOOD = {"REAL_TOPIC": "t", "REAL_QID": "0"}


@pytest.mark.parametrize(
    "properties",
    [
        GOOD | {"REAL_QID": "x"},
        GOOD | {"REAL_QID": "-1"},
        GOOD | {"REAL_QID": "9" * 30},
        {"REAL_QID": "0"},
        GOOD | {"REAL_TOPIC": "a/b"},
        GOOD | {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"},
    ],
    ids=["no number", "negative", "huge", "no topic", "no directory", "half topic"],
)
def test_a_delayed_message_without_a_valid_target_delays_no_other(
    level: Level, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    level.hold(b"stuck", properties)
    level.hold(b"good", GOOD)
    assert asyncio.run(level.deliver()) == [b"good"]
    assert level.service.as_json() == {"offsetTable": {1: 2}}
    assert f"topic {SCHEDULE_TOPIC}, queue 0, offset 0, physical offset 0" in caplog.text


@pytest.mark.parametrize("error", [BUSY, DiskFull("no room"), OSError(5, "the disk is away")])
def test_a_delayed_message_is_kept_while_the_store_is_not_writable(
    level: Level, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.write.delay.FAULT_RETRY_MS", 10)
    level.hold(b"good", GOOD)
    level.failures = [error, error]
    assert asyncio.run(level.deliver()) == [b"good"]


def test_a_property_with_separators_survives_delay_and_retries(wire: Wire) -> None:
    wire.send("t", b"first")
    assert wire.send("t", b"odd", properties=f"DELAY\x011\x02{ODD}").code == 0
    record = wait_for(wire, "t", 1)
    assert (record.body, record.properties["k"]) == (b"odd", "a\x01b")
    wire.heartbeat("g", "t")
    ext = {"offset": str(record.physical_offset), "group": "g", "delayLevel": "1"}
    assert wire.ask(36, ext).code == ResponseCode.SUCCESS
    again = wait_for(wire, "%RETRY%g")
    assert (again.body, again.properties["k"]) == (b"odd", "a\x01b")


# ---- Timers


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "store")
    yield made
    made.store.close()


def append_timer(bench: Bench, queue_id: int, **changes: str) -> None:
    held = GOOD | {"REAL_TOPIC": "T", "REAL_QID": "1", "TIMER_OUT_MS": str(bench.now)} | changes
    message = NewMessage(TIMER_TOPIC, b"stuck", queue_id=queue_id, properties=held)
    bench.store.append(message, now_ms=bench.now)


@pytest.mark.parametrize("changes", [{"TIMER_OUT_MS": "x"}, {"TIMER_OUT_MS": "-1"}])
def test_a_broker_starts_with_a_timer_without_a_valid_time(
    bench: Bench, changes: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    append_timer(bench, 0, **changes)
    bench.hold("good", 1000)
    bench.come_back()
    assert [body for _, body in bench.run(bench.now + 2000, 500)] == [b"good"]
    assert f"topic {TIMER_TOPIC}, queue 0, offset 0, physical offset 0" in caplog.text


def test_a_timer_without_a_valid_target_delays_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    append_timer(bench, 0, REAL_QID="x")
    append_timer(bench, 1, TIMER_OUT_MS="x")
    bench.hold("near", 1000)
    bench.hold("far", HOUR_MS)
    bench.come_back()
    delivered = bench.run(bench.now + 2 * HOUR_MS, 60_000)
    assert [body for _, body in delivered] == [b"near", b"far"]
    assert f"topic {TIMER_TOPIC}, queue 1, offset 0" in caplog.text


def test_a_timer_is_kept_while_the_store_is_not_writable(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.hold("near", 1000)
    bench.hold("far", HOUR_MS)

    def full(_message: NewMessage) -> Appended:
        raise BUSY

    with monkeypatch.context() as broken:
        broken.setattr(bench.service, "_put", full)
        bench.now += 2 * HOUR_MS
        for work in (bench.service.deliver_near, lambda: bench.service.move_on(1)):
            with pytest.raises(OrbitError):
                work()
    assert sorted(body for _, body in bench.run(bench.now + 1, 1)) == [b"far", b"near"]


# ---- Names too long for a queue


def test_a_group_whose_retries_cannot_be_stored_is_refused(
    wire: Wire, cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]
) -> None:
    (broker,) = cluster.brokers.values()
    wire.send("t", b"poison")
    (record,) = broker.store.read("t", 0, 0).records()
    assert wire.heartbeat("a/b", "t").code == ResponseCode.SYSTEM_ERROR
    ext = {"offset": str(record.physical_offset), "group": "a/b", "delayLevel": "1"}
    refused = wire.ask(36, ext)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "field group is 'a/b', must have no control characters and no slash"
    made = wire.ask(200, body=b'{"groupName":"a/b"}')
    assert made.code == refused.code
    assert "must have no control characters and no slash" in (made.remark or "")
    assert on_broker(lambda: [name for name in broker.topics.topics if "/" in name]) == []
    assert on_broker(lambda: [name for name in broker.groups.groups if "/" in name]) == []


def test_delayed_messages_for_an_invalid_topic_are_refused(
    wire: Wire, cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]
) -> None:
    """Such topics may exist in the tables of a broker that created them before."""
    (broker,) = cluster.brokers.values()
    on_broker(lambda: broker.topics.find_or_create("a/b", 1))
    later = "TIMER_DELAY_MS\x0150"
    half = "TRAN_MSG\x01true\x02PGROUP\x01p"
    for properties in ("DELAY\x011", later, half):
        assert wire.send("a/b", properties=properties).code == ResponseCode.MESSAGE_ILLEGAL
