"""Busy-waiting of a server's event loop for the next request of a client that sends one at a time.

Theory of operation. A client that waits for each answer sends its next request a few microseconds
after the answer. Waking a sleeping loop takes longer than the request itself. So after a turn with
one answer the loop polls its sockets for a moment, if that has paid off lately (see `patience`): it
schedules a callback for the next turn, which therefore begins without waiting. Timers and other
callbacks run as usual.

After a turn with answers for several connections the loop sleeps as usual: requests that arrive
meanwhile are then answered together, which is cheaper than one by one (see `WritingTurn`).
"""

from __future__ import annotations

import asyncio
import time

from orbitmq.remoting.patience import Patience

__all__ = ["StayingAwake"]

AWAKE_S = 0.0001


class StayingAwake:
    """Keeps one loop from sleeping while the next request is likely to arrive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._patience = Patience()
        self._is_awake = False
        self._is_looking = False
        self._until = 0.0

    def answered(self, connections: int) -> None:
        """Decide whether to poll, after a turn that wrote to the given number of connections."""
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
