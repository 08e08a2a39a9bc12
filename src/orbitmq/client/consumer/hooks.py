"""Hooks of a push consumer: runs them around the calls of handlers; includes the trace hook."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.handlers import RetryLater
from orbitmq.client.hooks import ConsumeContext, ConsumeHook, HookCalls
from orbitmq.client.producer.message import make_unique_id
from orbitmq.client.trace import Tracer, consumed, consuming
from orbitmq.protocol.names import Property

__all__ = ["ConsumeHooks", "ConsumeTrace"]


class ConsumeHooks:
    """Runs the hooks of one consumer. Any thread may call the methods."""

    def __init__(self, hooks: Sequence[ConsumeHook], group: str, client_id: str) -> None:
        self._hooks = hooks
        self._group = group
        self._client_id = client_id
        self._calls = HookCalls()

    def around(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that runs the hooks around a call of the handler `function`."""

        def hooked(unit: Any) -> Any:
            context, begun = self._begin(unit)
            try:
                outcome = context.outcome = function(unit)
            except BaseException as error:
                context.error = error
                raise
            finally:
                self._end(context, begun)
            return outcome

        return hooked

    def around_awaiting(
        self, function: Callable[[Any], Awaitable[Any]]
    ) -> Callable[[Any], Awaitable[Any]]:
        """Return a coroutine function that runs the hooks around a call of `function`."""

        async def hooked(unit: Any) -> Any:
            context, begun = self._begin(unit)
            try:
                outcome = context.outcome = await function(unit)
            except BaseException as error:
                context.error = error
                raise
            finally:
                self._end(context, begun)
            return outcome

        return hooked

    def _begin(self, unit: Any) -> tuple[ConsumeContext, list[ConsumeHook]]:
        messages = unit if isinstance(unit, list) else [unit]
        context = ConsumeContext(tuple(messages), self._group, self._client_id)
        call = self._calls.call
        return context, [hook for hook in self._hooks if call(hook, hook.before_consume, context)]

    def _end(self, context: ConsumeContext, begun: list[ConsumeHook]) -> None:
        for hook in reversed(begun):
            self._calls.call(hook, hook.after_consume, context)


# ---- Trace of consumed messages
#
# A consume hook writes two trace records for each message: one before and one after the handler's
# call. Both records have the same request id, by which tools match them. The messages of a batch
# share one request id, too.

SUCCESS, EXCEPTION, FAILED = 0, 2, 4
"""Outcomes of a handler's call, with Java's numbers."""


class _Pair:
    """Writes the trace records before and after one call of a handler."""

    def __init__(self, tracer: Tracer, messages: Sequence[ReceivedMessage]) -> None:
        self._tracer = tracer
        self._request_id = make_unique_id()
        self._messages: list[tuple[str, tuple[str, ...]]] = []
        for message in messages:
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
        """Record the outcome and the average time of the messages."""
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


class ConsumeTrace(ConsumeHook):
    """Hook that writes trace records of each call of a handler."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before_consume(self, context: ConsumeContext) -> None:
        """Record that a handler is called with messages."""
        context.state[self] = _Pair(self._tracer, context.messages)

    def after_consume(self, context: ConsumeContext) -> None:
        """Record the outcome of the handler's call."""
        pair: _Pair = context.state[self]
        if context.error is None:
            pair.after(SUCCESS)
        else:
            pair.after(FAILED if isinstance(context.error, RetryLater) else EXCEPTION)
