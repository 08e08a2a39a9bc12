"""Queries by key on an index file whose header or slots are damaged: each is answered."""

from __future__ import annotations

import struct

import pytest

from orbitmq._native import decode_records
from orbitmq.protocol.codes import RequestCode, ResponseCode
from tests.broker.conftest import Wire
from tests.hostile.conftest import Victim

SLOTS_USED, NEXT_ENTRY, SLOTS = 32, 36, 40
FILLED_SLOTS = 50_000
DAMAGES = {
    "slots used": (SLOTS_USED, -1),
    "next entry": (NEXT_ENTRY, 0x7FFFFFFF),
    "next entry below zero": (NEXT_ENTRY, -(1 << 31)),
}


@pytest.mark.parametrize(("place", "number"), DAMAGES.values(), ids=DAMAGES)
def test_a_query_by_key_is_answered_when_the_index_is_damaged(
    own_victim: Victim, place: int, number: int
) -> None:
    wire = Wire(own_victim.broker)
    wire.send("t", b"before", properties="KEYS\x01k1")
    (index_file,) = (own_victim.store / "index").iterdir()
    with index_file.open("r+b") as file:
        file.seek(place)
        file.write(struct.pack(">i", number))
        if place == NEXT_ENTRY:
            # Every slot leads to an entry for which the file has no room.
            file.seek(SLOTS)
            file.write(struct.pack(">i", 0x7FFFFFFE) * FILLED_SLOTS)
    ext = {
        "topic": "t",
        "key": "k1",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(1 << 62),
    }
    found = wire.ask(RequestCode.QUERY_MESSAGE, ext)
    assert found.code in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND), found.remark
    sent = wire.send("t", b"after", properties="KEYS\x01k2")
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    found = wire.ask(RequestCode.QUERY_MESSAGE, ext | {"key": "k2"})
    assert [record.body for record in decode_records(found.body)] == [b"after"]
    own_victim.serves_others()
    wire.close()
