"""Counts of the bytes written to one peer: those still in memory, and those the peer has taken."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sys
import termios

from orbitmq.remoting.unsent import SMALL_BYTES

__all__ = ["WriteMeter"]


class WriteMeter:
    """Counts the bytes that are written to a transport."""

    __slots__ = ("_largest_write", "_noted_bytes", "_transport", "_written_bytes")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._written_bytes = 0
        self._noted_bytes = 0
        self._largest_write = 0

    def wrote(self, size: int) -> bool:
        """Count the bytes of one write; True if the sum is large enough to be recorded."""
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
        # The transport frees the buffer of a write only when its last byte has left.
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
