"""Puts trace records around handlers: one pair for every message, before and after its function.

The pair shares a request id, by which tools put it together; a batch shares one, too.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from orbitmq._native import ReceivedMessage
from orbitmq.client.handlers import RetryLater
from orbitmq.client.state.trace_records import consumed, consuming
from orbitmq.client.state.unique_ids import make_unique_id
from orbitmq.client.trace import Tracer
from orbitmq.protocol.names import Property

__all__ = ["trace_awaiting", "trace_calls"]

SUCCESS, EXCEPTION, FAILED = 0, 2, 4
"""How a handler came back, by Java's numbers."""


class _Pair:
    """The records of one call."""

    def __init__(self, tracer: Tracer, unit: ReceivedMessage | list[ReceivedMessage]) -> None:
        self._tracer = tracer
        self._request_id = make_unique_id()
        self._messages: list[tuple[str, tuple[str, ...]]] = []
        for message in unit if isinstance(unit, list) else [unit]:
            is_off = message.get_property(Property.TRACE_ON) == "false"
            if tracer.traces(message.topic) and not is_off:
                self._messages.append((message.message_id, message.keys))
                self._before(message)
        self._began = time.monotonic()

    def _before(self, message: ReceivedMessage) -> None:
        record = consuming(
            timestamp_ms=_now_ms(),
            region=message.get_property(Property.MSG_REGION),
            group=self._tracer.group,
            request_id=self._request_id,
            message_id=message.message_id,
            retry_times=message.reconsume_times,
            keys=message.get_property(Property.KEYS),
        )
        self._tracer.add(record, (message.message_id, *message.keys))

    def after(self, context_code: int) -> None:
        """Record how it went."""
        count = max(len(self._messages), 1)
        cost_ms = int((time.monotonic() - self._began) * 1000) // count
        for message_id, keys in self._messages:
            record = consumed(
                request_id=self._request_id,
                message_id=message_id,
                cost_ms=cost_ms,
                success=context_code == SUCCESS,
                keys=" ".join(keys) or None,
                context_code=context_code,
                timestamp_ms=_now_ms(),
                group=self._tracer.group,
            )
            self._tracer.add(record, (message_id, *keys))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _code(error: BaseException) -> int:
    return FAILED if isinstance(error, RetryLater) else EXCEPTION


def trace_calls(tracer: Tracer, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that does what a handler does, and records it."""

    def traced(unit: Any) -> Any:
        pair = _Pair(tracer, unit)
        try:
            result = function(unit)
        except BaseException as error:
            pair.after(_code(error))
            raise
        pair.after(SUCCESS)
        return result

    return traced


def trace_awaiting(
    tracer: Tracer, function: Callable[[Any], Awaitable[Any]]
) -> Callable[[Any], Awaitable[Any]]:
    """Return a coroutine function that does what a handler does, and records it."""

    async def traced(unit: Any) -> Any:
        pair = _Pair(tracer, unit)
        try:
            result = await function(unit)
        except BaseException as error:
            pair.after(_code(error))
            raise
        pair.after(SUCCESS)
        return result

    return traced
