"""The body of a registration: plain JSON, or compressed.

    plain       {"filterServerList": [], "topicConfigSerializeWrapper": {dataVersion, topics}}

    compressed  a zlib stream of
                i32 length, data version as JSON
                i32 number of topics
                for each: i32 length, "name readQueues writeQueues perm filterType"
                i32 length, filter servers as JSON

The compressed form leaves a topic's order and system flag out, as in 4.9.7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from orbitmq._native import compress, dumps_lenient

__all__ = ["compressed_body", "plain_body"]

LEVEL = 9


def plain_body(table: Mapping[str, Any]) -> bytes:
    """Return the JSON form of a table of topics."""
    return dumps_lenient({"filterServerList": [], "topicConfigSerializeWrapper": table})


def compressed_body(table: Mapping[str, Any]) -> bytes:
    """Return the compressed form of a table of topics."""
    topics = table["topicConfigTable"].values()
    parts = [_counted(dumps_lenient(table["dataVersion"])), struct.pack(">i", len(topics))]
    parts += [_counted(_line(topic).encode()) for topic in topics]
    parts.append(_counted(b"[]"))
    return compress(b"".join(parts), "zlib", level=LEVEL)


def _counted(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def _line(topic: Mapping[str, Any]) -> str:
    fields = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    return " ".join(str(topic[field]) for field in fields)
