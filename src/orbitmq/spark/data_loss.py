"""Offsets that were promised and are gone: say why, then fail or go on.

| what is found | cause |
| --- | --- |
| the queue's first offset is past the one wanted | expired: the broker has deleted old files |
| the queue ends before the one wanted | shrunk: it was made anew, or lost its tail in a crash |
| topic, queue or broker are not there | see `absence` |

With ``failOnDataLoss=true`` each is an error that names the offsets; otherwise a warning, and
reading goes on with what there is.

A broker that goes away while a task reads from it is waited for: for some retries in a batch, for
`max_absence_ms` in a stream. Then the task fails either way. The messages are there, and a task
that left them out would give other rows than its next attempt; a query that is started again and
may lose messages plans its batch without the broker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal

from orbitmq.errors import BrokerBusy, ClientError, Fault, OrbitError
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


LEAST_PAUSE_S = 0.1
"""How often to try at most, when it is for a time and not for some retries."""


class MessagesLost(ClientError):
    """Messages that a query was going to read are gone. `cause` says how."""

    fault = Fault.OPERATOR

    def __init__(self, text: str, cause: Cause) -> None:
        super().__init__(text)
        self.cause = cause


class DataLoss:
    """What to do when offsets are gone, and how long to wait when a broker is.

    With `max_absence_ms` it is waited for that long, without it for so many retries. `hide` strikes
    secrets out of what brokers say, before it is logged.
    """

    def __init__(
        self,
        *,
        fail: bool,
        retries: int = 10,
        retry_interval_ms: int = 500,
        max_absence_ms: int | None = None,
        hide: Callable[[str], str] = str,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fail = fail
        self._retries = retries
        self._pause_s = retry_interval_ms / 1000
        self._max_absence_ms = max_absence_ms
        self._hide = hide
        self._pause = pause
        self._clock = clock
        self._failures = 0
        self._failing_since = 0.0

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
        now = self._clock()
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        if self._max_absence_ms is None:
            if self._failures > self._retries:
                raise error
            pause_s = self._pause_s
        else:
            if (now - self._failing_since) * 1000 >= self._max_absence_ms:
                raise error if isinstance(error, BrokerBusy) else _gone(error) from error
            pause_s = max(self._pause_s, LEAST_PAUSE_S)
        _log.info("trying again after %s", self._hide(str(error)))
        self._pause(pause_s)

    def made_progress(self) -> None:
        """A broker has answered: patience begins anew."""
        self._failures = 0


def _gone(error: OrbitError) -> MessagesLost:
    return MessagesLost(
        f"messages are lost (broker gone). {error}: {_WHY['broker gone']}. A batch that is being "
        "read cannot end without them: bring the broker back, or start the query again with option "
        "failOnDataLoss set to false, which plans the batch without it",
        "broker gone",
    )


def place(queue: MessageQueue) -> str:
    """Return words for a queue."""
    return f"queue {queue.queue_id} of topic {queue.topic!r} on broker {queue.broker_name}"
