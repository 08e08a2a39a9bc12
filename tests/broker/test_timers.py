"""Delivery at any time: tiers, near timers, limits, and crashes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import NewMessage, Store, StoreOptions, decode_records, encode_batch
from orbitmq.broker.app import Broker
from orbitmq.broker.write.timers import TIERS_MS, TimerService
from orbitmq.config import BrokerConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.testing import LocalCluster

from .conftest import Wire

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Bench:
    """A timer service on its own store, with a clock that a test moves."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.now = 1_700_000_000_000
        self.reserved_ms = 3 * DAY_MS
        self._root, self._options = root, options
        self.saved: dict[str, Any] = {}
        self._open()

    def _open(self) -> None:
        self.store = Store.open(
            self._root,
            StoreOptions(commit_log_file_size=4 << 20, consume_queue_file_size=200_000),
            create=True,
        )
        self.service = TimerService(
            self.store,
            lambda message: self.store.append(message, now_ms=self.now),
            lambda: self.now,
            lambda: self.reserved_ms,
            **self._options,
        )

    def save(self) -> None:
        self.saved = self.service.as_json()

    def come_back(self) -> None:
        """Open the same directory again, with the state saved last."""
        self.store.close()
        self._open()
        self.service.load(self.saved)
        self.service.find_near()

    def hold(self, name: str, in_ms: int) -> int:
        message = NewMessage("T", name.encode(), queue_id=1, properties={"p": "v"})
        self.service.hold(message, self.now + in_ms)
        return message.queue_id

    def run(self, until_ms: int, step_ms: int) -> list[tuple[int, bytes]]:
        """Let time pass; return the delivery times and the bodies."""
        begin = self.store.max_offset("T", 1)
        while self.now < until_ms:
            self.now = min(until_ms, self.now + step_ms)
            self.work()
        records = self.store.read("T", 1, begin, max_messages=100_000, max_bytes=1 << 30).records()
        return [(record.store_timestamp, record.body) for record in records]

    def work(self) -> None:
        for queue_id in (*TIERS_MS, 4):
            while self.service.move_on(queue_id) == 0:
                pass
        while self.service.deliver_near() == 0:
            pass


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "store")
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("in_ms", "queue_id"),
    [(1, 0), (10 * MINUTE_MS - 1, 0), (10 * MINUTE_MS, 1), (HOUR_MS, 1), (2 * HOUR_MS, 2),
     (DAY_MS, 3), (40 * DAY_MS, 3)],
)  # fmt: skip
def test_a_message_is_held_in_the_highest_tier_that_fits(
    bench: Bench, in_ms: int, queue_id: int
) -> None:
    assert bench.hold("m", in_ms) == queue_id


def test_messages_come_in_the_order_in_which_they_are_due(bench: Bench) -> None:
    start = bench.now
    wanted = {
        b"week": 7 * DAY_MS + 12_345,
        b"second": 1_000,
        b"hours": 5 * HOUR_MS + 7,
        b"minutes": 25 * MINUTE_MS,
        b"day": DAY_MS,
    }
    for name, in_ms in wanted.items():
        bench.hold(name.decode(), in_ms)
    # In steps that do not divide the waits of the tiers.
    got = bench.run(start + 8 * DAY_MS, 97_003)
    assert [name for _, name in got] == [b"second", b"minutes", b"hours", b"day", b"week"]
    for at_ms, name in got:
        assert 0 <= at_ms - start - wanted[name] <= 97_003


def test_a_delivered_message_equals_the_sent_one(bench: Bench) -> None:
    bench.hold("m", 3 * HOUR_MS)
    bench.run(bench.now + 4 * HOUR_MS, 30_000)
    (record,) = bench.store.read("T", 1, 0).records()
    assert record.body == b"m"
    assert record.properties == {"p": "v", "REAL_TOPIC": "T", "REAL_QID": "1"}


def test_the_number_of_near_timers_in_memory_is_limited(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store", max_near=100)
    start = bench.now
    for number in range(500):
        bench.hold(str(number), 5 * MINUTE_MS)
    assert len(bench.service) == 100
    got = bench.run(start + 6 * MINUTE_MS, 1_000)
    assert len(got) == 500
    assert min(at for at, _ in got) >= start + 5 * MINUTE_MS
    assert max(at for at, _ in got) <= start + 5 * MINUTE_MS + 1_000
    bench.store.close()


def test_a_restart_delivers_the_remaining_timers_once(bench: Bench) -> None:
    start = bench.now
    for minute in range(30):
        bench.hold(str(minute), minute * MINUTE_MS + 1)
    first = bench.run(start + 12 * MINUTE_MS, 10_000)
    bench.save()
    bench.come_back()
    second = bench.run(start + 40 * MINUTE_MS, 10_000)
    assert len(first) == 12
    assert [body for _, body in first + second] == [b"%d" % minute for minute in range(30)]


def test_a_crash_loses_no_timer_and_repeats_only_unsaved_ones(bench: Bench) -> None:
    start = bench.now
    for minute in range(30):
        bench.hold(str(minute), minute * MINUTE_MS + 1)
    before = bench.run(start + 5 * MINUTE_MS, 10_000)
    bench.save()
    unnoted = bench.run(start + 14 * MINUTE_MS, 10_000)
    bench.come_back()
    after = bench.run(start + 40 * MINUTE_MS, 10_000)
    every = {b"%d" % minute for minute in range(30)}
    assert {body for _, body in before + after} == every
    assert {body for _, body in unnoted} <= {body for _, body in after}
    assert not {body for _, body in before} & {body for _, body in after}


def test_messages_due_while_the_broker_was_down_come_at_once(bench: Bench) -> None:
    bench.hold("near", MINUTE_MS)
    bench.hold("far", 3 * DAY_MS)
    bench.save()
    bench.now += 5 * DAY_MS
    bench.come_back()
    bench.work()
    assert {r.body for r in bench.store.read("T", 1, 0).records()} == {b"near", b"far"}


def test_a_second_stop_loses_no_overdue_message(bench: Bench) -> None:
    names = [b"%d" % number for number in range(300)]
    for name in names:
        bench.hold(name.decode(), MINUTE_MS)
    bench.save()
    bench.now += 5 * HOUR_MS
    bench.come_back()
    bench.service.deliver_near()
    assert bench.store.max_offset("T", 1) < len(names), "one turn does not deliver all of them"
    bench.save()
    bench.come_back()
    bench.work()
    records = bench.store.read("T", 1, 0, max_messages=1000, max_bytes=1 << 20).records()
    assert {record.body for record in records} == set(names)


def test_positions_beyond_the_end_of_the_log_are_corrected(bench: Bench) -> None:
    bench.service.load({"heads": {"1": 5}, "near": {"end": 0, "dueUntil": 0}})
    bench.service.find_near()
    due = bench.now + 15 * MINUTE_MS
    assert bench.hold("m", 15 * MINUTE_MS) == 1
    assert [body for _, body in bench.run(due + MINUTE_MS, 30_000)] == [b"m"]


@pytest.mark.parametrize("restart", [False, True], ids=["live", "restart"])
def test_timers_in_high_tiers_are_delivered_after_a_shorter_retention(
    bench: Bench, restart: bool
) -> None:
    due = bench.now + 30 * HOUR_MS
    assert bench.hold("m", 30 * HOUR_MS) == 3
    bench.reserved_ms = DAY_MS
    if restart:
        bench.save()
        bench.come_back()
    assert bench.hold("later", 30 * HOUR_MS) == 2
    bench.run(bench.now + 13 * HOUR_MS, 30_000)
    assert bench.store.max_offset(TIMER_TOPIC, 2) > 2, "it did not wait for a day in one place"
    got = bench.run(due + MINUTE_MS, 30_000)
    assert [body for _, body in got] == [b"m", b"later"]


def test_a_shorter_retention_takes_effect_at_once(
    wire: Wire, cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]
) -> None:
    (broker,) = cluster.brokers.values()
    long_ago = now_ms() - DAY_MS // 2

    def hold_since_half_a_day() -> None:
        clock, broker.putting.clock = broker.putting.clock, lambda: long_ago
        broker.timers.hold(NewMessage("t", b"m"), now_ms() + 2 * DAY_MS)
        broker.putting.clock = clock

    on_broker(hold_since_half_a_day)
    assert broker.store.queues() == [(TIMER_TOPIC, 3)]
    assert wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=24").code == 0
    on_broker(lambda: None)
    assert (TIMER_TOPIC, 2) in broker.store.queues()


def test_a_timer_held_between_open_and_start_is_loaded_once(tmp_path: Path) -> None:
    async def held_in_between() -> int:
        config = BrokerConfig(store_path_root_dir=str(tmp_path), namesrv_addr=None)
        broker = Broker(config, hosts=())
        broker.open(0)
        try:
            broker.timers.hold(NewMessage("T", b"m"), broker.clock() + MINUTE_MS)
            await broker.start()
            return len(broker.timers)
        finally:
            await broker.stop()

    assert asyncio.run(held_in_between()) == 1


# ---- Requests over the network


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_a_message_comes_at_the_requested_time(wire: Wire, name: str) -> None:
    wire.send("t", b"before")
    began = now_ms()
    value = {
        "TIMER_DELAY_SEC": "1",
        "TIMER_DELAY_MS": "700",
        "TIMER_DELIVER_MS": str(began + 700),
    }[name]
    sent = wire.send("t", b"later", properties=f"{name}\x01{value}\x02TAGS\x01a")
    assert sent.code == 0
    found = wire.pull("t", 1, sysFlag="6", suspendTimeoutMillis="18000")
    (record,) = decode_records(found.body)
    assert record.body == b"later"
    wanted = 1000 if name == "TIMER_DELAY_SEC" else 700
    assert wanted <= record.store_timestamp - began < wanted + 8_000
    assert record.get_property(name) == value
    assert record.tags == "a"


BATCH = {"a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}


def test_each_message_of_a_batch_has_its_own_delivery_time(wire: Wire) -> None:
    began = now_ms()
    later = f"TIMER_DELIVER_MS\x01{began + 700}"
    body = encode_batch([(0, b"now", ""), (0, b"later", later), (0, b"now, too", "")])
    sent = wire.ask(RequestCode.SEND_BATCH_MESSAGE, BATCH | {"m": "true"}, body)
    assert sent.code == 0, sent.remark
    at_once = [record.body for record in decode_records(wire.pull("t").body)]
    assert at_once[:2] == [b"now", b"now, too"]
    found = wire.pull("t", 2, sysFlag="6", suspendTimeoutMillis="18000")
    (record,) = decode_records(found.body)
    assert record.body == b"later"
    assert record.store_timestamp >= began + 700


def test_a_batch_with_an_unsupported_delivery_time_is_refused_as_a_whole(wire: Wire) -> None:
    body = encode_batch([(0, b"now", ""), (0, b"never", "TIMER_DELAY_SEC\x01soon")])
    refused = wire.ask(RequestCode.SEND_BATCH_MESSAGE, BATCH | {"m": "true"}, body)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert wire.pull("t").code != 0


def test_a_delivery_time_in_the_past_delivers_at_once(wire: Wire) -> None:
    wire.send("t", b"now", properties="TIMER_DELIVER_MS\x011000")
    assert [record.body for record in decode_records(wire.pull("t").body)] == [b"now"]


@pytest.mark.parametrize("half", ["", "TRAN_MSG\x01true\x02PGROUP\x01p\x02"], ids=["", "half"])
@pytest.mark.parametrize("value", ["99999999999999", "soon"])
def test_an_unsupported_delivery_time_is_refused(wire: Wire, value: str, half: str) -> None:
    refused = wire.send("t", properties=f"{half}TIMER_DELAY_MS\x01{value}")
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert (refused.remark or "").startswith("timer message illegal")


@pytest.mark.parametrize("horizon_s", [40 * 86_400, 60], ids=["default", "changed"])
def test_the_horizon_is_forty_days_unless_set_otherwise(wire: Wire, horizon_s: int) -> None:
    if horizon_s == 60:
        body = b"timerMaxDelaySec=60"
        assert wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == 0
    for name, value in (
        ("TIMER_DELAY_SEC", horizon_s),
        ("TIMER_DELAY_MS", horizon_s * 1000),
        ("TIMER_DELIVER_MS", now_ms() + horizon_s * 1000 - 100),
    ):
        assert wire.send("t", properties=f"{name}\x01{value}").code == 0, name
    beyond = now_ms() + horizon_s * 1000 + 60_000  # A slow machine reduces the remaining time.
    for name, value in (
        ("TIMER_DELAY_SEC", horizon_s + 1),
        ("TIMER_DELAY_MS", horizon_s * 1000 + 1),
        ("TIMER_DELIVER_MS", beyond),
    ):
        refused = wire.send("t", properties=f"{name}\x01{value}")
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL, name
        assert f"{horizon_s * 1000}ms (timerMaxDelaySec of the broker)" in (refused.remark or "")


def test_sends_to_the_timer_topic_are_refused(wire: Wire) -> None:
    assert wire.send(TIMER_TOPIC).code == ResponseCode.NO_PERMISSION


def test_timers_survive_a_restart(tmp_path: Path, on_time: Callable[[bytes], None]) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        wire = Wire(broker.config.address)
        due = now_ms() + 2_500
        wire.send("t", b"kept", properties=f"TIMER_DELIVER_MS\x01{due}")
        wire.close()
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        wire = Wire(broker.config.address)
        found = wire.pull("t", 0, sysFlag="6", suspendTimeoutMillis="18000")
        on_time(found.body)
        wire.close()


@pytest.fixture
def on_time() -> Callable[[bytes], None]:
    def check(body: bytes) -> None:
        (record,) = decode_records(body)
        late_ms = record.store_timestamp - int(record.get_property("TIMER_DELIVER_MS") or 0)
        assert 0 <= late_ms < 15_000

    return check
