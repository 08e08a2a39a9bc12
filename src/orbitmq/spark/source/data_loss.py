"""Handles lost offsets and unavailable brokers: gives the cause, then fails or continues.

| observation | cause |
| --- | --- |
| the queue's first offset is past the offset to read | expired: the broker has deleted old files |
| the queue ends before the offset to read | shrunk: recreated, or lost its tail in a crash |
| topic or queue is missing, although its broker answers | see `availability` |

With ``failOnDataLoss=true`` each of these is an error that names the offsets. Otherwise it is a
warning, and reading continues with the messages that are left.

A broker that is away loses nothing, so its absence is never reported as a loss. A batch waits for
the broker for some retries, a stream for `max_absence_ms`. After that ``brokerAbsenceStrategy``
decides:

| strategy | queues without a planned batch | a batch that has messages of the broker |
| --- | --- | --- |
| fail | the query fails (`BrokerAway`) | the query fails |
| wait | a warning; the others continue | a warning; the batch keeps waiting |
| skip | a warning; the others continue | a warning; it is planned without them |

A task never skips messages it was given: its next attempt could return other rows. So with ``skip``
the task fails, and a restarted query plans the batch again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Literal

from orbitmq.errors import BrokerBusy, ClientError, Fault, OrbitError
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["AWAY", "Absence", "AwayStrategy", "BrokerAway", "Cause", "DataLoss", "MessagesLost"]

_log = logging.getLogger(__name__)

Cause = Literal["expired", "queue shrunk", "topic deleted", "queue removed"]
Absence = Literal["broker away", "topic deleted", "queue removed"]
"""Causes of a missing queue; the first one is no loss."""
AWAY: Final = "broker away"
AwayStrategy = Literal["fail", "wait", "skip"]

_WHY: dict[Cause, str] = {
    "expired": "they have expired: the broker deletes old files; read more often, or keep them "
    "longer (fileReservedTime)",
    "queue shrunk": "the queue ends earlier: its topic was deleted and made anew, or its broker "
    "lost its tail",
    "topic deleted": "the topic was deleted",
    "queue removed": "the topic has fewer queues than before",
}
_TOO_LONG = "the broker is away for longer than option maxBrokerAbsence allows"
_AFTERWARDS: dict[AwayStrategy, str] = {
    "fail": "Its messages are not lost. Start the broker, then the query; or have queries wait, "
    "for longer with option maxBrokerAbsence, for any time with brokerAbsenceStrategy=wait",
    "wait": "Its messages are not lost, and are read when it is back",
    "skip": "Its queues are read when it is back, but a batch that is to have messages of it is "
    "planned without them (brokerAbsenceStrategy=skip)",
}
_TASK = (
    "Its messages are not lost, and a batch that is being read cannot end without them: start the "
    "broker, then the query"
)

LEAST_PAUSE_S = 0.1
"""Least pause between tries that are limited by time and not by a number of retries."""


class MessagesLost(ClientError):
    """Error: messages that a query was going to read no longer exist; `cause` gives the reason."""

    fault = Fault.OPERATOR

    def __init__(self, text: str, cause: Cause) -> None:
        super().__init__(text)
        self.cause = cause


class BrokerAway(ClientError):
    """Error: a broker that a query reads from is away for too long; its messages are not lost."""

    fault = Fault.OPERATOR
    retriable = True


class DataLoss:
    """Rules for lost offsets and unavailable brokers.

    With `max_absence_ms`, a task waits for a broker for that time, otherwise for `retries` retries;
    `when_away` says what happens then. `hide` removes secrets from brokers' answers before they are
    logged.
    """

    def __init__(
        self,
        *,
        fail: bool,
        retries: int = 10,
        retry_interval_ms: int = 500,
        max_absence_ms: int | None = None,
        when_away: AwayStrategy = "fail",
        hide: Callable[[str], str] = str,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fail = fail
        self._retries = retries
        self._pause_s = retry_interval_ms / 1000
        self._max_absence_ms = max_absence_ms
        self._when_away = when_away
        self._hide = hide
        self._pause = pause
        self._clock = clock
        self._failures = 0
        self._failing_since = 0.0
        self._told_away = False

    @property
    def waits_for_brokers(self) -> bool:
        """True if queries wait for an unavailable broker without a time limit."""
        return self._when_away == "wait"

    def is_away(self, what: str) -> None:
        """Raise `BrokerAway` or log a warning: a queue's broker is unavailable for too long."""
        text = f"a broker is away. {what}: {_TOO_LONG}. {_AFTERWARDS[self._when_away]}"
        if self._when_away == "fail":
            raise BrokerAway(text)
        _log.warning("%s", text)

    def report(self, cause: Cause, what: str) -> None:
        """Raise `MessagesLost`, or log a warning if the query continues after a loss."""
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
        """Report a loss at an offset the broker does not have; return the offset to go on at.

        The returned offset is at most `end`.
        """
        if next_offset > at and min_offset > at:
            go_on = min(max(min_offset, next_offset), end)
            self.report("expired", f"offsets {at} to {go_on - 1} of {place(queue)}")
            return go_on
        self.report("queue shrunk", f"offsets {at} to {end - 1} of {place(queue)}")
        return end

    def ended(
        self, queue: MessageQueue, at: int, end: int, max_offset: int, next_offset: int
    ) -> int:
        """Report a loss at an offset without a message; return the offset to go on at."""
        if at < next_offset <= max_offset and max_offset >= end:
            go_on = min(next_offset, end)
            self.report("expired", f"offsets {at} to {go_on - 1} of {place(queue)}")
            return go_on
        self.report("queue shrunk", f"offsets {at} to {end - 1} of {place(queue)}")
        return end

    def had_trouble(self, error: OrbitError) -> None:
        """Pause before the next try after a broker failed or was busy; raise after too long."""
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
                self._lost_patience(error)
            pause_s = max(self._pause_s, LEAST_PAUSE_S)
        _log.info("request failed; trying again after a pause: %s", self._hide(str(error)))
        self._pause(pause_s)

    def made_progress(self) -> None:
        """Reset the count and time of failures, because a broker has answered."""
        self._failures = 0
        self._told_away = False

    def _lost_patience(self, error: OrbitError) -> None:
        """Raise because a broker does not serve a task, or warn once if tasks wait for brokers."""
        if isinstance(error, BrokerBusy):
            raise error
        if not self.waits_for_brokers:
            raise BrokerAway(f"a broker is away. {error}: {_TOO_LONG}. {_TASK}") from error
        if not self._told_away:
            self._told_away = True
            where, then = self._hide(str(error)), _AFTERWARDS["wait"]
            _log.warning("a broker is away. %s: %s. %s", where, _TOO_LONG, then)


def place(queue: MessageQueue) -> str:
    """Return a text that names a queue, its topic and its broker."""
    return f"queue {queue.queue_id} of topic {queue.topic!r} on broker {queue.broker_name}"
