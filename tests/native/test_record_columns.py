"""Records as Arrow columns, through the face that Arrow libraries see."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import pytest

from orbitmq._native import ArrowBatch, RecordColumns, compress, compression_flags, encode_record
from orbitmq.errors import MalformedBody, MalformedRecord

PROPERTIES = {"KEYS": "k1 k2", "TAGS": "红", "UNIQ_KEY": "U1", "a": "b"}


def record(offset: int, body: bytes = b"hello", **parts: Any) -> bytes:
    return encode_record(
        "orders", body, queue_id=3, queue_offset=offset, physical_offset=1000 + offset, **parts
    )


def records(count: int, **parts: Any) -> bytes:
    return b"".join(record(offset, **parts) for offset in range(count))


def test_batches_end_at_their_bounds() -> None:
    data = records(10, body=b"x" * 1000)
    cases: list[dict[str, Any]] = [{"max_rows": 4}, {"max_bytes": 4000}]
    for bounds in cases:
        columns = RecordColumns(["queueOffset", "body"], **bounds)
        at, sizes = 0, []
        while at < len(data):
            at = columns.append(data, at)
            assert columns.is_full == (at < len(data))
            assert columns.num_bytes > 1000 * columns.num_rows
            sizes.append(columns.finish().num_rows)
        assert sizes == [4, 4, 2], bounds


def test_what_is_not_wanted_is_left_out() -> None:
    tags = ["AaAa", "BBBB", "AaAa"]  # of one hash code
    data = b"".join(record(n, properties={"TAGS": tag}) for n, tag in enumerate(tags))
    columns = RecordColumns([])
    assert columns.append(data, tags=["AaAa"]) == len(data)
    assert columns.finish().num_rows == 2
    columns.append(memoryview(bytearray(data)), from_offset=1, to_offset=2)
    assert columns.finish().num_rows == 1


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r'no column "Body"; there are topic, brokerName'):
        RecordColumns(["Body"])
    with pytest.raises(ValueError, match='"body" is named twice'):
        RecordColumns(["body", "body"])
    with pytest.raises(ValueError, match="must be positive"):
        RecordColumns(max_rows=0)
    columns = RecordColumns()
    with pytest.raises(ValueError, match="byte 7 of 3"):
        columns.append(b"abc", 7)
    with pytest.raises(MalformedRecord) as caught:
        columns.append(record(0) + b"garbage" * 20)
    assert caught.value.offset == len(record(0))
    damaged = bytearray(record(0))
    damaged[damaged.index(b"hello")] ^= 1
    with pytest.raises(MalformedBody, match=r"message 0 of queue 3 of topic orders .*checksum"):
        columns.append(damaged)
    columns.append(damaged, verify_crc=False)


def test_a_compressed_body_that_is_none_names_its_message() -> None:
    columns = RecordColumns(["body"])
    columns.append(record(1, compress(b"abc" * 99, "zstd"), sys_flag=compression_flags("zstd")))
    with pytest.raises(MalformedBody, match="message 7 of queue 3 of topic orders"):
        columns.append(record(7, b"no zlib", sys_flag=1))
    assert columns.finish().num_rows == 1


def test_bodies_that_cannot_be_read_stay_as_they_are_for_who_wants_them() -> None:
    columns = RecordColumns(["body", "topic"], keep_damaged=True)
    columns.append(record(7, b"no zlib", sys_flag=1) + record(8), topic="short")
    assert columns.finish().num_rows == 2
    count, (text,) = columns.take_damages()
    assert count == 1
    assert text.startswith("message 7 of queue 3 of topic orders")
    assert columns.take_damages() == (0, [])
    assert columns.num_records == 2


class _ArrowArray(ctypes.Structure):
    """The head of Arrow's C struct, as far as this test looks."""

    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
    )


def test_the_capsules_are_arrows() -> None:
    columns = RecordColumns()
    columns.append(records(3, properties=PROPERTIES), broker_name="broker-a")
    batch = columns.finish()
    assert isinstance(batch, ArrowBatch)
    assert repr(batch) == "ArrowBatch(3 rows, 17 columns)"
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    schema, array = batch.__arrow_c_array__()
    assert pointer(schema, b"arrow_schema")
    head = _ArrowArray.from_address(pointer(array, b"arrow_array"))
    assert (head.length, head.n_children) == (3, 17)
    # Each call gives capsules of their own; those nobody takes over are released with them.
    del schema, array
    assert batch.__arrow_c_schema__() is not batch.__arrow_c_schema__()


def test_building_lets_other_threads_run() -> None:
    data = records(50_000)
    columns = RecordColumns(max_rows=10**9)
    stop, turns = threading.Event(), 0

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = turns
        columns.append(data)
        assert turns > before
    finally:
        stop.set()
        thread.join()
