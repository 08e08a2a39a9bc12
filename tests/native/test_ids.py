"""Message ids."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import errors
from orbitmq._native import (
    decode_offset_id,
    decode_records,
    decode_unique_id,
    encode_offset_id,
    encode_record,
    encode_unique_id,
)

_IPS = st.ip_addresses().map(str)
_I32 = st.integers(-(2**31), 2**31 - 1)
_U16 = st.integers(0, 2**16 - 1)


@pytest.mark.parametrize(
    ("host", "offset", "text"),
    [
        (("10.1.2.3", 10911), 452, "0A01020300002A9F00000000000001C4"),
        (("192.168.1.10", 10911), 123456789, "C0A8010A00002A9F00000000075BCD15"),
    ],
)
def test_known_offset_ids(host: tuple[str, int], offset: int, text: str) -> None:
    assert encode_offset_id(host, offset) == text
    assert decode_offset_id(text) == (host, offset)
    assert decode_offset_id(text.lower()) == (host, offset)


@given(_IPS, _I32, st.integers(-(2**63), 2**63 - 1))
def test_offset_ids_round_trip(ip: str, port: int, offset: int) -> None:
    text = encode_offset_id((ip, port), offset)
    assert len(text) == (32 if ip_address(ip).version == 4 else 56)
    (got_ip, got_port), got_offset = decode_offset_id(text)
    assert (ip_address(got_ip), got_port, got_offset) == (ip_address(ip), port, offset)


@given(_IPS, _U16, _I32, _I32, _U16)
def test_unique_ids_round_trip(ip: str, pid: int, loader: int, ms: int, counter: int) -> None:
    got_ip, *rest = decode_unique_id(encode_unique_id(ip, pid, loader, ms, counter))
    assert (ip_address(got_ip), *rest) == (ip_address(ip), pid, loader, ms, counter)


def test_a_record_knows_its_offset_id() -> None:
    data = encode_record("T", b"", store_host=("10.1.2.3", 10911), physical_offset=452)
    assert decode_records(data)[0].offset_id == "0A01020300002A9F00000000000001C4"


@pytest.mark.parametrize("text", ["", "0A", "G" * 32, "0" * 33, "é" * 16])
def test_what_is_no_id_is_an_error(text: str) -> None:
    with pytest.raises(errors.MalformedId):
        decode_offset_id(text)
    with pytest.raises(errors.MalformedId):
        decode_unique_id(text)
