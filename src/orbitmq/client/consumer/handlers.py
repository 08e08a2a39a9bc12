"""The functions that messages are given to, and how they say that something went wrong.

A handler that returns has done its work; one that raises will get the message again later. To say
when, or which ones of a batch, it raises `RetryLater`. One that takes messages in order may decide
itself when what it did is committed, see `OrderlyStatus`.
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
"""The delay level of a message that shall not be retried."""


class RetryLater(Exception):
    """Raised by a handler to have a message retried, in its own words. ::

        @consumer.on("orders", batch=32)
        def handle(messages):
            failed = store(messages)
            if failed:
                raise RetryLater(messages=failed, delay_level=3)

    `delay_level` is one of the broker's levels (1 s, 5 s, 10 s, 30 s, 1 min …); 0 lets the broker
    choose, `RetryLater.dead_letter()` gives the message up. `messages` are those of a batch that
    failed, all of them if left out. `suspend_ms` is how long an ordered queue waits.
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
        """Return what to raise for a message that no retry can help. ::

        raise RetryLater.dead_letter("no such customer")
        """
        return cls(reason, delay_level=DEAD_LETTER)


class NoHandler(RetryLater):
    """The reason why a message is retried that nobody here has a function for."""


class OrderlyStatus(Enum):
    """What an ordered handler with ``auto_commit=False`` returns when it has come to a decision.

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

    A handler that raises gets only what it was called with again; what it did before is kept.
    """

    COMMIT = "commit"
    """All messages of the queue since the last commit are done."""
    ROLLBACK = "rollback"
    """All of them come again, in order, after a while."""


@dataclass(slots=True, frozen=True)
class Handler:
    """A function and the messages it is meant for."""

    topic: str
    function: Callable[[Any], Any]
    batch: int = 1
    is_ordered: bool = False
    auto_commit: bool = True


@dataclass(slots=True)
class Failure:
    """A message that has to be tried again, and why."""

    message: ReceivedMessage
    error: BaseException

    @property
    def delay_level(self) -> int:
        """When: a level of the broker's, 0 for its own choice."""
        return self.error.delay_level if isinstance(self.error, RetryLater) else 0


def already_handled(
    topic: str, function: Callable[[Any], Any], *, is_replaceable: bool = True
) -> ConfigError:
    """Return the error of a second function for a topic; each message goes to one function."""
    name = getattr(function, "__qualname__", None) or repr(function)
    replace = f"call unsubscribe({topic!r}) first to put another in its place, or " * is_replaceable
    return ConfigError(
        f"topic {topic} has a function already, {name}: {replace}have one function do the work of "
        "both; to have every message handled twice, start a second consumer with its own group"
    )


def log_failure(
    log: logging.Logger, messages: Sequence[ReceivedMessage], error: BaseException
) -> None:
    """Log that a function has failed on messages, with its traceback, or what it asked for."""
    first = messages[0]
    ids = ", ".join(message.message_id for message in messages)
    tried = first.reconsume_times
    if isinstance(error, NoHandler):
        log.warning("message %s goes back to its broker: %s", ids, error)
    elif isinstance(error, RetryLater):
        log.info(
            "the handler of %s gave message %s back, which was tried %d times before: %s",
            first.topic,
            ids,
            tried,
            error,
        )
    else:
        log.warning(
            "the handler of %s failed on message %s, which was tried %d times before",
            first.topic,
            ids,
            tried,
            exc_info=error,
        )


def failures(unit: ReceivedMessage | list[ReceivedMessage], error: BaseException) -> list[Failure]:
    """Return what has to be tried again after a handler raised, given a message or a batch."""
    messages = unit if isinstance(unit, list) else [unit]
    if isinstance(error, RetryLater) and error.messages is not None:
        failed = {message.queue_offset for message in error.messages}
        messages = [message for message in messages if message.queue_offset in failed]
    return [Failure(message, error) for message in messages]


class HandlerTable:
    """Handlers by the topic that users know."""

    def __init__(self) -> None:
        self._of_topic: dict[str, Handler] = {}
        self._in_use: dict[str, Handler] = {}
        self._wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] | None = None

    def put(self, handler: Handler) -> None:
        """Have a handler get the messages of its topic."""
        self._of_topic[handler.topic] = handler
        if self._wrap is not None:
            handler = replace(handler, function=self._wrap(handler.function))
        self._in_use[handler.topic] = handler

    def remove(self, topic: str) -> None:
        """Have nobody get the messages of a topic any more."""
        self._of_topic.pop(topic, None)
        self._in_use.pop(topic, None)

    def wrap(self, wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] | None) -> None:
        """Put something around every function, of handlers yet to come, too."""
        self._wrap = wrap
        for handler in list(self._of_topic.values()):
            self.put(handler)

    def function_of(self, topic: str) -> Callable[[Any], Any] | None:
        """Return the function that was given for a topic."""
        handler = self._of_topic.get(topic)
        return None if handler is None else handler.function

    def find(self, topic: str) -> Handler | None:
        """Return the handler of a topic."""
        return self._in_use.get(topic)

    def __iter__(self) -> Iterator[Handler]:
        return iter(list(self._of_topic.values()))

    def __len__(self) -> int:
        return len(self._of_topic)
