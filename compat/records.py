"""An independent decoder of commit-log records, for the test suites.

The suites judge OrbitMQ's own decoder as much as Java's bytes, so they do not borrow it. All
integers are big-endian:

    total_size i32 | magic i32 | body_crc i32 | queue_id i32 | flag i32 | queue_offset i64 |
    physical_offset i64 | sys_flag i32 | born_timestamp i64 | born_host | store_timestamp i64 |
    store_host | reconsume_times i32 | prepared_transaction_offset i64 |
    body_length i32, body | topic_length i8, topic | properties_length i16, properties

A host is 4 (or, under its sys_flag bit, 16) bytes of address and a port i32.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MESSAGE_MAGIC = 0xDAA320A7
BLANK_MAGIC = 0xCBD43194
COMPRESSED = 0x1
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

_HEAD = struct.Struct(">iIiiiqqiq")
_TAIL = struct.Struct(">iqi")


@dataclass(frozen=True)
class Record:
    size: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_ip: str
    born_port: int
    store_timestamp: int
    store_ip: str
    store_port: int
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties_text: str

    @cached_property
    def properties(self) -> dict[str, str]:
        pairs = (segment.split("\x01", 1) for segment in self.properties_text.split("\x02"))
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    @property
    def unique_key(self) -> str | None:
        return self.properties.get("UNIQ_KEY")

    @property
    def keys(self) -> list[str]:
        """Every key under which the index lists the message."""
        properties = self.properties
        keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
        return keys + [key for key in properties.get("KEYS", "").split(" ") if key]

    @property
    def original_body(self) -> bytes:
        return zlib.decompress(self.body) if self.sys_flag & COMPRESSED else self.body

    @property
    def crc_holds(self) -> bool:
        return self.body_crc == zlib.crc32(self.body) & 0x7FFF_FFFF


def _host(data: memoryview, at: int, is_v6: bool) -> tuple[str, int, int]:
    end = at + (16 if is_v6 else 4)
    (port,) = struct.unpack_from(">i", data, end)
    return str(ipaddress.ip_address(bytes(data[at:end]))), port, end + 4


def decode(data: memoryview) -> Record:
    """The record that starts the data; anything but a whole, consistent record is a ValueError.

    Text that is not UTF-8 is no reason to stop: no checksum covers it, so a power cut can leave it.
    """
    try:
        return _decode(data)
    except (IndexError, struct.error) as error:
        raise ValueError("no record here: its parts do not fit into it") from error


def _decode(data: memoryview) -> Record:
    size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born = (
        _HEAD.unpack_from(data, 0)
    )
    if magic != MESSAGE_MAGIC or not 91 <= size <= len(data):
        raise ValueError(f"no record here: size {size}, magic {magic:#x}, {len(data)} bytes left")
    data = data[:size]
    born_ip, born_port, at = _host(data, _HEAD.size, bool(sys_flag & BORN_HOST_V6))
    (store_timestamp,) = struct.unpack_from(">q", data, at)
    store_ip, store_port, at = _host(data, at + 8, bool(sys_flag & STORE_HOST_V6))
    reconsume_times, prepared_transaction_offset, body_length = _TAIL.unpack_from(data, at)
    if body_length < 0:
        raise ValueError(f"no record here: its body has {body_length} bytes")
    at += _TAIL.size
    body = bytes(data[at : at + body_length])
    at += body_length
    topic = bytes(data[at + 1 : at + 1 + data[at]]).decode(errors="replace")
    at += 1 + data[at]
    (properties_length,) = struct.unpack_from(">h", data, at)
    at += 2
    properties_text = bytes(data[at : at + properties_length]).decode(errors="replace")
    if at + properties_length != size:
        raise ValueError(f"the parts end at {at + properties_length}, the record at {size}")
    return Record(
        size, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born, born_ip,
        born_port, store_timestamp, store_ip, store_port, reconsume_times,
        prepared_transaction_offset, body, topic, properties_text,
    )  # fmt: skip


def decode_list(data: bytes) -> Iterator[Record]:
    """Return concatenated records, as in answers to pulls and queries."""
    rest = memoryview(data)
    while rest:
        record = decode(rest)
        yield record
        rest = rest[record.size :]


def log_records(root: Path) -> Iterator[tuple[Record, bytes]]:
    """Return the records of a commit log with their bytes, up to the first invalid one."""
    for file in sorted((root / "commitlog").iterdir()):
        data = memoryview(file.read_bytes())
        at = 0
        while bytes(data[at + 4 : at + 8]) != BLANK_MAGIC.to_bytes(4):
            try:
                record = decode(data[at:])
            except ValueError:
                return
            yield record, bytes(data[at : at + record.size])
            at += record.size
