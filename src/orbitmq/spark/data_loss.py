"""Offsets that were promised and are gone: say why, then fail or go on.

| what is found | cause |
| --- | --- |
| the queue's first offset is past the one wanted | expired: the broker has deleted old files |
| the queue ends before the one wanted | shrunk: it was made anew, or lost its tail in a crash |
| topic, queue or broker are not there | see `absence` |

With ``failOnDataLoss=true`` each is an error that names the offsets; otherwise a warning, and
reading goes on with what there is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal

from orbitmq.errors import ClientError, Fault, OrbitError
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["Cause", "DataLoss", "MessagesLost"]

_log = logging.getLogger(__name__)

Cause = Literal["expired", "queue shrunk", "topic deleted", "queue removed", "broker gone"]

_WHY: dict[Cause, str] = {
    "expired": "they have expired: the broker deletes old files; read more often, or keep them "
    "longer (fileReservedTime)",
    "queue shrunk": "the queue ends earlier: its topic was deleted and made anew, or its broker "
    "lost its tail",
    "topic deleted": "the topic was deleted",
    "queue removed": "the topic has fewer queues than before",
    "broker gone": "the broker is away for longer than option maxBrokerAbsence allows",
}


class MessagesLost(ClientError):
    """Messages that a query was going to read are gone. `cause` says how."""

    fault = Fault.OPERATOR

    def __init__(self, text: str, cause: Cause) -> None:
        super().__init__(text)
        self.cause = cause


class DataLoss:
    """What to do when offsets are gone, and how long to wait when a broker is."""

    def __init__(
        self,
        *,
        fail: bool,
        retries: int = 10,
        retry_interval_ms: int = 500,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.fail = fail
        self._retries = retries
        self._retry_interval_ms = retry_interval_ms
        self._pause = pause
        self._failures = 0

    def report(self, cause: Cause, what: str) -> None:
        """Fail or warn."""
        text = f"{what}: {_WHY[cause]}"
        if self.fail:
            raise MessagesLost(
                f"messages are lost ({cause}). {text}. To go on without them set option "
                "failOnDataLoss to false",
                cause,
            )
        _log.warning("messages are lost (%s). %s", cause, text)

    def moved(
        self, queue: MessageQueue, at: int, end: int, min_offset: int, next_offset: int
    ) -> int:
        """A broker has no such offset: return where to go on, at most `end`."""
        if next_offset > at and min_offset > at:
            go_on = min(max(min_offset, next_offset), end)
            self.report("expired", f"offsets {at} to {go_on - 1} of {place(queue)}")
            return go_on
        self.report("queue shrunk", f"offsets {at} to {end - 1} of {place(queue)}")
        return end

    def ended(
        self, queue: MessageQueue, at: int, end: int, max_offset: int, next_offset: int
    ) -> int:
        """A broker has nothing at an offset that once was there: return where to go on."""
        if at < next_offset <= max_offset and max_offset >= end:
            go_on = min(next_offset, end)
            self.report("expired", f"offsets {at} to {go_on - 1} of {place(queue)}")
            return go_on
        self.report("queue shrunk", f"offsets {at} to {end - 1} of {place(queue)}")
        return end

    def had_trouble(self, error: OrbitError) -> None:
        """Wait for a broker that is not there or has too much to do; raise when it takes long."""
        self._failures += 1
        if self._failures > self._retries:
            raise error
        _log.info("trying again after %s", error)
        self._pause(self._retry_interval_ms / 1000)

    def made_progress(self) -> None:
        """A broker has answered: patience begins anew."""
        self._failures = 0


def place(queue: MessageQueue) -> str:
    """Return words for a queue."""
    return f"queue {queue.queue_id} of topic {queue.topic!r} on broker {queue.broker_name}"
