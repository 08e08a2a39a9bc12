"""When connections write: together, once per turn of the event loop.

Theory of operation. In one turn the loop hands out what all ready sockets have sent, then runs the
callbacks that were asked for meanwhile. Connections that have something to send ask for one such
callback together, so that every request that has already arrived is answered before the first
answer is written. A peer that serves many connections is then woken once for all of them; written
one by one, each answer would wake it, find it done with the one before, and put it to sleep again:
with 64 connections that costs as much as the requests themselves.

What waits here is bounded: beyond `MAX_WAITING_BYTES` everything is written at once.
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
    """Something that has collected what it wants to write."""

    def write_collected(self) -> None:
        """Write it."""


class WritingTurn:
    """The connections of one loop that will write at the end of its present turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call_soon = loop.call_soon
        self._waiting: list[Writes] = []
        self._waiting_bytes = 0
        self._awake: StayingAwake | None = None

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> WritingTurn:
        """Return the one of this loop."""
        turn = _turns.get(loop)
        if turn is None:
            for gone in [other for other in list(_turns) if other.is_closed()]:
                _turns.pop(gone, None)  # another thread may have done so
            turn = _turns[loop] = WritingTurn(loop)
        return turn

    def stay_awake(self) -> None:
        """Be there for the next request, when it is about to come: for the loop of a server."""
        if self._awake is None:
            self._awake = StayingAwake(self._loop)

    def join(self, connection: Writes) -> None:
        """Let a connection write with the others; it joins once until it has been called."""
        if not self._waiting:
            self._call_soon(self._write)
        self._waiting.append(connection)

    def note(self, bytes_collected: int) -> None:
        """Count what waits; when it has become too much, write now."""
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
