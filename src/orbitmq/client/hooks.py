"""Hooks: functions of a program around every send and every call of a handler.

They are what tracing and metrics need: a send hook can add properties to a message before it
leaves, such as a trace context, and learns the result; a consume hook surrounds the call of a
handler, on the handler's own thread or task. An error of a hook is logged and changes nothing else.
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
    """One message on its way to a broker, as hooks see it. A batch has a context for each message.

    ::

        def before_send(self, context):
            context.state[self] = time.monotonic()
            context.properties["sent-by"] = context.client_id
    """

    message: Message
    """The message as the program gave it; hooks must not change it."""
    properties: dict[str, str]
    """The properties that the message leaves with. A hook may change them in `before_send`, within
    the rules of `Message`; a change that breaks the rules is dropped."""
    group: str
    """The group of the producer."""
    client_id: str
    is_oneway: bool = False
    """True for a message that no broker acknowledges; it never has a `result`."""
    result: SendResult | None = None
    """The broker's answer, in `after_send`."""
    error: BaseException | None = None
    """The reason why the message was not sent, in `after_send`."""
    state: dict[Any, Any] = field(default_factory=dict)
    """Belongs to the hooks: keep here what `after_send` needs of `before_send`."""


class SendHook(Protocol):
    """Calls around every message that a producer sends, whichever way it is sent.

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
        """Do something before a message is sent, on the thread or task that sends it. ::

        context.properties["traceparent"] = span.traceparent
        """
        return  # a body, so that a hook need not have both methods

    def after_send(self, context: SendContext) -> None:
        """Do something when it is known what became of a message, on any thread. ::

        print(context.result or context.error)
        """
        return  # a body, so that a hook need not have both methods


@dataclass(slots=True)
class ConsumeContext:
    """One call of a handler, as hooks see it.

    ::

        def before_consume(self, context):
            for message in context.messages:
                print(context.group, message.topic, message.get_property("traceparent"))
    """

    messages: Sequence[ReceivedMessage]
    """Messages that the handler gets: one message, or those of a batch."""
    group: str
    """The group of the consumer."""
    client_id: str
    outcome: Any = None
    """Return value of the handler, in `after_consume`."""
    error: BaseException | None = None
    """Exception that the handler raised, in `after_consume`: the messages will be retried.
    `RetryLater` can name the messages of a batch to retry."""
    state: dict[Any, Any] = field(default_factory=dict)
    """Belongs to the hooks: keep here what `after_consume` needs of `before_consume`."""


class ConsumeHook(Protocol):
    """Calls around every call of a push consumer's handlers.

    ::

        class Stopwatch(ConsumeHook):
            def before_consume(self, context):
                context.state[self] = time.monotonic()

            def after_consume(self, context):
                print(time.monotonic() - context.state[self], context.error)

        consumer = PushConsumer("127.0.0.1:9876", group="billing", hooks=[Stopwatch()])

    Both methods are plain functions, also for an `AsyncPushConsumer`, and run on the thread, or in
    the task, that the handler runs on, so that context variables reach the handler.
    """

    def before_consume(self, context: ConsumeContext) -> None:
        """Do something before a handler is called. ::

        context.state[self] = tracer.start_span("consume")
        """
        return  # a body, so that a hook need not have both methods

    def after_consume(self, context: ConsumeContext) -> None:
        """Do something when a handler has returned or raised. ::

        context.state[self].end()
        """
        return  # a body, so that a hook need not have both methods


def checked_hooks(hooks: Iterable[H], *methods: str) -> tuple[H, ...]:
    """Return hooks that can be called; `ConfigError` says what is wrong with one."""
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
    """Calls hooks so that none can fail what it surrounds."""

    def __init__(self) -> None:
        self._failed: set[int] = set()

    def call(self, hook: object, function: Callable[[Any], None], context: object) -> bool:
        """Call one hook; returns whether it came back without an error."""
        try:
            function(context)
        except Exception:
            self.failed(hook, getattr(function, "__name__", "a hook"), exc_info=True)
            return False
        return True

    def failed(self, hook: object, what: str, reason: str = "", *, exc_info: bool = False) -> None:
        """Log an error of a hook: a warning the first time, so that it does not flood the log."""
        is_first = id(hook) not in self._failed
        self._failed.add(id(hook))
        _log.log(
            logging.WARNING if is_first else logging.DEBUG,
            "%s of hook %r failed; the message goes on without it%s",
            what,
            hook,
            reason and f": {reason}",
            exc_info=exc_info,
        )
