"""Pauses between attempts: short at first, longer each time, at random, and never past a budget.

A server that restarts is away for a moment. Attempts without a pause are over before it is back;
pauses of a fixed length have all clients come back at once.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from typing import TypeVar

from orbitmq.errors import ConnectionLost, NoRoute
from orbitmq.rpc.flow import Flow, Pause

__all__ = ["FIRST_PAUSE_MS", "LONGEST_PAUSE_MS", "Pauses", "is_away", "look_patiently"]

R = TypeVar("R")

FIRST_PAUSE_MS = 25.0
LONGEST_PAUSE_MS = 500.0
LAST_ATTEMPT_MS = 100.0
"""Part of a budget that is kept for the last attempt, a tenth of it at most."""


def is_away(error: BaseException | None) -> bool:
    """Return True if a peer cannot be reached now, but may be back in a moment.

    A peer whose certificate is not believed, or that speaks no TLS, is not away.

    >>> is_away(ConnectionLost("connection refused"))
    True
    """
    return isinstance(error, ConnectionLost) and not _is_distrusted(error)


def _is_distrusted(error: BaseException | None) -> bool:
    cause = None if error is None else error.__cause__
    return isinstance(cause, ssl.SSLError) and not isinstance(
        cause, ssl.SSLEOFError | ssl.SSLZeroReturnError
    )


class Pauses:
    """The pauses of one call, within its budget."""

    def __init__(
        self,
        begin: float,
        budget_ms: float,
        clock: Callable[[], float],
        *,
        first_ms: float = FIRST_PAUSE_MS,
        longest_ms: float = LONGEST_PAUSE_MS,
    ) -> None:
        self._end = begin + budget_ms / 1000
        self._last_ms = min(LAST_ATTEMPT_MS, budget_ms / 10)
        self._next_ms = first_ms
        self._longest_ms = longest_ms
        self._clock = clock

    @property
    def left_ms(self) -> float:
        """Part of the budget that is left."""
        return (self._end - self._clock()) * 1000

    def next(self) -> Pause | None:
        """Return the pause before another attempt, None when there is no time for one.

        The last pause ends shortly before the budget does: a server that has come back by then is
        found.
        """
        room_ms = self.left_ms - self._last_ms
        if room_ms < 1:
            return None
        pause_ms = self._next_ms * random.uniform(0.5, 1)
        self._next_ms = min(2 * self._next_ms, self._longest_ms)
        return Pause(min(pause_ms, room_ms))


def look_patiently(
    look: Callable[[float], Flow[R]],
    budget_ms: float,
    clock: Callable[[], float],
    is_over: Callable[[], bool] = lambda: False,
) -> Flow[R]:
    """Look a route up until nameservers answer and know a broker, or the budget is spent.

    `look` gets the milliseconds that are left. What no pause changes (a topic that does not exist,
    a permission) ends the look-up at once, and so does `is_over`.
    """
    begin = clock()
    pauses = Pauses(begin, budget_ms, clock)
    tries = 0
    while True:
        tries += 1
        try:
            return (yield from look(max(pauses.left_ms, 1)))
        except NoRoute as error:
            can_change = error.cause == "no_broker" or (
                error.cause == "no_nameserver" and not _is_distrusted(error.__cause__)
            )
            pause = pauses.next() if can_change and not is_over() else None
            if pause is None and tries == 1:
                raise
            if pause is None:
                took_ms = (clock() - begin) * 1000
                raise NoRoute(
                    f"{error}\nThe route was asked for {tries} times in {took_ms:.0f} ms; the "
                    f"budget is timeout_ms={budget_ms:.0f}.",
                    topic=error.topic,
                    cause=error.cause,
                ) from error
        yield pause
