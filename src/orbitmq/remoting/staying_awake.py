"""A server's loop that stays awake for the next request of a client that asks one by one.

Theory of operation. A client that waits for each answer before it asks again sends its next request
a few microseconds after the answer. A loop that has gone to sleep meanwhile is woken by it, and to
wake up takes longer than the request itself. So after a turn with one answer the loop looks at its
sockets for a moment longer, if that has paid lately (see `patience`): it asks to be called in its
next turn, which it then begins without waiting. Timers and other callbacks run as ever.

After a turn with answers for several connections it sleeps as usual: requests that come meanwhile
are then answered together, which is cheaper than being there for each of them (see `WritingTurn`).
"""

from __future__ import annotations

import asyncio
import time

from orbitmq.remoting.patience import Patience

__all__ = ["StayingAwake"]

AWAKE_S = 0.0001


class StayingAwake:
    """Keeps one loop from going to sleep, when a request is about to come."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._patience = Patience()
        self._is_awake = False
        self._is_looking = False
        self._until = 0.0

    def answered(self, connections: int) -> None:
        """Decide what comes next, after a turn in which so many connections were written to."""
        if self._is_awake:
            self._patience.paid()
        if connections > 1:
            self._is_awake = False
        elif self._is_awake or self._patience.for_this_one():
            self._is_awake = True
            self._until = time.monotonic() + AWAKE_S
            if not self._is_looking:
                self._is_looking = True
                self._call_soon(self._look)

    def _look(self) -> None:
        if self._is_awake and time.monotonic() < self._until:
            self._call_soon(self._look)
            return
        if self._is_awake:
            self._patience.wasted()
        self._is_awake = self._is_looking = False
