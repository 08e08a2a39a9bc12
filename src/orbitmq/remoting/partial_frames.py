"""A limit on the incomplete frames of all connections of a server together.

A frame may have 16 MiB, so a few hundred peers that each send half of one would fill the memory. An
honest frame is complete soon after its first byte. So when the sum exceeds the limit, the
connections with the oldest incomplete frames are closed. Small parts are not counted: a slow peer
with an ordinary request costs no more than its connection.

Pure state: it returns the connections to close.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["PartialFrames"]

C = TypeVar("C")

LIMIT_BYTES = 256 << 20
SMALL_BYTES = 64 << 10


class PartialFrames(Generic[C]):
    """Bytes of incomplete frames per connection, oldest frame first."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pending: dict[C, int] = {}
        self.total_bytes = 0

    def note(self, connection: C, pending_bytes: int) -> list[C]:
        """Record the incomplete bytes of a connection; return the connections to close."""
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
        """Remove a connection without an incomplete frame, or a closed one."""
        self.total_bytes -= self._pending.pop(connection, 0)
