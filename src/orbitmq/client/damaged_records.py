"""Records that a reader leaves out because they are damaged, so that it can read the others.

::

    record    total size i32 | … | queue offset i64 at 20 | physical offset i64 at 28 | …

A damaged record (a flipped bit in its body, say) stays damaged however often it is read. A reader
that refused the whole answer would read the same answer forever.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import TypeVar

from orbitmq.errors import MalformedRecord

__all__ = ["decode_whole"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_RECORD_BYTES = 91
_OFFSETS = struct.Struct(">qq")
_OFFSETS_AT = 20


def decode_whole(data: bytes, decode: Callable[[bytes], list[T]], queue: object) -> list[T]:
    """Decode records that stand back to back; log and leave out those that are damaged.

    Raises `MalformedRecord` when the length of one is damaged: the next one cannot be found then.
    """
    try:
        return decode(data)
    except MalformedRecord:
        pass
    found: list[T] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        record = data[at : at + size]
        if size < MIN_RECORD_BYTES or len(record) < size:
            raise MalformedRecord(
                f"the length of a record of {queue} is damaged: {size}", offset=at
            )
        try:
            found += decode(record)
        except MalformedRecord as error:
            queue_offset, physical_offset = _OFFSETS.unpack_from(record, _OFFSETS_AT)
            _log.error(
                "message of %s at offset %d, physical offset %d, is damaged and set aside: %s",
                queue,
                queue_offset,
                physical_offset,
                error,
            )
        at += size
    return found
