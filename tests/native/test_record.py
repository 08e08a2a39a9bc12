"""Records: layout, views, and errors that say where."""

import struct
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import errors
from orbitmq._native import Record, decode_records, encode_properties, encode_record

_I32 = st.integers(-(2**31), 2**31 - 1)
_I64 = st.integers(-(2**63), 2**63 - 1)
_HOSTS = st.tuples(st.ip_addresses().map(str), st.integers(0, 65535))
_TOPICS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_HOST_BITS = 0x30

_FIELDS = st.fixed_dictionaries(
    {
        "topic": _TOPICS,
        "body": st.binary(max_size=300),
        "queue_id": _I32,
        "queue_offset": _I64,
        "physical_offset": _I64,
        "flag": _I32,
        # Compressed bodies are a subject of their own, see test_compression.py.
        "sys_flag": st.sampled_from([0, 2, 4, 8, 12]),
        "born_timestamp": _I64,
        "born_host": _HOSTS,
        "store_timestamp": _I64,
        "store_host": _HOSTS,
        "reconsume_times": _I32,
        "prepared_transaction_offset": _I64,
    }
)


def _one(data: bytes) -> Record:
    (record,) = decode_records(data)
    return record


@given(_FIELDS)
def test_every_field_comes_back(fields: dict[str, Any]) -> None:
    record = _one(encode_record(**fields))
    assert record.sys_flag & ~_HOST_BITS == fields.pop("sys_flag")
    assert record.stored_body == fields.pop("body")
    for name in ("born_host", "store_host"):
        # An IPv6 address has several spellings; it is the address that must come back.
        (ip, port), (got_ip, got_port) = fields.pop(name), getattr(record, name)
        assert (ip_address(got_ip), got_port) == (ip_address(ip), port)
    for name, value in fields.items():
        assert getattr(record, name) == value, name


@given(st.lists(_FIELDS, max_size=5))
def test_a_list_is_its_records_back_to_back(messages: list[dict[str, Any]]) -> None:
    encoded = [encode_record(**fields) for fields in messages]
    records = decode_records(b"".join(encoded))
    assert [record.encoded for record in records] == encoded


def test_bytes_are_laid_out_as_rocketmq_does() -> None:
    data = encode_record(
        "T",
        b"hello",
        queue_id=3,
        flag=7,
        queue_offset=11,
        physical_offset=452,
        born_timestamp=1,
        born_host=("10.1.2.3", 10911),
        store_timestamp=2,
        store_host=("10.1.2.4", 80),
        properties="TAGS\x01a",
    )
    expected = struct.pack(
        ">iIiiiqqiq4siq4siiqi5sb1sh6s",
        91 + 5 + 1 + 6,
        0xDAA320A7,
        907060870,
        *(3, 7, 11, 452, 0, 1),
        *(bytes([10, 1, 2, 3]), 10911, 2, bytes([10, 1, 2, 4]), 80),
        *(0, 0, 5, b"hello", 1, b"T", 6, b"TAGS\x01a"),
    )
    assert data == expected


def test_properties_tags_and_keys() -> None:
    properties = {"KEYS": "order-1  order-2", "TAGS": "paid", "region": "eu"}
    record = _one(encode_record("T", b"", properties=properties))
    assert record.properties == properties
    assert record.properties_text == encode_properties(properties)
    assert record.tags == "paid"
    assert record.keys == ("order-1", "order-2")
    assert record.get_property("region") == "eu"
    assert record.get_property("Region") is None

    bare = _one(encode_record("T", b""))
    assert (bare.tags, bare.keys, bare.properties) == (None, (), {})


def test_equal_bytes_make_equal_records() -> None:
    a, b = decode_records(encode_record("T", b"x") * 2)
    (c,) = decode_records(encode_record("T", b"y"))
    assert a == b
    assert hash(a) == hash(b)
    assert a != c
    assert a != "x"


def test_a_record_outlives_the_buffer_it_came_from() -> None:
    buffer = bytearray(encode_record("T", b"hello"))
    (record,) = decode_records(buffer)
    buffer[:] = bytes(len(buffer))
    assert record.stored_body == b"hello"


def test_the_error_says_where_the_bad_record_begins() -> None:
    good = encode_record("T", b"hello")
    bad = bytearray(good)
    bad[88] ^= 1
    with pytest.raises(errors.MalformedRecord, match="checksum") as caught:
        decode_records(good + bad)
    assert caught.value.offset == len(good)
    assert len(decode_records(good + bad, check_crc=False)) == 2


@pytest.mark.parametrize("cut", [1, 7, 50, 95])
def test_a_truncated_list_is_an_error(cut: int) -> None:
    good = encode_record("T", b"hello")
    with pytest.raises(errors.MalformedRecord) as caught:
        decode_records(good + good[:cut])
    assert caught.value.offset == len(good)


@given(st.binary(max_size=300))
def test_garbage_is_an_error_value(data: bytes) -> None:
    try:
        records = decode_records(data)
    except errors.MalformedRecord as error:
        assert error.offset is not None
        assert 0 <= error.offset < len(data)
    else:
        assert b"".join(record.encoded for record in records) == data


@pytest.mark.parametrize(
    ("topic", "properties", "names"),
    [("x" * 128, "", "topic"), ("x", "k\x01" + "v" * 32766, "properties")],
)
def test_parts_that_do_not_fit_are_refused(topic: str, properties: str, names: str) -> None:
    with pytest.raises(errors.MalformedRecord, match=names):
        encode_record(topic, b"", properties=properties)


@pytest.mark.parametrize("host", [("localhost", 1), ("1.2.3", 1), ("1.2.3.4.5", 1)])
def test_a_host_is_an_address_not_a_name(host: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="address"):
        encode_record("T", b"", born_host=host)
