"""Hooks: functions of a program around every send and every call of a handler.

Tracing and metrics use them. A send hook can add properties to a message before it leaves, such as
a trace context, and receives the result. A consume hook surrounds the call of a handler, on the
handler's own thread or task. An error of a hook is logged and changes nothing else.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from orbitmq._native import ReceivedMessage
from orbitmq.errors import ConfigError
from orbitmq.message import Message, SendResult

__all__ = [
    "ConsumeContext",
    "ConsumeHook",
    "HookCalls",
    "SendContext",
    "SendHook",
    "checked_hooks",
]

_log = logging.getLogger(__name__)

H = TypeVar("H")


@dataclass(slots=True)
class SendContext:
    """Context of one message that is being sent; a batch has one context for each message.

    ::

        def before_send(self, context):
            context.state[self] = time.monotonic()
            context.properties["sent-by"] = context.client_id
    """

    message: Message
    """Message as passed by the program; hooks must not change it."""
    properties: dict[str, str]
    """Properties that are sent with the message. A hook may change them in `before_send`, within
    the rules of `Message`; a change that breaks the rules is dropped."""
    group: str
    """Group of the producer."""
    client_id: str
    is_oneway: bool = False
    """True for a message that no broker acknowledges; it never has a `result`."""
    result: SendResult | None = None
    """Answer of the broker, in `after_send`."""
    error: BaseException | None = None
    """Reason why the message was not sent, in `after_send`."""
    state: dict[Any, Any] = field(default_factory=dict)
    """Free for hooks: data that `before_send` stores for `after_send`."""


class SendHook(Protocol):
    """Hook that a producer calls before and after every message, for all ways of sending.

    ::

        class CountSends(SendHook):
            def __init__(self):
                self.failed = 0

            def after_send(self, context):
                self.failed += context.error is not None

        producer = Producer("127.0.0.1:9876", group="shop", hooks=[CountSends()])

    Both methods are plain functions, also for an `AsyncProducer`, and must not block.
    """

    def before_send(self, context: SendContext) -> None:
        """Run before a message is sent, on the thread or task that sends it. ::

        context.properties["traceparent"] = span.traceparent
        """
        return  # a body, so that a hook need not have both methods

    def after_send(self, context: SendContext) -> None:
        """Run when the result or the error of a send is known, on any thread. ::

        print(context.result or context.error)
        """
        return  # a body, so that a hook need not have both methods


@dataclass(slots=True)
class ConsumeContext:
    """Context of one call of a handler.

    ::

        def before_consume(self, context):
            for message in context.messages:
                print(context.group, message.topic, message.get_property("traceparent"))
    """

    messages: Sequence[ReceivedMessage]
    """Messages that the handler gets: one message, or those of a batch."""
    group: str
    """Group of the consumer."""
    client_id: str
    outcome: Any = None
    """Return value of the handler, in `after_consume`."""
    error: BaseException | None = None
    """Exception that the handler raised, in `after_consume`: the messages will be retried.
    `RetryLater` can name the messages of a batch to retry."""
    state: dict[Any, Any] = field(default_factory=dict)
    """Free for hooks: data that `before_consume` stores for `after_consume`."""


class ConsumeHook(Protocol):
    """Hook that a push consumer calls before and after every call of a handler.

    ::

        class Stopwatch(ConsumeHook):
            def before_consume(self, context):
                context.state[self] = time.monotonic()

            def after_consume(self, context):
                print(time.monotonic() - context.state[self], context.error)

        consumer = PushConsumer("127.0.0.1:9876", group="billing", hooks=[Stopwatch()])

    Both methods are plain functions, also for an `AsyncPushConsumer`. They run on the thread or in
    the task of the handler, so that context variables reach the handler.
    """

    def before_consume(self, context: ConsumeContext) -> None:
        """Run before a handler is called. ::

        context.state[self] = tracer.start_span("consume")
        """
        return  # a body, so that a hook need not have both methods

    def after_consume(self, context: ConsumeContext) -> None:
        """Run when a handler has returned or raised. ::

        context.state[self].end()
        """
        return  # a body, so that a hook need not have both methods


def checked_hooks(hooks: Iterable[H], *methods: str) -> tuple[H, ...]:
    """Return the hooks; raise `ConfigError` if a method of one is missing or asynchronous."""
    checked = tuple(hooks)
    for hook in checked:
        for method in methods:
            function = getattr(hook, method, None)
            if not callable(function):
                raise ConfigError(f"hook {hook!r} has no method {method}(context)")
            if inspect.iscoroutinefunction(function):
                raise ConfigError(f"{method} of hook {hook!r} must be a plain function, not async")
    return checked


class HookCalls:
    """Calls hooks; an error of a hook does not fail the surrounded send or handler."""

    def __init__(self) -> None:
        self._failed: set[int] = set()

    def call(self, hook: object, function: Callable[[Any], None], context: object) -> bool:
        """Call one hook; return True if it raised no error."""
        try:
            function(context)
        except Exception:
            self.failed(hook, getattr(function, "__name__", "a hook"), exc_info=True)
            return False
        return True

    def failed(self, hook: object, what: str, reason: str = "", *, exc_info: bool = False) -> None:
        """Log an error of a hook: once as a warning, then at debug level to keep the log short."""
        is_first = id(hook) not in self._failed
        self._failed.add(id(hook))
        _log.log(
            logging.WARNING if is_first else logging.DEBUG,
            "%s of hook %r failed; the message continues without it%s",
            what,
            hook,
            reason and f": {reason}",
            exc_info=exc_info,
        )
