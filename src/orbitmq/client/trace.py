"""Message trace: collects records about messages and sends them to the trace topic.

Records are collected for half a second, or until they fill a message, and leave as one message. Its
keys are the ids and keys of the traced messages, so that tools find the records. Tracing never
delays or fails the traced operation. Records that cannot be sent, or that arrive faster than they
can be sent, are dropped and logged.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import Literal

from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer.message import OutgoingMessage, SendPolicy, make_outgoing
from orbitmq.client.producer.send import SendState, send
from orbitmq.errors import OrbitError
from orbitmq.message import Message, SendResult
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.remoting.rare_log import RareLog
from orbitmq.rpc.flow import Flow

__all__ = [
    "DELAY_MESSAGE",
    "HALF_MESSAGE",
    "NORMAL_MESSAGE",
    "Tracer",
    "consumed",
    "consuming",
    "message_type",
    "produced",
    "transaction_ended",
]

_log = logging.getLogger(__name__)

FLUSH_EVERY_S = 0.5
MAX_TEXT = 118_000
MAX_WAITING = 50_000
SEND_TIMEOUT_MS = 5000

_next_number = itertools.count(1).__next__


class Tracer:
    """Collects trace records of one client and sends them. `add` may be called by any thread."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        kind: Literal["PRODUCE", "CONSUME"],
        topic: str = TRACE_TOPIC,
    ) -> None:
        self.group = group
        self.topic = topic
        self._instance = instance
        self._own_group = f"_INNER_TRACE_PRODUCER-{group}-{kind}-{_next_number()}"
        self._policy = SendPolicy(timeout_ms=SEND_TIMEOUT_MS, max_message_bytes=128_000)
        self._sending = SendState(instance.routes, self._policy)
        self._waiting: list[tuple[str, tuple[str, ...]]] = []
        self._dropped = RareLog(_log)
        self._timer = instance.every(FLUSH_EVERY_S, self.flush)

    def add(self, record: str, keys: tuple[str, ...]) -> None:
        """Add a record; `keys` are its search keys: the message's id and its keys."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((record, keys))
        else:
            self._dropped.warning(
                "trace record of group %s is dropped: %d records wait to be sent to topic %s",
                self.group, MAX_WAITING, self.topic,
            )  # fmt: skip

    def traces(self, topic: str) -> bool:
        """Return True if messages of a topic are traced; messages of the trace topic are not."""
        return not topic.startswith(self.topic)

    async def flush(self) -> None:
        """Send the collected records."""
        waiting, self._waiting = self._waiting, []
        text: list[str] = []
        keys: dict[str, None] = {}
        length = 0
        for record, record_keys in waiting:
            if length + len(record) > MAX_TEXT and text:
                await self._send("".join(text), tuple(keys))
                text, keys, length = [], {}, 0
            text.append(record)
            keys.update(dict.fromkeys(record_keys))
            length += len(record)
        if text:
            await self._send("".join(text), tuple(keys))

    async def _send(self, text: str, keys: tuple[str, ...]) -> None:
        message = Message(self.topic, text.encode(), keys=keys)
        try:
            outgoing = make_outgoing(message, self._own_group, self._policy)
            await self._instance.run(send(self._sending, outgoing))
        except OrbitError as error:
            _log.warning("trace records cannot be sent and are dropped: %s", error)

    async def close(self) -> None:
        """Send the last records; drop them if no broker accepts them now."""
        self._sending.is_closing = True
        self._timer.cancel()
        await self.flush()

    def around_send(
        self,
        flow: Flow[SendResult],
        outgoing: OutgoingMessage,
        address: Callable[[str], str | None],
    ) -> Flow[SendResult]:
        """Run a send and record it if a broker accepted the message."""
        begin = time.time_ns()
        result = yield from flow
        message = outgoing.original
        if result.trace_on and self.traces(outgoing.topic):
            ids = outgoing.message_id.split(",")
            record = produced(
                timestamp_ms=begin // 1_000_000,
                region=result.region,
                group=self.group,
                message=message,
                message_id=outgoing.message_id,
                store_host=address(result.queue.broker_name) or "",
                body_length=len(outgoing.body),
                cost_ms=(time.time_ns() - begin) // 1_000_000,
                offset_id=result.offset_id,
                success=True,
            )
            self.add(record, (*ids, *message.keys))
        return result


# ---- Format of trace records
#
# Records describe sends, consumptions and ends of transactions, with their groups and durations.
# Fields are separated by the character 1, records end with the character 2; a field without a value
# is ``null``. Java's tools read the fields by position.

NORMAL_MESSAGE, HALF_MESSAGE, COMMIT_MESSAGE, DELAY_MESSAGE = range(4)


def message_type(message: Message) -> int:
    """Return the trace's number for the kind of a message."""
    if message.system and message.system.get("TRAN_MSG") == "true":
        return HALF_MESSAGE
    if message.is_delayed or "__STARTDELIVERTIME" in message.properties:
        return DELAY_MESSAGE
    return NORMAL_MESSAGE


def _record(*fields: object) -> str:
    return "\1".join("null" if field is None else _text(field) for field in fields) + "\2"


def _text(field: object) -> str:
    return ("true" if field else "false") if isinstance(field, bool) else str(field)


def produced(
    *,
    timestamp_ms: int,
    region: str,
    group: str,
    message: Message,
    message_id: str,
    store_host: str,
    body_length: int,
    cost_ms: int,
    offset_id: str,
    success: bool,
) -> str:
    """Return the record of a send."""
    keys = " ".join(message.keys) if message.keys else None
    return _record(
        *("Pub", timestamp_ms, region, group, message.topic, message_id, message.tags, keys),
        *(store_host, body_length, cost_ms, message_type(message), offset_id, success),
    )


def consuming(
    *,
    timestamp_ms: int,
    region: str | None,
    group: str,
    request_id: str,
    message_id: str,
    retry_times: int,
    keys: str | None,
) -> str:
    """Return the record of a message that is passed to a handler."""
    return _record(
        "SubBefore", timestamp_ms, region, group, request_id, message_id, retry_times, keys
    )


def consumed(
    *,
    request_id: str,
    message_id: str,
    cost_ms: int,
    success: bool,
    keys: str | None,
    context_code: int,
    timestamp_ms: int,
    group: str,
) -> str:
    """Return the record of a message that a handler has returned from."""
    return _record(
        *("SubAfter", request_id, message_id, cost_ms, success, keys, context_code),
        *(timestamp_ms, group),
    )


def transaction_ended(
    *,
    timestamp_ms: int,
    region: str,
    group: str,
    message: Message,
    message_id: str,
    store_host: str,
    transaction_id: str | None,
    state: str,
    from_check: bool,
) -> str:
    """Return the record of a transaction's end."""
    keys = " ".join(message.keys) if message.keys else None
    return _record(
        *("EndTransaction", timestamp_ms, region, group, message.topic, message_id),
        *(message.tags, keys, store_host, COMMIT_MESSAGE, transaction_id, state, from_check),
    )
