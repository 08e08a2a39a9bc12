"""Pauses between attempts: random, short at first, longer each time, within a time budget.

A restarting server is unreachable for a moment. Attempts without pauses are used up before the
server is back. With pauses of a fixed length, all clients would reconnect at the same moment.
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
"""Part of the budget reserved for the last attempt; at most a tenth of the budget is reserved."""


def is_away(error: BaseException | None) -> bool:
    """Return True if the error means that a peer is unreachable now, but may be back in a moment.

    A peer with an untrusted certificate, or without TLS, is not away: waiting does not help.

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
    """Computes the pauses between the attempts of one call, within the call's time budget."""

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
        """Milliseconds left of the budget."""
        return (self._end - self._clock()) * 1000

    def next(self) -> Pause | None:
        """Return the pause before the next attempt, or None if the budget has no time left for it.

        The last pause ends shortly before the budget, so that the last attempt still reaches a
        server that has come back by then.
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
    """Repeat a route look-up until it succeeds or the budget is spent.

    `look` receives the milliseconds that are left. The look-up is repeated while no nameserver can
    be reached or no broker is registered. Causes that waiting does not change (the topic does not
    exist, a missing permission) end the look-up at once. `is_over` also ends the look-up, after
    the current attempt.
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
