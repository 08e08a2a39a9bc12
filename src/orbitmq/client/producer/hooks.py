"""Runs the hooks of a producer around its sends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from orbitmq.client.hooks import HookCalls, SendContext, SendHook
from orbitmq.client.producer.batch import results_of_each
from orbitmq.client.producer.message import more_properties
from orbitmq.errors import BadMessage, SendFailed
from orbitmq.message import RESERVED_PROPERTIES, Message, SendResult
from orbitmq.rpc.flow import Flow

__all__ = ["SendHooks"]

R = TypeVar("R", SendResult, None)
F = TypeVar("F", "asyncio.Future[SendResult]", "concurrent.futures.Future[SendResult]")


class _Begun:
    """A message whose `before_send` hooks have been called."""

    __slots__ = ("_calls", "_context", "_hooks", "message")

    def __init__(
        self, calls: HookCalls, hooks: list[SendHook], context: SendContext, message: Message
    ) -> None:
        self._calls = calls
        self._hooks = hooks
        self._context = context
        self.message = message
        """Message with the properties that the hooks have added."""

    def end(self, result: SendResult | None, error: BaseException | None = None) -> None:
        """Call the `after_send` hooks in reverse order."""
        context = self._context
        context.result, context.error = result, error
        for hook in reversed(self._hooks):
            self._calls.call(hook, hook.after_send, context)

    def end_with(
        self, future: asyncio.Future[SendResult] | concurrent.futures.Future[SendResult]
    ) -> None:
        """Call the `after_send` hooks with the result or error of a future."""
        if future.cancelled():
            self.end(None, _given_up())
        elif (error := future.exception()) is not None:
            self.end(None, error)
        else:
            self.end(future.result())


class SendHooks:
    """Hooks of one producer. Any thread may use them."""

    def __init__(
        self, hooks: Sequence[SendHook], group: str, client_id: str, namespace: str | None
    ) -> None:
        self._hooks = hooks
        self._group = group
        self._client_id = client_id
        self._namespace = namespace
        self._calls = HookCalls()

    def around(
        self, messages: Sequence[Message], flow_of: Callable[[list[Message]], Flow[SendResult]]
    ) -> Flow[SendResult]:
        """Run the flow that sends messages as one request, with the hooks around each message."""
        begun = [self._begin(message) for message in messages]
        result = yield from _ending(begun, flow_of)
        parts = [result] if len(begun) == 1 else results_of_each(result, len(begun))
        for one, part in zip(begun, parts, strict=True):
            one.end(part)
        return result

    def around_oneway(
        self, message: Message, flow_of: Callable[[list[Message]], Flow[None]]
    ) -> Flow[None]:
        """Run the flow that sends a one-way message, with the hooks around it."""
        begun = self._begin(message, is_oneway=True)
        yield from _ending([begun], flow_of)
        begun.end(None)

    def around_future(self, message: Message, add: Callable[[Message], F]) -> F:
        """Pass a message to `add`, which sends it later; `after_send` follows the future."""
        begun = self._begin(message)
        try:
            future = add(begun.message)
        except BaseException as error:
            begun.end(None, error)
            raise
        future.add_done_callback(begun.end_with)
        return future

    def _begin(self, message: Message, *, is_oneway: bool = False) -> _Begun:
        ready = copy.copy(message)
        ready.properties = dict(message.properties)
        context = SendContext(message, ready.properties, self._group, self._client_id, is_oneway)
        begun = []
        for hook in self._hooks:
            before = dict(ready.properties)
            fault = None
            is_done = self._calls.call(hook, hook.before_send, context)
            if is_done:
                begun.append(hook)
            if context.properties is not ready.properties:
                context.properties = ready.properties
                fault = "the properties must be changed in place, not replaced"
            elif ready.properties != before:
                fault = self._fault(ready)
            if fault is not None:
                self._calls.failed(hook, "before_send", fault)
            if fault is not None or not is_done:
                ready.properties.clear()
                ready.properties.update(before)
        return _Begun(self._calls, begun, context, ready)

    def _fault(self, message: Message) -> str | None:
        """Return the fault in properties that a hook has changed, or None."""
        properties: dict[Any, Any] = message.properties
        for name, value in properties.items():
            if not isinstance(name, str) or not isinstance(value, str):
                return f"property {name!r} is {value!r}; both must be texts"
            if name in RESERVED_PROPERTIES:
                return f"property {name} is RocketMQ's own"
        try:
            more_properties(message, self._namespace)
        except BadMessage as error:
            return str(error)
        return None


def _ending(begun: list[_Begun], flow_of: Callable[[list[Message]], Flow[R]]) -> Flow[R]:
    """Run a flow; if it fails, call the `after_send` hooks of its messages with the error."""
    try:
        return (yield from flow_of([one.message for one in begun]))
    except BaseException as error:
        # A flow is closed if its caller was cancelled or interrupted.
        reason = _given_up() if isinstance(error, GeneratorExit) else error
        for one in begun:
            one.end(None, reason)
        raise


def _given_up() -> SendFailed:
    return SendFailed("the send was given up before the broker answered; it may have the message")
