"""Compressed bodies: round trips, other people's streams, and bombs."""

import zlib
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import errors
from orbitmq._native import (
    compress,
    compression_flags,
    decode_records,
    decompress,
    encode_record,
)

Codec = Literal["zlib", "lz4", "zstd"]
_CODECS: list[Codec] = ["zlib", "lz4", "zstd"]
every_codec = pytest.mark.parametrize("codec", _CODECS)


@every_codec
@given(body=st.binary(max_size=2000), level=st.integers(0, 9))
def test_round_trip(codec: Codec, body: bytes, level: int) -> None:
    assert decompress(compress(body, codec, level=level), codec) == body


def test_zlib_is_python_s_zlib() -> None:
    body = b"hello " * 1000
    assert zlib.decompress(compress(body, "zlib")) == body
    assert decompress(zlib.compress(body), "zlib") == body


@pytest.mark.parametrize(("codec", "flags"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
def test_a_record_inflates_its_body(codec: Codec, flags: int) -> None:
    body = b"hello " * 1000
    assert compression_flags(codec) == flags
    data = encode_record("T", compress(body, codec), sys_flag=flags)
    (record,) = decode_records(data)
    assert record.body == body
    assert len(record.stored_body) < len(body)


def test_old_clients_mean_zlib_and_plain_bodies_stay_as_they_are() -> None:
    (old,) = decode_records(encode_record("T", zlib.compress(b"hello"), sys_flag=1))
    (plain,) = decode_records(encode_record("T", b"hello"))
    assert old.body == plain.body == plain.stored_body == b"hello"


@pytest.mark.parametrize("flags", [0x401, 0x701])
def test_an_unknown_codec_is_an_error_of_the_body_alone(flags: int) -> None:
    (record,) = decode_records(encode_record("T", b"hello", sys_flag=flags))
    assert record.stored_body == b"hello"
    with pytest.raises(errors.MalformedBody, match="compression type"):
        _ = record.body


@every_codec
def test_a_bomb_stops_at_the_limit(codec: Codec) -> None:
    bomb = compress(bytes(1_000_000), codec)
    assert len(bomb) < 10_000
    with pytest.raises(errors.MalformedBody, match="more than 999999 bytes"):
        decompress(bomb, codec, max_bytes=999_999)
    assert len(decompress(bomb, codec, max_bytes=1_000_000)) == 1_000_000


@every_codec
def test_a_truncated_body_is_an_error(codec: Codec) -> None:
    whole = compress(b"hello " * 1000, codec)
    for cut in range(len(whole) - 1):
        with pytest.raises(errors.MalformedBody):
            decompress(whole[:cut], codec)
