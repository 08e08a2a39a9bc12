"""The body of a registration, in the three forms that brokers send.

1. Version 37 and up: ``{"filterServerList": [...], "topicConfigSerializeWrapper": {"dataVersion":
   ..., "topicConfigTable": {name: topic}}}``.
2. The same compressed: a zlib stream of ``i32 length, data version as JSON; i32 number of topics;
   for each i32 length, "name readQueues writeQueues perm filterType"; i32 length, filter servers as
   JSON``. A topic's order and system flag are lost in it.
3. Below version 37: the inner wrapper alone, without filter servers.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass, field

from orbitmq._native import decompress, loads_lenient
from orbitmq.errors import BodyFault, BrokenRegistration, WireError
from orbitmq.protocol.bodies import DataVersion, TopicConfig
from orbitmq.protocol.flags import Version
from orbitmq.protocol.limits import MAX_QUEUES
from orbitmq.protocol.members import Members

__all__ = ["RegistrationBody", "decode_registration"]

_log = logging.getLogger(__name__)

MAX_INFLATED_BYTES = 64 << 20
_TOPIC_FIELDS = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
"""The words of a topic in the compressed form."""


@dataclass(slots=True)
class RegistrationBody:
    """Parsed body of a registration."""

    version: DataVersion = field(default_factory=DataVersion)
    topics: list[TopicConfig] = field(default_factory=list)
    filter_servers: list[str] | None = None


def decode_registration(body: bytes, *, version: int, compressed: bool) -> RegistrationBody:
    """Parse a body; a missing body is an empty table of version zero."""
    try:
        if version < Version.V3_0_11:
            return _from_wrapper(Members.read(body) if body else Members({}), None)
        if not body:
            return RegistrationBody(filter_servers=[])
        if compressed:
            return _from_stream(decompress(body, "zlib", max_bytes=MAX_INFLATED_BYTES))
        value = Members.read(body)
        return _from_wrapper(
            value.member("topicConfigSerializeWrapper"), value.texts("filterServerList")
        )
    except (WireError, ValueError, struct.error) as error:
        raise BrokenRegistration(f"the registration cannot be read: {error}") from error


def _from_wrapper(wrapper: Members, filter_servers: list[str] | None) -> RegistrationBody:
    table = wrapper.member("topicConfigTable")
    topics = [
        TopicConfig.from_json(table.member(name), str(name))
        for name in table.values
        if _has_possible_counts(table.member(name), name)
    ]
    version = DataVersion.from_json(wrapper.member("dataVersion"))
    return RegistrationBody(version, topics, filter_servers)


def _has_possible_counts(topic: Members, name: object) -> bool:
    """Return False for a topic with too many queues: Java's brokers accept any count."""
    for field_name in ("readQueueNums", "writeQueueNums"):
        count = topic.number(field_name, 0)
        if not 0 <= count <= MAX_QUEUES:
            _log.error(
                "topic %s of a registration has %d queues, the limit is %d: it gets no route",
                name, count, MAX_QUEUES,
            )  # fmt: skip
            return False
    return True


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
    servers = Members({"filterServerList": loads_lenient(text())}).texts("filterServerList")
    return RegistrationBody(
        version,
        [
            TopicConfig.from_json(topic)
            for topic in topics
            if _has_possible_counts(topic, topic.text("topicName"))
        ],
        servers,
    )


def _topic(line: str) -> Members:
    words = line.split(" ")
    if len(words) != len(_TOPIC_FIELDS):
        raise BodyFault(f"a topic has {len(words)} words instead of {len(_TOPIC_FIELDS)}")
    return Members(dict(zip(_TOPIC_FIELDS, words, strict=True)))
