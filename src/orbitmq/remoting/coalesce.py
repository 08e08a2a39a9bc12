"""Write coalescing: all connections of a loop write together, once per turn.

Theory of operation. In one turn the loop delivers what all ready sockets have received, then runs
the callbacks that were scheduled meanwhile. Connections with something to send share one such
callback, so every request that has already arrived is answered before the first answer is written.
A peer with many connections is then woken once for all answers. Written one by one, each answer
would wake it and let it sleep again: with 64 connections that costs as much as the requests.

The collected bytes are bounded: beyond `MAX_WAITING_BYTES` everything is written at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol

from orbitmq.errors import FAILURES
from orbitmq.remoting.busy_wait import AdaptiveSpin

__all__ = ["LoopKeepAwake", "WriteCoalescer"]

_log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 4 << 20


class Writes(Protocol):
    """A connection with collected output."""

    def write_collected(self) -> None:
        """Write the collected output."""


class WriteCoalescer:
    """The connections of one loop that write at the end of the current turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call_soon = loop.call_soon
        self._waiting: list[Writes] = []
        self._waiting_bytes = 0
        self._awake: LoopKeepAwake | None = None

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> WriteCoalescer:
        """Return the instance of the running loop."""
        turn = _turns.get(loop)
        if turn is None:
            for gone in [other for other in list(_turns) if other.is_closed()]:
                _turns.pop(gone, None)  # another thread may have done so
            turn = _turns[loop] = WriteCoalescer(loop)
        return turn

    def stay_awake(self) -> None:
        """Let the loop busy-wait for the next request; for servers."""
        if self._awake is None:
            self._awake = LoopKeepAwake(self._loop)

    def join(self, connection: Writes) -> None:
        """Add a connection to the current turn; it joins once per turn."""
        if not self._waiting:
            self._call_soon(self._write)
        self._waiting.append(connection)

    def note(self, bytes_collected: int) -> None:
        """Count collected bytes; beyond the limit write at once."""
        self._waiting_bytes += bytes_collected
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._write()

    def write(self) -> None:
        """Write what has been collected up to now, before the end of the turn."""
        if self._waiting:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        for connection in waiting:
            try:
                connection.write_collected()
            except FAILURES:
                _log.exception("%r could not write", connection)
        if self._awake is not None:
            self._awake.answered(len(waiting))


_turns: dict[asyncio.AbstractEventLoop, WriteCoalescer] = {}


# ---- Busy-waiting of a server's event loop
#
# Theory of operation. A client that waits for each answer sends its next request a few
# microseconds after the answer. Waking a sleeping loop takes longer than the request itself. So
# after a turn with one answer the loop polls its sockets for a moment, if that has paid off lately
# (see `AdaptiveSpin`): it schedules a callback for the next turn, which therefore begins without
# waiting. Timers and other callbacks run as usual.
#
# After a turn with answers for several connections the loop sleeps as usual: requests that arrive
# meanwhile are then answered together, which is cheaper than one by one (see `WriteCoalescer`).

AWAKE_S = 0.0001


class LoopKeepAwake:
    """Keeps one loop from sleeping while the next request is likely to arrive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._patience = AdaptiveSpin()
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
