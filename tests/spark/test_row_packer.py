"""Packing of rows of Arrow columns into sends."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from orbitmq._native import PackedSend, RowPacker, decode_batch, decode_properties, java_hash
from orbitmq.errors import BadMessage

TYPES: dict[str, Any] = {
    "body": pa.binary(),
    "keys": pa.list_(pa.string()),
    "properties": pa.map_(pa.string(), pa.string()),
    "delayLevel": pa.int32(),
    "queueId": pa.int32(),
    "deliverAt": pa.int64(),
}


def batch(**columns: Sequence[object]) -> Any:
    return pa.record_batch(
        {
            name: pa.array(list(values), TYPES.get(name, pa.string()))
            for name, values in columns.items()
        }
    )


def packer(topic: str | None = "t", *, scope: str | None = None, **changes: int) -> RowPacker:
    limits = {"batch_bytes": 1000, "body_bytes": 5000, "waiting_bytes": 100_000} | changes
    return RowPacker(
        topic=topic,
        left_out={"UNIQ_KEY", "WAIT"},
        id_prefix=None if scope else b"0123456789",
        scope=scope,
        **limits,
    )


def packed(
    rows: Any, packer: RowPacker, counts: dict[str, list[int]] | None = None
) -> list[PackedSend]:
    return [*packer.push(rows, queue_counts=counts or {}, month_ms=1), *packer.finish()]


def messages(send: PackedSend) -> list[tuple[bytes, dict[str, str]]]:
    if send.properties is not None:
        return [(send.body, decode_properties(send.properties))]
    return [(body, decode_properties(text)) for _, body, text in decode_batch(send.body)]


def all_messages(sends: Iterable[PackedSend]) -> list[tuple[bytes, dict[str, str]]]:
    return [message for send in sends for message in messages(send)]


def test_every_column_becomes_its_message_field() -> None:
    rows = batch(
        body=[b"one", b"two"],
        tags=["a", None],
        keys=[["k1", "k2"], None],
        properties=[[("shop", "7"), ("WAIT", "false"), ("none", None), ("TAGS", "x")], []],
    )
    (send,) = packed(rows, packer())
    assert (send.topic, send.rows, send.broker_name, send.queue_id, send.slot) == (
        *("t", 2, None, None),
        None,
    )
    (one, first), (two, second) = messages(send)
    assert (one, two) == (b"one", b"two")
    assert first.pop("UNIQ_KEY") != second.pop("UNIQ_KEY")
    assert first == {"TAGS": "a", "KEYS": "k1 k2", "shop": "7"}
    assert second == {}


def test_tags_and_keys_come_from_properties_without_their_columns() -> None:
    rows = batch(body=[b"x"], properties=[[("TAGS", "a"), ("KEYS", "k")]])
    ((_, properties),) = all_messages(packed(rows, packer()))
    assert (properties["TAGS"], properties["KEYS"]) == ("a", "k")


def test_batches_are_nearly_full_but_within_the_limit() -> None:
    bodies = [b"%03d" % number + b"x" * 97 for number in range(50)]
    sends = packed(batch(body=bodies), packer())
    assert all(len(send.body) <= 1000 for send in sends)
    assert all(len(send.body) > 800 for send in sends[:-1])
    assert [body for body, _ in all_messages(sends)] == bodies


def test_single_and_oversized_rows_are_plain_messages() -> None:
    sends = packed(batch(body=[b"a", b"x" * 1000]), packer())
    assert sorted((send.rows, len(send.body)) for send in sends) == [(1, 1), (1, 1000)]
    assert all(send.properties is not None for send in sends)


def test_rows_are_grouped_by_topic_broker_and_queue() -> None:
    rows = batch(
        body=[b"1", b"2", b"3", b"4", b"5"],
        topic=["a", "b", "a", "a", "a"],
        queueId=[0, 0, 1, 0, None],
        brokerName=["x", "x", None, "x", "y"],
    )
    pack = packer(None)
    assert pack.topics(rows) == ["a", "b"]
    found = {
        (send.topic, send.broker_name, send.queue_id): [body for body, _ in messages(send)]
        for send in packed(rows, pack)
    }
    assert found == {
        ("a", "x", 0): [b"1", b"4"],
        ("b", "x", 0): [b"2"],
        ("a", None, 1): [b"3"],
        ("a", "y", None): [b"5"],
    }


def test_sharding_keys_choose_the_queue_as_in_all_clients() -> None:
    keys = ["a", "b", "customer-7", "Ünïcode", "𝄞"]
    rows = batch(body=[key.encode() for key in keys], shardingKey=keys)
    for send in packed(rows, packer(), {"t": [3]}):
        for body, _ in messages(send):
            assert send.slot == abs(java_hash(body.decode())) % 3


def test_a_key_stays_with_its_broker_when_queues_are_added() -> None:
    keys = [f"customer-{number}" for number in range(200)]
    rows = batch(body=[key.encode() for key in keys], shardingKey=keys)

    def places(*counts: int) -> dict[bytes, tuple[int, int]]:
        bounds = list(itertools.accumulate(counts, initial=0))
        found = {}
        for send in packed(rows, packer(), {"t": list(counts)}):
            assert send.slot is not None
            broker = bisect.bisect_right(bounds, send.slot) - 1
            for body, _ in messages(send):
                found[body] = broker, send.slot - bounds[broker]
        return found

    before, after = places(4, 4, 1), places(6, 4, 3)
    assert {broker for broker, _ in before.values()} == {0, 1, 2}
    assert {queue for broker, queue in after.values() if broker == 0} == set(range(6))
    assert {key: broker for key, (broker, _) in before.items()} == {
        key: broker for key, (broker, _) in after.items()
    }


def test_delayed_rows_are_sent_alone_and_in_queue_order() -> None:
    rows = batch(
        body=[b"1", b"2", b"3", b"4"],
        queueId=[0, 0, 0, 0],
        delayLevel=[None, 0, 3, None],
        deliverAt=[None, None, None, 1_700_000_000_000],
    )
    sends = packed(rows, packer())
    bodies = [[body for body, _ in messages(send)] for send in sends]
    assert bodies == [
        [b"1", b"2"],
        [b"3"],
        [b"4"],
    ]
    assert messages(sends[1])[0][1]["DELAY"] == "3"
    assert messages(sends[2])[0][1]["TIMER_DELIVER_MS"] == "1700000000000"


def test_rows_for_a_retry_topic_are_sent_alone() -> None:
    rows = batch(body=[b"1", b"2"], topic=["%RETRY%group"] * 2)
    assert [send.rows for send in packed(rows, packer(None))] == [1, 1]


def test_groups_span_batches_and_are_flushed_at_the_size_limit() -> None:
    pack = packer(None, waiting_bytes=2000)
    for topic in ("a", "b"):
        rows = batch(body=[b"x" * 100] * 3, topic=[topic] * 3)
        assert pack.push(rows, queue_counts={}, month_ms=1) == []
    rows = batch(body=[b"x" * 100] * 9, topic=[f"t{number}" for number in range(9)])
    out = pack.push(rows, queue_counts={}, month_ms=1)
    assert {send.topic for send in out} >= {"a", "b"}
    assert sum(send.rows for send in [*out, *pack.finish()]) == 15


def test_a_scope_gives_equal_rows_of_a_replay_equal_ids() -> None:
    def ids(scope: str, bodies: list[bytes], batch_bytes: int = 1000) -> set[str]:
        sends = packed(batch(body=bodies), packer(scope=scope, batch_bytes=batch_bytes))
        found = [properties["UNIQ_KEY"] for _, properties in all_messages(sends)]
        assert len(set(found)) == len(bodies)
        return set(found)

    bodies = [b"a", b"b", b"a", b"c"]
    first = ids("q/1/0", bodies)
    assert ids("q/1/0", bodies[::-1], batch_bytes=100) == first
    assert not ids("q/2/0", bodies) & first


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": [b""]}, "no body"),
        ({"body": [None]}, "no body"),
        ({"body": [b"x" * 5001]}, "5001 bytes, the limit is 5000"),
        ({"body": [b"x"], "tags": ["a\2b"]}, "tags holds a character that separates"),
        ({"body": [b"x"], "keys": [["a b"]]}, "has a space in it"),
        ({"body": [b"x"], "properties": [[("a\2", "b")]]}, "name of a property"),
        ({"body": [b"x"], "properties": [[("a\1", "b")]]}, "name of a property"),
        ({"body": [b"x"], "properties": [[("a", "b\2")]]}, "a property holds"),
        ({"body": [b"x"], "properties": [[("a", "b" * 40_000)]]}, "at most 32767 fit"),
        ({"body": [b"x"], "queueId": [-1]}, "counted from 0"),
        ({"body": [b"x"], "queueId": [1], "shardingKey": ["k"]}, "only one of"),
        ({"body": [b"x"], "brokerName": ["b"], "shardingKey": ["k"]}, "shardingKey"),
        ({"body": [b"x"], "delayLevel": [1], "deliverAt": [1]}, "only one of"),
        ({"body": [b"x"], "shardingKey": ["k"]}, "no queue"),
        ({"tags": ["x"]}, "column body is missing"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(columns: dict[str, list[Any]], words: str) -> None:
    with pytest.raises(BadMessage, match=words):
        packed(batch(**columns), packer())


def test_row_numbers_count_over_all_batches() -> None:
    pack = packer(None)
    pack.push(batch(body=[b"x"] * 3, topic=["t"] * 3), queue_counts={}, month_ms=1)
    with pytest.raises(BadMessage, match="row 4 has no topic"):
        pack.push(batch(body=[b"x"] * 2, topic=["t", None]), queue_counts={}, month_ms=1)
    bad = batch(body=[b"x"], topic=["a b"])
    with pytest.raises(BadMessage, match="not a topic's name"):
        pack.topics(bad)
    with pytest.raises(BadMessage, match="not a topic's name"):
        pack.push(bad, queue_counts={}, month_ms=1)


def test_columns_of_another_type_are_refused() -> None:
    with pytest.raises(BadMessage, match="column body has type Utf8, not binary"):
        packed(pa.record_batch({"body": pa.array(["x"])}), packer())
