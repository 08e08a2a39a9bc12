"""Handlers of messages, and the ways in which a handler reports a failure.

A message is done when its handler returns. If the handler raises, the message is retried later. A
handler raises `RetryLater` to choose the delay, or the messages of a batch that failed. A handler
of ordered messages may decide itself when to commit, see `OrderlyStatus`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from orbitmq._native import ReceivedMessage
from orbitmq.errors import ConfigError
from orbitmq.message import check_delay_level

__all__ = [
    "DEAD_LETTER",
    "Failure",
    "Handler",
    "HandlerTable",
    "NoHandler",
    "OrderlyStatus",
    "RetryLater",
    "already_handled",
    "failures",
    "log_failure",
]

DEAD_LETTER = -1
"""Delay level that makes a message a dead letter without further retries."""


class RetryLater(Exception):
    """Raised by a handler to have messages retried, with a reason, a delay and a selection. ::

        @consumer.on("orders", batch=32)
        def handle(messages):
            failed = store(messages)
            if failed:
                raise RetryLater(messages=failed, delay_level=3)

    `delay_level` is one of the broker's levels (1 s, 5 s, 10 s, 30 s, 1 min …); with 0 the broker
    chooses. `RetryLater.dead_letter()` makes the message a dead letter. `messages` are the failed
    messages of a batch; without it, the whole batch has failed. `suspend_ms` is the time for which
    an ordered queue waits before the retry.
    """

    def __init__(
        self,
        reason: str = "the handler asked for another try",
        *,
        delay_level: int = 0,
        messages: Iterable[ReceivedMessage] | None = None,
        suspend_ms: int | None = None,
    ) -> None:
        if delay_level:
            check_delay_level(delay_level, lowest=DEAD_LETTER)
        super().__init__(reason)
        self.delay_level = delay_level
        self.messages = None if messages is None else list(messages)
        self.suspend_ms = suspend_ms

    @classmethod
    def dead_letter(cls, reason: str = "the handler gave it up") -> RetryLater:
        """Return the exception to raise for a message that every retry would fail on. ::

        raise RetryLater.dead_letter("no such customer")
        """
        return cls(reason, delay_level=DEAD_LETTER)


class NoHandler(RetryLater):
    """Failure of a message whose topic has no handler in this consumer; the message is retried."""


class OrderlyStatus(Enum):
    """Decision that an ordered handler with ``auto_commit=False`` returns.

    ::

        @consumer.on("steps", orderly=True, auto_commit=False)
        def step(message):
            steps.append(message.body)
            if len(steps) < 100:
                return None                    # go on, nothing is committed yet
            if not store(steps):
                steps.clear()
                return OrderlyStatus.ROLLBACK  # all hundred come again after `suspend_ms`
            steps.clear()
            return OrderlyStatus.COMMIT        # all hundred are done

    If the handler raises, only the messages of that call are retried. Messages that were handled
    before and are not committed yet stay handled.
    """

    COMMIT = "commit"
    """All messages of the queue since the last commit are done."""
    ROLLBACK = "rollback"
    """All messages of the queue since the last commit are delivered again, in order, after
    `suspend_ms`."""


@dataclass(slots=True, frozen=True)
class Handler:
    """Function of the user for the messages of one topic, with options."""

    topic: str
    function: Callable[[Any], Any]
    batch: int = 1
    is_ordered: bool = False
    auto_commit: bool = True


@dataclass(slots=True)
class Failure:
    """Message that has to be retried, with the error of its handler."""

    message: ReceivedMessage
    error: BaseException

    @property
    def delay_level(self) -> int:
        """Delay level of the retry; with 0 the broker chooses."""
        return self.error.delay_level if isinstance(self.error, RetryLater) else 0


def already_handled(
    topic: str, function: Callable[[Any], Any], *, is_replaceable: bool = True
) -> ConfigError:
    """Return the error for a second function of a topic; a topic can have one function only."""
    name = getattr(function, "__qualname__", None) or repr(function)
    replace = f"call unsubscribe({topic!r}) first to put another in its place, or " * is_replaceable
    return ConfigError(
        f"topic {topic} has a function already, {name}: {replace}have one function do the work of "
        "both; to have every message handled twice, start a second consumer with its own group"
    )


def log_failure(
    log: logging.Logger, messages: Sequence[ReceivedMessage], error: BaseException
) -> None:
    """Log a failed handler call: with a traceback, or with the reason given in `RetryLater`."""
    first = messages[0]
    ids = ", ".join(message.message_id for message in messages)
    tried = first.reconsume_times
    if isinstance(error, NoHandler):
        log.warning("message %s is sent back to its broker: %s", ids, error)
    elif isinstance(error, RetryLater):
        log.info(
            "the handler of topic %s raised RetryLater for message %s after %d earlier attempts: "
            "%s",
            first.topic,
            ids,
            tried,
            error,
        )
    else:
        log.warning(
            "the handler of topic %s failed on message %s after %d earlier attempts",
            first.topic,
            ids,
            tried,
            exc_info=error,
        )


def failures(unit: ReceivedMessage | list[ReceivedMessage], error: BaseException) -> list[Failure]:
    """Return the failed messages of a handler call that raised; `unit` is a message or a batch."""
    messages = unit if isinstance(unit, list) else [unit]
    if isinstance(error, RetryLater) and error.messages is not None:
        failed = {message.queue_offset for message in error.messages}
        messages = [message for message in messages if message.queue_offset in failed]
    return [Failure(message, error) for message in messages]


class HandlerTable:
    """Table of handlers by topic; topics have the user's names, without the namespace."""

    def __init__(self) -> None:
        self._of_topic: dict[str, Handler] = {}
        self._in_use: dict[str, Handler] = {}
        self._wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] | None = None

    def put(self, handler: Handler) -> None:
        """Add a handler, or replace the handler of its topic."""
        self._of_topic[handler.topic] = handler
        if self._wrap is not None:
            handler = replace(handler, function=self._wrap(handler.function))
        self._in_use[handler.topic] = handler

    def remove(self, topic: str) -> None:
        """Remove the handler of a topic."""
        self._of_topic.pop(topic, None)
        self._in_use.pop(topic, None)

    def wrap(self, wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] | None) -> None:
        """Wrap the functions of all present and future handlers; None removes the wrapper."""
        self._wrap = wrap
        for handler in list(self._of_topic.values()):
            self.put(handler)

    def function_of(self, topic: str) -> Callable[[Any], Any] | None:
        """Return the user's function for a topic, without the wrapper; None without a handler."""
        handler = self._of_topic.get(topic)
        return None if handler is None else handler.function

    def find(self, topic: str) -> Handler | None:
        """Return the handler of a topic with its wrapped function, or None without a handler."""
        return self._in_use.get(topic)

    def __iter__(self) -> Iterator[Handler]:
        return iter(list(self._of_topic.values()))

    def __len__(self) -> int:
        return len(self._of_topic)
