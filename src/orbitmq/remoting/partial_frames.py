"""A limit on what all connections of a server together have sent of frames that are not whole yet.

One frame may have 16 MiB, so that a few hundred peers which each send half of one would fill the
memory. An honest frame is whole soon after its first byte. So when the sum goes over the limit, the
connections are closed whose frames were begun the longest ago. Small parts are not counted: a slow
peer with an ordinary request costs no more than its connection.

Pure state: it returns the connections to close.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["PartialFrames"]

C = TypeVar("C")

LIMIT_BYTES = 256 << 20
SMALL_BYTES = 64 << 10


class PartialFrames(Generic[C]):
    """Who has sent how much of an unfinished frame, those begun first in front."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pending: dict[C, int] = {}
        self.total_bytes = 0

    def note(self, connection: C, pending_bytes: int) -> list[C]:
        """Take down how much a connection has pending; returns those to close for it."""
        if pending_bytes < SMALL_BYTES:
            if self._pending:
                self.forget(connection)
            return []
        self.total_bytes += pending_bytes - self._pending.get(connection, 0)
        self._pending[connection] = pending_bytes
        too_many = []
        while self.total_bytes > self._limit_bytes:
            oldest = next(iter(self._pending))
            self.forget(oldest)
            too_many.append(oldest)
        return too_many

    def forget(self, connection: C) -> None:
        """A connection has nothing pending any more, or is gone."""
        self.total_bytes -= self._pending.pop(connection, 0)
