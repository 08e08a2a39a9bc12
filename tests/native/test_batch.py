"""Batch bodies."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import errors
from orbitmq._native import (
    BatchBody,
    UniqueIds,
    decode_batch,
    encode_batch,
    join_batch_properties,
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_MESSAGES = st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), _TEXT))


@given(_MESSAGES)
def test_round_trip(messages: list[tuple[int, bytes, str]]) -> None:
    assert decode_batch(encode_batch(messages)) == messages


def test_layout() -> None:
    expected = struct.pack(">iiiii2sh3s", 22 + 2 + 3, 0, 0, 7, 2, b"hi", 3, b"k\x01v")
    assert encode_batch([(7, b"hi", {"k": "v"})]) == expected


def test_the_error_says_where_the_bad_message_begins() -> None:
    good = encode_batch([(0, b"hi", "")])
    with pytest.raises(errors.MalformedBatch) as caught:
        decode_batch(good + good[:-1])
    assert caught.value.offset == len(good)


def test_properties_too_long_are_refused() -> None:
    with pytest.raises(errors.MalformedBatch, match="32767"):
        encode_batch([(0, b"", "x" * 32768)])
    with pytest.raises(errors.MalformedBatch, match="32767"):
        join_batch_properties("x" * 20000, "x" * 20000)


@pytest.mark.parametrize(
    ("own", "of_batch", "expected"),
    [
        ("a\x01b", "c\x01d", "a\x01b\x02c\x01d"),
        ("a\x01b\x02", "c\x01d", "a\x01b\x02c\x01d"),
        ("", "c\x01d", "c\x01d"),
        ("a\x01b", "", "a\x01b"),
    ],
)
def test_stored_properties_are_the_own_then_the_batch_s(
    own: str, of_batch: str, expected: str
) -> None:
    assert join_batch_properties(own, of_batch) == expected


def test_a_batch_that_grows_gives_each_message_an_id() -> None:
    batch, ids = BatchBody(), UniqueIds("7F0000010001")
    assert batch.add(ids, 5, 1, b"one", True, "") == 1
    assert batch.add(ids, 6, 0, b"two", False, "\2TAGS\1a") == 2
    with pytest.raises(errors.MalformedBatch):
        batch.add(ids, 7, 0, b"three", True, "\2a\1" + "b" * 32767)
    first, second = batch.ids.split(",")
    assert (len(batch), batch.ids.count(",")) == (len(bytes(batch)), 1)
    assert decode_batch(bytes(batch)) == [
        (1, b"one", f"UNIQ_KEY\1{first}\2WAIT\1true"),
        (0, b"two", f"UNIQ_KEY\1{second}\2WAIT\1false\2TAGS\1a"),
    ]
    assert first != second
