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
from typing import Protocol

from orbitmq.errors import FAILURES
from orbitmq.remoting.staying_awake import StayingAwake

__all__ = ["WritingTurn"]

_log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 4 << 20


class Writes(Protocol):
    """A connection with collected output."""

    def write_collected(self) -> None:
        """Write it."""


class WritingTurn:
    """The connections of one loop that write at the end of the current turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call_soon = loop.call_soon
        self._waiting: list[Writes] = []
        self._waiting_bytes = 0
        self._awake: StayingAwake | None = None

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> WritingTurn:
        """Return the instance of the running loop."""
        turn = _turns.get(loop)
        if turn is None:
            for gone in [other for other in list(_turns) if other.is_closed()]:
                _turns.pop(gone, None)  # another thread may have done so
            turn = _turns[loop] = WritingTurn(loop)
        return turn

    def stay_awake(self) -> None:
        """Let the loop busy-wait for the next request; for servers."""
        if self._awake is None:
            self._awake = StayingAwake(self._loop)

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


_turns: dict[asyncio.AbstractEventLoop, WritingTurn] = {}
