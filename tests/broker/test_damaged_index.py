"""Queries by key on index files with a damaged header or damaged slots."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire

BEGIN_TIMESTAMP, END_TIMESTAMP, END_PHYSICAL, SLOTS_USED, NEXT_ENTRY, SLOTS = 0, 8, 24, 32, 36, 40
FILLED_SLOTS = 5_000_000


def index_file(cluster: LocalCluster) -> Path:
    (broker,) = cluster.brokers.values()
    (file,) = (Path(broker.config.store_path_root_dir) / "index").iterdir()
    return file


def query(wire: Wire, key: str) -> Command:
    ext = {
        "topic": "t",
        "key": key,
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(1 << 62),
    }
    return wire.ask(RequestCode.QUERY_MESSAGE, ext)


@pytest.mark.parametrize("number", [-1, 0x7FFFFFFF, 1 << 24, -(1 << 31)])
@pytest.mark.parametrize("place", [SLOTS_USED, NEXT_ENTRY])
def test_queries_are_answered_when_the_entry_count_is_damaged(
    cluster: LocalCluster, wire: Wire, place: int, number: int
) -> None:
    wire.send("t", b"before", properties="KEYS\x01k1")
    with index_file(cluster).open("r+b") as file:
        file.seek(place)
        file.write(struct.pack(">i", number))
        if place == NEXT_ENTRY:
            # Every slot points to an entry that the header allows but the file has no room for.
            file.seek(SLOTS)
            file.write(struct.pack(">i", 0x7FFFFFFE) * FILLED_SLOTS)
    assert query(wire, "k1").code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    sent = wire.send("t", b"after", properties="KEYS\x01k2")
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    assert query(wire, "k2").code == ResponseCode.SUCCESS


@pytest.mark.parametrize("number", [-1, (1 << 63) - 1, -(1 << 63)])
@pytest.mark.parametrize("place", [BEGIN_TIMESTAMP, END_TIMESTAMP, END_PHYSICAL])
def test_queries_are_answered_when_a_time_or_offset_is_damaged(
    cluster: LocalCluster, wire: Wire, place: int, number: int
) -> None:
    wire.send("t", b"before", properties="KEYS\x01k1")
    with index_file(cluster).open("r+b") as file:
        file.seek(place)
        file.write(struct.pack(">q", number))
    assert query(wire, "k1").code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    sent = wire.send("t", b"after", properties="KEYS\x01k2")
    assert sent.code == ResponseCode.SUCCESS, sent.remark
