"""Message trace: the records of clients about one message.

A message of the trace topic holds many records. Each record ends with the character 2, and its
fields are separated by the character 1. The first field is the kind, which determines the positions
of the others::

    Pub             timestamp region group topic msgId tags keys storeHost bodyLength cost msgType
                    offsetMsgId success [clientHost]
    SubBefore       timestamp region group requestId msgId retryTimes keys [clientHost]
    SubAfter        requestId msgId cost success keys contextCode [timestamp group]
    EndTransaction  timestamp region group topic msgId tags keys storeHost msgType transactionId
                    state fromCheck

Trace messages have the ids of the traced messages among their keys and are found by them. Fields
that a client did not write are empty here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from orbitmq.admin.messages import messages_by_key
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.rpc.flow import Flow

__all__ = ["TraceEvent", "message_trace", "parse_trace"]

Kind = Literal["sent", "consuming", "consumed", "transaction"]

MAX_TRACE_MESSAGES = 64
OUTCOMES: Final = {
    "0": "success",
    "1": "timeout",
    "2": "exception",
    "3": "no answer",
    "4": "asked for retry",
}
"""Meanings of the context code of a consumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One event in the trace of a message."""

    kind: Kind
    message_id: str
    timestamp_ms: int
    group: str = ""
    topic: str = ""
    cost_ms: int = 0
    success: bool = True
    outcome: str = ""
    """Outcome of a consumption or a transaction, in a word."""
    retry_times: int = 0
    request_id: str = ""
    """Id that ``consuming`` and ``consumed`` events of one try share."""
    keys: str = ""
    tags: str = ""


def parse_trace(text: str) -> Iterator[TraceEvent]:
    """Parse the records of a trace message; records of unknown kinds are left out."""
    for record in text.split("\2"):
        fields = ["" if field == "null" else field for field in record.split("\1")]
        fields += [""] * (14 - len(fields))
        match fields[0]:
            case "Pub":
                for message_id in fields[5].split(","):
                    yield TraceEvent(
                        kind="sent",
                        message_id=message_id,
                        timestamp_ms=_number(fields[1]),
                        group=fields[3],
                        topic=fields[4],
                        tags=fields[6],
                        keys=fields[7],
                        cost_ms=_number(fields[10]),
                        success=fields[13] != "false",
                    )
            case "SubBefore":
                yield TraceEvent(
                    kind="consuming",
                    message_id=fields[5],
                    timestamp_ms=_number(fields[1]),
                    group=fields[3],
                    request_id=fields[4],
                    retry_times=_number(fields[6]),
                    keys=fields[7],
                )
            case "SubAfter":
                yield TraceEvent(
                    kind="consumed",
                    message_id=fields[2],
                    timestamp_ms=_number(fields[7]),
                    group=fields[8],
                    request_id=fields[1],
                    cost_ms=_number(fields[3]),
                    success=fields[4] == "true",
                    outcome=OUTCOMES.get(fields[6], fields[6]),
                    keys=fields[5],
                )
            case "EndTransaction":
                yield TraceEvent(
                    kind="transaction",
                    message_id=fields[5],
                    timestamp_ms=_number(fields[1]),
                    group=fields[3],
                    topic=fields[4],
                    tags=fields[6],
                    keys=fields[7],
                    outcome=fields[11],
                )
            case _:
                continue


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def message_trace(
    nameservers: Sequence[str], message_id: str, trace_topic: str = TRACE_TOPIC
) -> Flow[list[TraceEvent]]:
    """Return the events that were traced of a message, in the order of their times."""
    found = yield from messages_by_key(
        nameservers, trace_topic, message_id, max_messages=MAX_TRACE_MESSAGES
    )
    events = [
        event
        for message in found
        for event in parse_trace(message.body.decode("utf-8", "replace"))
        if event.message_id == message_id
    ]
    return _with_groups(events)


def _with_groups(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Copy fields that older clients omit at the end of a try from its beginning, and sort."""
    begun = {event.request_id: event for event in events if event.kind == "consuming"}
    whole = []
    for event in events:
        before = begun.get(event.request_id) if event.kind == "consumed" else None
        if before is not None:
            event = replace(
                event,
                group=event.group or before.group,
                timestamp_ms=event.timestamp_ms or before.timestamp_ms + event.cost_ms,
                retry_times=before.retry_times,
            )
        whole.append(event)
    return sorted(whole, key=lambda event: (event.timestamp_ms, event.kind == "consumed"))
