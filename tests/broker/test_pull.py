"""Pulling: results, held pulls, and the events that wake them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq._native import decode_records, loads_lenient, tags_code
from orbitmq.broker.read import long_poll as longpoll
from orbitmq.config import BrokerConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.shared_budget import SharedBudget
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address, pull_ext

SUSPEND = {"sysFlag": "6", "suspendTimeoutMillis": "15000"}


def test_messages_come_with_the_next_offset(wire: Wire) -> None:
    for i in range(5):
        wire.send("t", str(i).encode())
    first = wire.pull("t", maxMsgNums="3")
    assert (first.code, first.remark) == (0, "FOUND")
    assert first.ext == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "3",
        "minOffset": "0",
        "maxOffset": "5",
    }
    rest = wire.pull("t", 3)
    assert [record.body for record in decode_records(rest.body)] == [b"3", b"4"]


def test_orbit_clients_may_request_more_messages_at_once(wire: Wire) -> None:
    for i in range(100):
        wire.send("t", str(i).encode())

    def count(**ext: str) -> int:
        return len(decode_records(wire.pull("t", 0, maxMsgNums="90", **ext).body))

    assert count() == 32, "what Java's broker gives"
    assert count(orbitMaxBytes="100000") == 90
    assert 1 < count(orbitMaxBytes="2000") < 32, "bytes count, too"


def test_tags_are_filtered_at_the_broker(wire: Wire) -> None:
    for tag in "ABCAB":
        wire.send("t", tag.encode(), properties=f"TAGS\x01{tag}")
    found = wire.pull("t", subscription="A || C")
    assert [record.body for record in decode_records(found.body)] == [b"A", b"C", b"A"]
    nothing = wire.pull("t", subscription="Z")
    assert (nothing.code, nothing.remark) == (20, "NO_MATCHED_MESSAGE")
    assert (nothing.ext or {})["nextBeginOffset"] == "5"


def test_an_unreadable_message_is_an_error_that_names_its_offset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalCluster(data=tmp_path, settings={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        wire = Wire(broker_address(cluster))
        for _ in range(10):
            assert wire.send("t", bytes(2000)).code == ResponseCode.SUCCESS
        (log,) = tmp_path.glob("**/commitlog/00000000000000000000")
        os.truncate(log, 8192)  # Reads like a bad sector.
        first = wire.pull("t")
        assert len(decode_records(first.body)) == 3, "those before it are given"
        place = f"{log} is damaged at offset 8192"
        with caplog.at_level(logging.ERROR):
            lost = wire.pull("t", 3)
        assert lost.code == ResponseCode.SYSTEM_ERROR
        assert place in (lost.remark or "")
        assert place in caplog.text
        assert wire.pull("t").code == ResponseCode.SUCCESS, "the broker is there"
        wire.close()


@pytest.mark.parametrize(
    ("offset", "code", "status", "next_offset"),
    [
        (2, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", "2"),
        (9, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", "2"),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", "0"),
    ],
)
def test_offsets_outside_the_queue_are_moved_into_it(
    wire: Wire, offset: int, code: int, status: str, next_offset: str
) -> None:
    wire.send("t")
    wire.send("t")
    answer = wire.pull("t", offset)
    assert (answer.code, answer.remark) == (code, status)
    assert (answer.ext or {})["nextBeginOffset"] == next_offset
    if code == ResponseCode.PULL_OFFSET_MOVED:
        (event,) = decode_records(wire.pull("OFFSET_MOVED_EVENT").body)
        assert loads_lenient(event.body)["offsetRequest"] == offset
        assert event.keys == ("g",)


def test_an_offset_outside_the_queue_is_moved_when_the_disk_is_full(
    wire: Wire, cluster: LocalCluster
) -> None:
    wire.send("t")
    (broker,) = cluster.brokers.values()
    broker.putting.is_writable = False
    moved = wire.pull("t", 77)
    assert moved.code == ResponseCode.PULL_OFFSET_MOVED
    assert moved.get_ext("nextBeginOffset") == "1"


def test_pulls_of_an_empty_queue_find_nothing_at_0_and_are_moved_elsewhere(wire: Wire) -> None:
    wire.send("t")
    assert wire.pull("t", 0, queueId="3").code == ResponseCode.PULL_NOT_FOUND
    assert wire.pull("t", 7, queueId="3").code == ResponseCode.PULL_OFFSET_MOVED


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"topic": "nosuch"}, 17, "topic[nosuch] not exist, apply first please!"),
        ({"queueId": "4"}, 1, "queueId[4] is illegal, topic:[t] topicConfig.readQueueNums:[4]"),
        ({"queueId": "-1"}, 1, "queueId[-1] is illegal"),
        ({"subscription": "||"}, 23, "parse the consumer's subscription failed"),
        ({"sysFlag": "0"}, 24, "the consumer's group info not exist\nSee"),
        ({"expressionType": "SQL92"}, 1, "The broker does not support consumer to filter message"),
    ],
)
def test_refusals_have_javas_codes_and_words(
    wire: Wire, changes: dict[str, str], code: int, remark: str
) -> None:
    wire.send("t")
    refused = wire.ask(RequestCode.PULL_MESSAGE, pull_ext("t", 0) | changes)
    assert (refused.code, (refused.remark or "")[: len(remark)]) == (code, remark)


def test_the_subscription_of_the_heartbeat_counts_when_the_request_has_none(wire: Wire) -> None:
    wire.send("t")
    wire.heartbeat("g", "other")
    missing = wire.pull("t", sysFlag="0")
    assert missing.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    wire.heartbeat("g", "t")
    assert wire.pull("t", sysFlag="0").code == ResponseCode.SUCCESS
    assert wire.pull("t", sysFlag="0", subVersion="2").code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_a_held_pull_is_answered_when_a_message_arrives(connect: Callable[[], Wire]) -> None:
    consumer, producer = connect(), connect()
    producer.send("t", b"first")
    waiting = consumer.post(RequestCode.PULL_MESSAGE, pull_ext("t", 1, **SUSPEND))
    started = time.monotonic()
    assert consumer.pull("t", 0).code == ResponseCode.SUCCESS
    assert waiting not in consumer._responses
    producer.send("t", b"second")
    answer = consumer.answer(waiting)
    assert [record.body for record in decode_records(answer.body)] == [b"second"]
    assert time.monotonic() - started < 14, "before its own time was over"


def test_only_a_wanted_tag_wakes_a_held_pull(connect: Callable[[], Wire]) -> None:
    consumer, producer = connect(), connect()
    producer.send("t", properties="TAGS\x01A")
    ext = pull_ext("t", 1, subscription="B", **SUSPEND)
    waiting = consumer.post(RequestCode.PULL_MESSAGE, ext)
    consumer.pull("t", 0)  # Answered after the other pull is held.
    producer.send("t", properties="TAGS\x01A")
    consumer.pull("t", 0)
    assert waiting not in consumer._responses
    producer.send("t", properties="TAGS\x01B")
    (record,) = decode_records(consumer.answer(waiting).body)
    assert tags_code(record.tags or "") == tags_code("B")


def test_a_held_pull_is_answered_after_its_timeout(wire: Wire) -> None:
    wire.send("t")
    ext = pull_ext("t", 1, sysFlag="6", suspendTimeoutMillis="200")
    answer = wire.ask(RequestCode.PULL_MESSAGE, ext)
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")


def test_the_scan_answers_a_held_pull_when_no_message_matched(
    connect: Callable[[], Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert longpoll.SCAN_S == 5.0, "the period of Java's hold service"
    monkeypatch.setattr(longpoll, "SCAN_S", 0.05)
    consumer, producer = connect(), connect()
    producer.send("t", properties="TAGS\x01A")
    started = time.monotonic()
    ext = pull_ext("t", 1, subscription="B", **SUSPEND)
    waiting = consumer.post(RequestCode.PULL_MESSAGE, ext)
    consumer.pull("t", 0)  # Answered after the other pull is held.
    producer.send("t", properties="TAGS\x01A")
    answer = consumer.answer(waiting)
    assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
    assert (answer.ext or {})["nextBeginOffset"] == "2", "its offset moves past unwanted messages"
    assert time.monotonic() - started < 14, "before its own time was over"


@pytest.fixture
def short_polling(cluster: LocalCluster) -> BrokerConfig:
    (broker,) = cluster.brokers.values()
    broker.config.long_polling_enable = False
    return broker.config


def test_a_pull_waits_only_the_short_time_without_long_polling(
    wire: Wire, short_polling: BrokerConfig
) -> None:
    assert short_polling.short_polling_time_mills == 1000, "Java's default"
    short_polling.short_polling_time_mills = 100
    wire.send("t")
    started = time.monotonic()
    answer = wire.ask(RequestCode.PULL_MESSAGE, pull_ext("t", 1, **SUSPEND))
    assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
    assert time.monotonic() - started < 14, "not the time that the client asked for"


def test_arrivals_wake_no_pull_without_long_polling(
    connect: Callable[[], Wire], short_polling: BrokerConfig, on_broker: Callable[..., Any]
) -> None:
    short_polling.short_polling_time_mills = 60_000
    consumer, producer = connect(), connect()
    producer.send("t")
    waiting = consumer.post(RequestCode.PULL_MESSAGE, pull_ext("t", 1, **SUSPEND))
    consumer.pull("t", 0)  # Answered after the other pull is held.
    producer.send("t")
    on_broker(lambda: None)  # One turn of the loop, in which the arrival would have woken the pull.
    consumer.pull("t", 0)
    assert waiting not in consumer._responses


def test_the_lag_of_a_group_is_recorded_in_bytes_and_milliseconds(
    wire: Wire, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = cluster.brokers.values()
    sizes = [stored_size(wire, f"{number}".encode()) for number in range(3)]
    stored_ms = decode_records(wire.pull("t", 0).body)[-1].store_timestamp
    monkeypatch.setattr(broker.putting, "clock", lambda: stored_ms + 7000)
    wire.pull("t", 0, maxMsgNums="1")

    def lag(name: str) -> dict[str, Any]:
        ext = {"statsName": name, "statsKey": "0@t@g"}
        answer = wire.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        windows = loads_lenient(answer.body)
        assert windows["statsMinute"] == windows["statsHour"] == windows["statsDay"]
        minute: dict[str, Any] = windows["statsMinute"]
        return minute

    # The second message ended the read, so it is the last one examined.
    assert lag("GROUP_GET_FALL_SIZE")["sum"] == sum(sizes[1:])
    first_ms = decode_records(wire.pull("t", 0, maxMsgNums="1").body)[0].store_timestamp
    assert lag("GROUP_GET_FALL_TIME")["sum"] == stored_ms + 7000 - first_ms
    wire.pull("t", 2)
    assert lag("GROUP_GET_FALL_SIZE")["sum"] == sizes[2]
    assert lag("GROUP_GET_FALL_TIME")["sum"] == 7000
    broker.config.disk_fall_recorded = False
    wire.pull("t", 0)
    assert lag("GROUP_GET_FALL_SIZE")["sum"] == sizes[2], "diskFallRecorded=false keeps the old one"
    wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    ext = {"statsName": "GROUP_GET_FALL_SIZE", "statsKey": "0@t@g"}
    answer = wire.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    assert answer.remark == "The stats <GROUP_GET_FALL_SIZE> <0@t@g> not exist"


def stored_size(wire: Wire, body: bytes) -> int:
    """Send a message to `t` and return its size in the log."""
    sent = wire.send("t", body)
    offset = int((sent.ext or {})["queueOffset"])
    return len(wire.pull("t", offset).body)


def test_a_pull_commits_the_offset_it_carries(wire: Wire, cluster: LocalCluster) -> None:
    wire.send("t")
    wire.pull("t", sysFlag="5", commitOffset="1")
    (broker,) = cluster.brokers.values()
    assert broker.offsets.get("t", "g", 0) == 1


def test_held_pulls_of_a_closed_connection_are_forgotten(
    connect: Callable[[], Wire], cluster: LocalCluster
) -> None:
    consumer, producer = connect(), connect()
    producer.send("t")
    consumer.post(RequestCode.PULL_MESSAGE, pull_ext("t", 1, **SUSPEND))
    consumer.pull("t")
    (broker,) = cluster.brokers.values()
    assert len(broker.held) == 1
    consumer.close()
    producer.send("t")
    producer.pull("t")
    assert len(broker.held) == 0


def test_messages_that_are_not_in_memory_are_read_by_a_thread(
    wire: Wire, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(20):
        wire.send("t", str(i).encode())
    (broker,) = cluster.brokers.values()
    handlers = broker.pull_handlers
    threads = []
    read = type(handlers)._read

    def read_slowly(self: object, header: object, codes: object, resident: int | None) -> object:
        result = read(handlers, header, codes, resident)  # type: ignore[arg-type]
        if resident is None:
            threads.append(threading.current_thread().name)
            return result
        return SimpleNamespace(status="NOT_RESIDENT")

    monkeypatch.setattr(type(handlers), "_read", read_slowly)
    answer = wire.pull("t")
    assert [record.body for record in decode_records(answer.body)][:2] == [b"0", b"1"]
    assert threads
    assert "orbitmq-cluster" not in threads


def test_an_offset_committed_during_a_disk_read_is_kept(
    wire: Wire, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.send("t")
    (broker,) = cluster.brokers.values()
    handlers, read = broker.pull_handlers, type(broker.pull_handlers)._read

    def read_slowly(self: object, header: object, codes: object, resident: int | None) -> object:
        if resident is not None:
            return SimpleNamespace(status="NOT_RESIDENT")
        assert broker.offsets.get("t", "g", 0) == 1
        broker.offsets.commit("t", "g", 0, 5)
        return read(handlers, header, codes, resident)  # type: ignore[arg-type]

    monkeypatch.setattr(type(handlers), "_read", read_slowly)
    assert wire.pull("t", sysFlag="5", commitOffset="1").code == ResponseCode.SUCCESS
    assert broker.offsets.get("t", "g", 0) == 5


def test_held_pulls_of_one_client_are_limited(
    wire: Wire,
    cluster: LocalCluster,
    on_broker: Callable[[Callable[[], Any]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orbitmq.broker.read.long_poll.MAX_HELD_BY_CONNECTION", 3)
    (broker,) = cluster.brokers.values()
    wire.send("crowded")
    hold = pull_ext("crowded", 1, sysFlag="6", suspendTimeoutMillis="20000")
    held = [wire.post(RequestCode.PULL_MESSAGE, hold) for _ in range(3)]
    too_many = wire.ask(RequestCode.PULL_MESSAGE, hold)
    assert too_many.code == ResponseCode.PULL_NOT_FOUND
    assert on_broker(lambda: len(broker.held)) == 3
    wire.send("crowded", b"arrived")
    for opaque in held:
        assert wire.answer(opaque).code == ResponseCode.SUCCESS
    assert on_broker(lambda: len(broker.held)) == 0


def test_pulls_of_a_disconnected_client_are_dropped(
    connect: Callable[[], Wire],
    cluster: LocalCluster,
    on_broker: Callable[[Callable[[], Any]], Any],
) -> None:
    (broker,) = cluster.brokers.values()
    stays, goes = connect(), connect()
    stays.send("left")
    hold = pull_ext("left", 1, sysFlag="6", suspendTimeoutMillis="20000")
    waiting = stays.post(RequestCode.PULL_MESSAGE, hold)
    for _ in range(5):
        goes.post(RequestCode.PULL_MESSAGE, hold)
    while on_broker(lambda: len(broker.held)) != 6:
        pass
    goes.close()
    while on_broker(lambda: len(broker.held)) != 1:
        pass
    stays.send("left", b"arrived")
    assert stays.answer(waiting).code == ResponseCode.SUCCESS


def test_a_held_pull_retains_neither_body_nor_fields(
    cluster: LocalCluster, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    wire.send("t")
    ext = pull_ext("t", 1, sysFlag="6", suspendTimeoutMillis="60000") | {"more": "x" * 100_000}
    held = wire.post(RequestCode.PULL_MESSAGE, ext, bytes(100_000))
    (broker,) = cluster.brokers.values()
    while not len(broker.held):
        wire.send("other")
    (pulls,) = broker.held._by_connection.values()
    (pull,) = pulls
    assert pull.request.size == 0
    assert pull.request.ext is None
    wire.send("t", b"second")
    answer = wire.answer(held)
    assert answer.code == ResponseCode.SUCCESS
    assert decode_records(answer.body)[0].body == b"second"


def test_held_pulls_beyond_the_common_limit_are_answered_at_once(
    cluster: LocalCluster, connect: Callable[[], Wire]
) -> None:
    (broker,) = cluster.brokers.values()
    broker.held._bytes = SharedBudget(100_000)
    wire, modest = connect(), connect()
    wire.send("t")
    hold = {"sysFlag": "6", "suspendTimeoutMillis": "60000"}
    posted = [wire.post(RequestCode.PULL_MESSAGE, pull_ext("t", 1, **hold)) for _ in range(200)]
    modest.post(RequestCode.PULL_MESSAGE, pull_ext("t", 1, **hold))
    assert wire.answer(posted[-1]).code == ResponseCode.PULL_NOT_FOUND
    while len(broker.held._by_connection) < 2:
        wire.send("other")
    assert len(broker.held) < 100


def test_a_pull_with_too_many_tags_is_refused(connect: Callable[[], Wire]) -> None:
    wire = connect()
    wire.send("t")
    refused = wire.pull("t", 0, subscription="||".join(str(tag) for tag in range(20_000)))
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
