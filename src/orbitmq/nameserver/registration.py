"""The body of a registration, in the three forms brokers send it.

1. Version 37 and up: ``{"filterServerList": [...], "topicConfigSerializeWrapper": {"dataVersion":
   ..., "topicConfigTable": {name: topic}}}``.
2. The same compressed: a zlib stream of ``i32 length, data version as JSON; i32 number of topics;
   for each i32 length, "name readQueues writeQueues perm filterType"; i32 length, filter servers as
   JSON``. A topic's order and system flag are lost in it.
3. Below version 37: the inner wrapper alone, which says nothing of filter servers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from orbitmq._native import decompress, loads_lenient
from orbitmq.errors import BrokenRegistration
from orbitmq.protocol.bodies import DataVersion, TopicConfig
from orbitmq.protocol.flags import Version

__all__ = ["RegistrationBody", "decode_registration"]

MAX_INFLATED_BYTES = 64 << 20


@dataclass(slots=True)
class RegistrationBody:
    """What the body says."""

    version: DataVersion = field(default_factory=DataVersion)
    topics: list[TopicConfig] = field(default_factory=list)
    filter_servers: list[str] | None = None


def decode_registration(body: bytes, *, version: int, compressed: bool) -> RegistrationBody:
    """Read a body; none at all is an empty table of version zero."""
    try:
        if version < Version.V3_0_11:
            return _from_wrapper(loads_lenient(body) if body else {}, None)
        if not body:
            return RegistrationBody(filter_servers=[])
        if compressed:
            return _from_stream(decompress(body, "zlib", max_bytes=MAX_INFLATED_BYTES))
        value = loads_lenient(body)
        return _from_wrapper(
            value.get("topicConfigSerializeWrapper") or {},
            _texts(value.get("filterServerList") or ()),
        )
    except (ValueError, TypeError, AttributeError, IndexError, struct.error) as error:
        raise BrokenRegistration(f"the registration cannot be read: {error}") from error


def _from_wrapper(wrapper: dict[str, Any], filter_servers: list[str] | None) -> RegistrationBody:
    table = wrapper.get("topicConfigTable") or {}
    return RegistrationBody(
        DataVersion.from_json(wrapper.get("dataVersion")),
        [TopicConfig.from_json(topic, str(name)) for name, topic in table.items()],
        filter_servers,
    )


def _from_stream(data: bytes) -> RegistrationBody:
    position = 0

    def number() -> int:
        nonlocal position
        (value,) = struct.unpack_from(">i", data, position)
        position += 4
        return int(value)

    def text() -> bytes:
        nonlocal position
        length = number()
        if not 0 <= length <= len(data) - position:
            raise ValueError(f"a length of {length} with {len(data) - position} bytes left")
        position += length
        return data[position - length : position]

    version = DataVersion.from_json(loads_lenient(text()))
    topics = [_topic(text().decode()) for _ in range(number())]
    return RegistrationBody(version, topics, _texts(loads_lenient(text())))


def _topic(line: str) -> TopicConfig:
    name, read_queues, write_queues, perm, filter_type = line.split(" ")
    return TopicConfig(
        topic_name=name,
        read_queue_nums=int(read_queues),
        write_queue_nums=int(write_queues),
        perm=int(perm),
        topic_filter_type=filter_type,
    )


def _texts(values: Iterable[Any]) -> list[str]:
    return [str(value) for value in values]
