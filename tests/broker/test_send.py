"""Sending: stored fields, refusals, and their codes and texts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq._native import decode_records, encode_batch
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire, send_ext


def test_a_message_is_stored_with_what_the_broker_adds(wire: Wire) -> None:
    properties = "TAGS\x01A\x02WAIT\x01true\x02UNIQ_KEY\x01U1"
    sent = wire.send("orders", b"hello", properties=properties, flag="9", reconsumeTimes="2")
    assert sent.code == ResponseCode.SUCCESS
    ext = sent.ext or {}
    assert (ext["queueId"], ext["queueOffset"]) == ("0", "0")
    assert (ext["MSG_REGION"], ext["TRACE_ON"]) == ("DefaultRegion", "true")
    (record,) = decode_records(wire.pull("orders").body)
    assert record.body == b"hello"
    assert record.offset_id == ext["msgId"]
    assert (record.flag, record.reconsume_times) == (9, 2)
    assert record.born_timestamp == 1_700_000_000_000
    assert record.properties == {"TAGS": "A", "UNIQ_KEY": "U1", "CLUSTER": "DefaultCluster"}


def test_short_field_names_mean_the_same_as_long_ones(wire: Wire) -> None:
    ext = {"a": "p", "b": "short", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "5", "h": "0"}
    assert wire.ask(RequestCode.SEND_MESSAGE_V2, ext, b"x").code == ResponseCode.SUCCESS
    assert decode_records(wire.pull("short", queueId="1").body)[0].born_timestamp == 5


def test_a_batch_is_stored_message_by_message(wire: Wire) -> None:
    body = encode_batch([(1, b"one", {"KEYS": "k1"}), (2, b"two", {})])
    ext = {"a": "p", "b": "batch", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
    sent = wire.ask(RequestCode.SEND_BATCH_MESSAGE, ext | {"m": "true"}, body)
    records = decode_records(wire.pull("batch").body)
    assert [(record.flag, record.body) for record in records] == [(1, b"one"), (2, b"two")]
    assert (sent.ext or {})["msgId"] == ",".join(record.offset_id for record in records)
    assert records[0].properties == {"KEYS": "k1", "CLUSTER": "DefaultCluster"}


def test_an_unknown_topic_is_created_after_the_template(wire: Wire, cluster: LocalCluster) -> None:
    wire.send("young", defaultTopicQueueNums="3")
    (broker,) = cluster.brokers.values()
    topic = broker.topics.find("young")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (3, 3, 6)


@pytest.mark.parametrize(
    ("topic", "changes", "code", "remark"),
    [
        ("", {}, 1, "The specified topic is blank."),
        ("a b", {}, 1, "The specified topic contains illegal characters, allowing only "),
        ("x" * 128, {}, 1, "The specified topic is longer than topic max length."),
        ("SCHEDULE_TOPIC_XXXX", {}, 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbid"),
        ("t", {"defaultTopic": "nosuch"}, 17, "topic[t] not exist, apply first please!\nSee http"),
        (
            "BenchmarkTest",
            {"queueId": "1024"},
            1,
            "request queueId[1024] is illegal, TopicConfig [t",
        ),
        ("t", {"properties": "A\x01" + "x" * 33_000}, 13, "the message is illegal, maybe msg body"),
        (
            "t",
            {"properties": "\x02".join(f"{i}\x01x" for i in range(20_000))},
            13,
            "the message is illegal, maybe msg body",
        ),
    ],
)
def test_refusals_have_javas_codes_and_words(
    wire: Wire, topic: str, changes: dict[str, str], code: int, remark: str
) -> None:
    refused = wire.ask(RequestCode.SEND_MESSAGE, send_ext(topic) | changes, b"hello")
    assert (refused.code, (refused.remark or "")[: len(remark)]) == (code, remark)
    assert (refused.ext or {})["MSG_REGION"] == "DefaultRegion"


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"queueId": "x"}, "HeaderFault: field queueId is not a number: 'x'"),
        ({"properties": "DELAY\x01x"}, "HeaderFault: property DELAY is not a number: 'x'"),
    ],
)
def test_sends_with_malformed_numbers_are_refused(
    wire: Wire, changes: dict[str, str], remark: str
) -> None:
    refused = wire.ask(RequestCode.SEND_MESSAGE, send_ext("t") | changes, b"hello")
    assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_malformed_optional_numbers_are_ignored(wire: Wire) -> None:
    sent = wire.send("t", maxReconsumeTimes="x", reconsumeTimes="y")
    assert sent.code == ResponseCode.SUCCESS


def test_a_body_past_the_limit_is_refused(wire: Wire) -> None:
    assert wire.send("big", bytes(4 << 20)).code == ResponseCode.SUCCESS
    assert wire.send("big", bytes((4 << 20) + 1)).code == ResponseCode.MESSAGE_ILLEGAL


def test_oneway_messages_are_stored_and_not_answered(wire: Wire) -> None:
    wire.post(RequestCode.SEND_MESSAGE, send_ext("oneway"), b"quietly", flag=2)
    wire.send("oneway", b"aloud")
    records = decode_records(wire.pull("oneway").body)
    assert [record.body for record in records] == [b"quietly", b"aloud"]
    assert not wire._responses


def test_sync_flush_acknowledges_what_is_on_disk() -> None:
    with LocalCluster(settings={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        (broker,) = cluster.brokers.values()
        wire = Wire(broker.config.address)
        opaques = [wire.post(RequestCode.SEND_MESSAGE, send_ext("safe"), b"x") for _ in range(200)]
        for opaque in opaques:
            assert wire.answer(opaque).code == ResponseCode.SUCCESS
        assert broker.store.flushed_offset == broker.store.max_physical_offset
        wire.close()


def test_a_send_with_wait_false_is_acknowledged_before_the_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LocalCluster(settings={"flushDiskType": "SYNC_FLUSH"}) as cluster:
        (broker,) = cluster.brokers.values()
        acks = broker.acks
        assert acks is not None
        released: list[Callable[[bool], None]] = []
        monkeypatch.setattr(acks, "when_flushed", lambda _end, release: released.append(release))
        wire = Wire(broker.config.address)
        careful = [
            wire.post(RequestCode.SEND_MESSAGE, send_ext("t", properties=text), b"careful")
            for text in ("", "WAIT\x01true")
        ]
        hasty = wire.send("t", b"hasty", properties="WAIT\x01false")
        assert hasty.code == ResponseCode.SUCCESS
        assert (hasty.ext or {})["queueOffset"] == "2", "both others came before it"
        assert not wire._responses, "and wait for the disk"
        assert len(released) == len(careful)

        async def flushed() -> None:
            for release in released:
                release(True)

        cluster.run(flushed())
        assert {wire.answer(opaque).code for opaque in careful} == {ResponseCode.SUCCESS}
        wire.close()


def test_sends_are_refused_while_the_disk_is_full(cluster: LocalCluster) -> None:
    (broker,) = cluster.brokers.values()
    wire = Wire(broker.config.address)
    broker.store.clean(used_ratio=0.95)
    refused = wire.send("full")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the broker's disk is full" in (refused.remark or "")
    broker.store.clean(used_ratio=0.1)
    assert wire.send("full").code == ResponseCode.SUCCESS
    wire.close()
