"""Delayed messages, messages sent back for retry, and dead letters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from orbitmq._native import NewMessage, Record, decode_records
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire, pull_ext


def wait_for(wire: Wire, topic: str, offset: int = 0) -> Record:
    """Pull with long polling until a message arrives."""
    ext = pull_ext(topic, offset, sysFlag="6", suspendTimeoutMillis="15000")
    answer = wire.ask(RequestCode.PULL_MESSAGE, ext)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return decode_records(answer.body)[0]


def test_a_delayed_message_arrives_after_the_time_of_its_level(wire: Wire) -> None:
    wire.send("t", b"warm up")
    before = time.time()
    sent = wire.send("t", b"later", properties="DELAY\x012\x02TAGS\x01A\x02WAIT\x01true")
    assert (sent.code, (sent.ext or {})["queueId"]) == (0, "0")
    record = wait_for(wire, "t", 1)
    # Stored times are whole milliseconds, hence 1.999; a delivery after 9 s counts as late.
    assert 1.999 <= time.time() - before < 9
    assert record.body == b"later"
    assert record.properties == {
        "DELAY": "2",
        "TAGS": "A",
        "WAIT": "true",
        "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": "t",
        "REAL_QID": "0",
    }


def test_delay_levels_above_the_last_are_the_last(wire: Wire, cluster: LocalCluster) -> None:
    wire.send("t", properties="DELAY\x0199")
    (broker,) = cluster.brokers.values()
    unit = broker.store.unit_at("SCHEDULE_TOPIC_XXXX", 3, 0)
    assert unit is not None
    (record,) = decode_records(broker.store.record_at(unit[0]) or b"")
    assert record.properties["DELAY"] == "4"
    assert unit[2] == record.store_timestamp + 4000


def test_a_message_sent_back_is_retried_and_in_the_end_a_dead_letter(wire: Wire) -> None:
    wire.send("t", b"poison", properties="KEYS\x01k")
    (record,) = decode_records(wire.pull("t").body)
    wire.heartbeat("g", "t")

    def send_back(which: Record, **changes: str) -> int:
        ext = {"offset": str(which.physical_offset), "group": "g", "delayLevel": "1"}
        return wire.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext | changes).code

    assert send_back(record, maxReconsumeTimes="1") == ResponseCode.SUCCESS
    again = wait_for(wire, "%RETRY%g")
    assert (again.body, again.reconsume_times) == (b"poison", 1)
    assert again.properties["RETRY_TOPIC"] == "t"
    assert again.properties["ORIGIN_MESSAGE_ID"] == record.offset_id
    assert send_back(again, maxReconsumeTimes="1") == ResponseCode.SUCCESS
    dead = wait_for(wire, "%DLQ%g")
    assert (dead.body, dead.reconsume_times) == (b"poison", 2)
    assert dead.keys == ("k",)
    missing = wire.ask(
        RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": "1", "group": "g", "delayLevel": "0"}
    )
    assert (missing.code, missing.remark) == (1, "look message by offset failed, 1")


def test_delayed_messages_that_can_never_be_delivered_are_refused(wire: Wire) -> None:
    wire.send("t", b"poison")
    (record,) = decode_records(wire.pull("t").body)
    long = "g" * 121  # The name of its retry topic is too long for a record.
    ext = {"offset": str(record.physical_offset), "group": long, "delayLevel": "1"}
    assert wire.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code != ResponseCode.SUCCESS


def test_an_undeliverable_delayed_message_delays_no_other(
    wire: Wire, cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]
) -> None:
    (broker,) = cluster.brokers.values()
    wire.send("t", b"first")
    # Brokers accepted such a message before they refused these names.
    held = {"DELAY": "1", "REAL_TOPIC": "t" * 128, "REAL_QID": "0"}
    stuck = NewMessage("SCHEDULE_TOPIC_XXXX", b"stuck", queue_id=0, properties=held)
    on_broker(lambda: broker.store.append(stuck, now_ms=broker.clock()))
    wire.send("t", b"later", properties="DELAY\x011")
    assert wait_for(wire, "t", 1).body == b"later"


def test_messages_due_while_the_broker_was_down_are_delivered_once(cluster: LocalCluster) -> None:
    wire = Wire(next(iter(cluster.brokers.values())).config.address)
    wire.send("t", b"one", properties="DELAY\x011")
    assert wait_for(wire, "t").body == b"one"
    wire.send("t", b"two", properties="DELAY\x011")
    wire.close()
    cluster.stop_broker("broker-a")
    cluster.start_broker("broker-a")
    wire = Wire(next(iter(cluster.brokers.values())).config.address)
    assert wait_for(wire, "t", 1).body == b"two"
    assert wire.pull("t", 2).remark == "OFFSET_OVERFLOW_ONE"
    wire.close()
