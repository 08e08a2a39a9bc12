"""Numbers that must be Java's to the bit."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq._native import body_crc, java_hash, tags_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("Aa", 2112),
        ("BB", 2112),
        ("TagA", 2598919),
        ("中文", 646394),
        ("😀", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_java_hash_of_known_strings(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@given(st.text())
def test_java_hash_counts_utf16_units(text: str) -> None:
    units = memoryview(text.encode("utf-16-le")).cast("H")
    expected = 0
    for unit in units:
        expected = (31 * expected + unit) & 0xFFFFFFFF
    assert java_hash(text) & 0xFFFFFFFF == expected
    assert -(2**31) <= java_hash(text) < 2**31


def test_tags_code_is_the_hash_with_its_sign() -> None:
    assert tags_code("") == 0
    assert tags_code("TagA") == 2598919
    assert tags_code("polygenelubricants") == -(2**31)


@given(st.binary(max_size=200))
def test_body_crc_is_crc32_without_its_highest_bit(body: bytes) -> None:
    assert body_crc(body) == zlib.crc32(body) & 0x7FFFFFFF
    assert body_crc(memoryview(bytearray(body))) == body_crc(body)
