"""Sends the records of the message trace, beside the messages they tell of.

Records collect for half a second, or until they fill a message, and leave as one message to the
trace topic whose keys are the ids and keys of the messages, so that tools find them. Tracing never
holds up or fails what it traces: what cannot be sent is logged and dropped, and so is what comes
faster than it can be sent.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from typing import Literal

from orbitmq.client.flows.send import Sending, send
from orbitmq.client.instance import ClientInstance
from orbitmq.client.state.outgoing import Outgoing, SendPolicy, make_outgoing
from orbitmq.client.state.trace_records import produced
from orbitmq.client.wishes import Flow
from orbitmq.errors import OrbitError
from orbitmq.message import Message, SendResult
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.remoting.rare_log import RareLog

__all__ = ["Tracer"]

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
        self._sending = Sending(instance.routes, self._policy)
        self._waiting: list[tuple[str, tuple[str, ...]]] = []
        self._dropped = RareLog(_log)
        self._timer = instance.every(FLUSH_EVERY_S, self.flush)

    def add(self, record: str, keys: tuple[str, ...]) -> None:
        """Record something; `keys` are what it can be found by: the message's id and its keys."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((record, keys))
        else:
            self._dropped.warning(
                "a trace record of group %s is dropped: %d wait to be sent to topic %s",
                self.group, MAX_WAITING, self.topic,
            )  # fmt: skip

    def traces(self, topic: str) -> bool:
        """Whether messages of a topic are traced; traces themselves are not."""
        return not topic.startswith(self.topic)

    async def flush(self) -> None:
        """Send what has been recorded."""
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
            _log.warning("trace records are lost: %s", error)

    async def close(self) -> None:
        """Send the last records, if a broker is there to take them now."""
        self._sending.is_closing = True
        self._timer.cancel()
        await self.flush()

    def around_send(
        self, flow: Flow[SendResult], outgoing: Outgoing, address: Callable[[str], str | None]
    ) -> Flow[SendResult]:
        """Run a send and record it when it was taken."""
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
