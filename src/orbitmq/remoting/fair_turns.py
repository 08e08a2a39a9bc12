"""Shares of the event loop, so that a peer with many requests does not delay other peers.

Theory of operation. A connection handles the first request of a read at once, and continues for a
share of time. A connection with more requests waits in a queue and reads nothing meanwhile. In
each turn of the loop the connections in the queue get one share each, in rotation, for up to
`TURN_S`. Then the loop polls its sockets again. So a peer that sends one request at a time waits
for about one turn, however many other peers flood the server; these share the remaining time
evenly. Answers of the previous turn are written first, not after the shares of other connections.

The time is `time.monotonic`, because the loop's own clock may stand still within a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from orbitmq.errors import FAILURES
from orbitmq.remoting.coalesce import WriteCoalescer

__all__ = ["FairTurns"]

_log = logging.getLogger(__name__)

SHARE_S = 0.0005
TURN_S = 0.004
"""Time of all connections together before the loop polls its sockets again."""


class Works(Protocol):
    """A connection that has more requests than its share allowed."""

    def work(self, until_s: float) -> bool:
        """Handle requests until the time; return True if more requests can be handled."""

    def abort(self) -> None:
        """Close at once."""


class FairTurns:
    """The connections of one loop that wait for their next share."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        clock_s: Callable[[], float],
        write: Callable[[], None] = lambda: None,
    ) -> None:
        self._call_soon = call_soon
        self._clock_s = clock_s
        self._write = write
        self._waiting: deque[Works] = deque()
        self._is_scheduled = False
        self._turn_until_s = 0.0

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> FairTurns:
        """Return the `FairTurns` of this loop."""
        turns = _turns.get(loop)
        if turns is None:
            for gone in [other for other in list(_turns) if other.is_closed()]:
                _turns.pop(gone, None)  # another thread may have done so
            turns = _turns[loop] = FairTurns(
                loop.call_soon, monotonic, WriteCoalescer.of(loop).write
            )
        return turns

    def share(self) -> float:
        """Return the time until which a connection may work after a read."""
        now = self._clock_s()
        if not self._turn_until_s:
            self._turn_until_s = now + TURN_S
            self._schedule()
        return min(now + SHARE_S, self._turn_until_s)

    def join(self, connection: Works) -> None:
        """Add a connection to the queue for its next share; it joins once until it is called."""
        self._waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._turn_until_s = 0.0
        waiting = self._waiting
        if waiting:
            self._write()
        now = self._clock_s()
        turn_until = now + TURN_S
        while waiting and now < turn_until:
            connection = waiting.popleft()
            try:
                if connection.work(min(now + SHARE_S, turn_until)):
                    waiting.append(connection)
            except FAILURES:
                _log.exception("closing %r: handling its requests failed", connection)
                connection.abort()
            now = self._clock_s()
        if waiting:
            self._schedule()


_turns: dict[asyncio.AbstractEventLoop, FairTurns] = {}
