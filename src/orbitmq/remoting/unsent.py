"""A limit on the unsent bytes of all connections of a server together.

A connection stops serving a peer that does not read. But one answer may have megabytes, so a few
hundred peers that each request one and read nothing would fill the memory. When the sum exceeds the
limit, the connections whose peers have read nothing for the longest time are closed; a slow reader
is not among the first. Small amounts are not counted: they cost no more than the connection.

Amounts are recorded on each write. Only when the limit seems to be reached, all recorded
connections are measured again, to subtract the bytes that have left since then.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sys
import termios
from typing import Generic, Protocol, TypeVar

__all__ = ["SMALL_BYTES", "Unsent", "WriteMeter"]

LIMIT_BYTES = 256 << 20
SMALL_BYTES = 64 << 10


class Sends(Protocol):
    """A connection that counts its unsent bytes and the bytes its peer has acknowledged."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that stay in memory until the peer has read them."""

    @property
    def taken_bytes(self) -> int:
        """Bytes that the peer has acknowledged since the connection was opened."""


C = TypeVar("C", bound=Sends)


class Unsent(Generic[C]):
    """Counts unsent bytes per connection; the connection stuck for the longest time is first."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._amounts: dict[C, tuple[int, int]] = {}  # unsent bytes, acknowledged bytes
        self.total_bytes = 0

    def note(self, connection: C) -> list[C]:
        """Record the unsent bytes of a connection; return the connections to close."""
        self._measure(connection)
        if self.total_bytes <= self._limit_bytes:
            return []
        for one in list(self._amounts):
            self._measure(one)
        too_many = []
        while self.total_bytes > self._limit_bytes:
            stuck = next(iter(self._amounts))
            self.forget(stuck)
            too_many.append(stuck)
        return too_many

    def _measure(self, connection: C) -> None:
        amount = connection.unsent_bytes
        known, known_taken = self._amounts.get(connection, (0, 0))
        if amount < SMALL_BYTES:
            if known:
                self.forget(connection)
            return
        taken = connection.taken_bytes
        if known and taken > known_taken:
            del self._amounts[connection]  # its peer has read something, so move it to the end
        self._amounts[connection] = (amount, taken)
        self.total_bytes += amount - known

    def forget(self, connection: C) -> None:
        """Remove a connection without unsent bytes, or a closed one."""
        self.total_bytes -= self._amounts.pop(connection, (0, 0))[0]


# ---- Meter of the bytes written to one peer


class WriteMeter:
    """Counts the bytes that are written to a transport."""

    __slots__ = ("_largest_write", "_noted_bytes", "_transport", "_written_bytes")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._written_bytes = 0
        self._noted_bytes = 0
        self._largest_write = 0

    def wrote(self, size: int) -> bool:
        """Count the bytes of one write; return True if the sum is large enough to be recorded."""
        self._written_bytes += size
        if size > self._largest_write:
            self._largest_write = size
        if self._written_bytes - self._noted_bytes <= SMALL_BYTES:
            return False
        self._noted_bytes = self._written_bytes
        return True

    @property
    def unsent_bytes(self) -> int:
        """Bytes that stay in memory until the peer has read them."""
        waits = self._transport.get_write_buffer_size()
        if not waits:
            self._largest_write = 0
        # The transport frees the buffer of a write only after its last byte has left.
        return waits + self._largest_write

    @property
    def taken_bytes(self) -> int:
        """Bytes that the peer has acknowledged since the connection began."""
        in_kernel = 0
        with contextlib.suppress(OSError):
            sock = self._transport.get_extra_info("socket")
            answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
            in_kernel = int.from_bytes(answer, sys.byteorder)
        return self._written_bytes - self._transport.get_write_buffer_size() - in_kernel
