"""Messages as a consumer gets them out of a pull's body."""

import struct

import pytest

from orbitmq import errors
from orbitmq._native import (
    Record,
    compress,
    compression_flags,
    decode_messages,
    decode_records,
    encode_record,
)
from orbitmq.protocol.bodies import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 3)
UNIQUE_ID = "7F00000100002A9F000000000000ABCD"


def _record(
    offset: int = 5, *, topic: str = "orders", body: bytes = b"hello", **more: object
) -> bytes:
    properties = more.pop("properties", {"TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": UNIQUE_ID})
    return encode_record(
        topic,
        body,
        queue_id=3,
        queue_offset=offset,
        physical_offset=1000,
        flag=7,
        born_timestamp=11,
        born_host=("10.0.0.1", 1),
        store_timestamp=12,
        store_host=("10.0.0.2", 10911),
        reconsume_times=2,
        prepared_transaction_offset=99,
        properties=properties,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("born", ["10.0.0.1", "fe80::1"])
@pytest.mark.parametrize("stored", ["10.0.0.2", "fe80::2"])
def test_it_says_what_the_record_says(born: str, stored: str) -> None:
    data = encode_record(
        "orders",
        b"hello",
        queue_id=3,
        queue_offset=5,
        physical_offset=1000,
        flag=7,
        born_timestamp=11,
        born_host=(born, 1),
        store_timestamp=12,
        store_host=(stored, 10911),
        reconsume_times=2,
        prepared_transaction_offset=99,
        properties={"a": "b", "TAGS": "t", "KEYS": "k1 k2"},
    )
    (record,), (message,) = decode_records(data), decode_messages(data, QUEUE, topic="orders")
    shared = {name for name in dir(Record) if not name.startswith("_")} & set(dir(message))
    assert {"body", "born_host", "store_timestamp", "keys", "properties"} <= shared
    for name in shared - {"get_property"}:
        assert getattr(message, name) == getattr(record, name), name
    assert message.get_property("a") == record.get_property("a") == "b"
    assert message.stored_size == len(data)
    assert message.queue is QUEUE


def test_the_id_is_the_producers_or_the_place() -> None:
    own, placed = decode_messages(_record() + _record(properties={}), QUEUE)
    assert own.message_id == UNIQUE_ID
    assert placed.message_id == placed.offset_id == "0A00000200002A9F00000000000003E8"


def test_only_wanted_tags_are_kept() -> None:
    data = b"".join(
        _record(offset, properties={"TAGS": tag} if tag else {})
        for offset, tag in enumerate(["a", "b", "", "ab", "a"])
    )
    offsets = [message.queue_offset for message in decode_messages(data, QUEUE, tags=["a"])]
    assert offsets == [0, 4]
    assert len(decode_messages(data, QUEUE)) == 5
    assert [m.queue_offset for m in decode_messages(data, QUEUE, after=2)] == [3, 4]


def test_a_retried_message_shows_its_first_topic() -> None:
    properties = {"RETRY_TOPIC": "shop%orders"}
    data = _record(topic="%RETRY%shop%billing", properties=properties)
    (message,) = decode_messages(data, QUEUE, namespace="shop")
    assert message.topic == "orders"
    assert message.stored_topic == "%RETRY%shop%billing"
    (plain,) = decode_messages(data, QUEUE)
    assert plain.topic == "shop%orders"


def test_the_body_is_inflated_when_asked_for() -> None:
    body = b"x" * 10_000
    packed = compress(body, "zlib")
    data = _record(body=packed, sys_flag=compression_flags("zlib"))
    (message,) = decode_messages(data, QUEUE)
    assert message.body == body
    assert message.stored_body == packed


def test_a_transaction_has_the_producers_id() -> None:
    data = _record(properties={"TRAN_MSG": "true", "UNIQ_KEY": "id"}) + _record()
    in_transaction, plain = decode_messages(data, QUEUE)
    assert in_transaction.transaction_id == "id"
    assert plain.transaction_id is None


def test_the_pull_says_where_the_queue_begins_and_ends() -> None:
    (message,) = decode_messages(_record(), QUEUE, min_offset=2, max_offset=8)
    assert (message.min_offset, message.max_offset) == (2, 8)


def test_another_count_of_tries() -> None:
    (message,) = decode_messages(_record(), QUEUE)
    again = message.with_reconsume_times(9)
    assert (message.reconsume_times, again.reconsume_times) == (2, 9)
    assert again.body == message.body
    assert again.queue is QUEUE


def test_text_that_is_not_utf8_stops_nobody() -> None:
    data = _record(properties={"a": "xxxx"}).replace(b"xxxx", b"x\xff\xfex")
    broken, whole = decode_messages(data + _record(6), QUEUE)
    assert broken.get_property("a") == "x\ufffd\ufffdx"
    assert broken.body == b"hello"
    assert whole.queue_offset == 6


@pytest.mark.parametrize("cut", [1, 50, 90])
def test_bytes_that_are_no_record_are_an_error(cut: int) -> None:
    data = _record() + _record()[:-cut]
    with pytest.raises(errors.MalformedRecord) as caught:
        decode_messages(data, QUEUE)
    assert caught.value.offset == len(_record())


def test_a_changed_body_is_an_error() -> None:
    with pytest.raises(errors.MalformedRecord):
        decode_messages(_record().replace(b"hello", b"hallo"), QUEUE)


def test_lengths_that_lie_are_an_error() -> None:
    data = bytearray(_record())
    struct.pack_into(">i", data, 84, 4000)
    with pytest.raises(errors.MalformedRecord):
        decode_messages(data, QUEUE)
