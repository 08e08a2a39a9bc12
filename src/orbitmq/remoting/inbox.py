"""Bytes and requests of a peer that are not handled yet.

Bytes are parsed into commands shortly before these are handled. Commands take many times the memory
of their bytes, and parsing a whole read at once would block the loop for the whole time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from orbitmq._native import Command, FrameReader
from orbitmq.errors import WireError
from orbitmq.remoting.requests import PendingRequests

if TYPE_CHECKING:
    from orbitmq.remoting.router import Handler

__all__ = ["CUT_BYTES", "ConnectionInbox"]

CUT_BYTES = 16 << 10
REQUEST_BYTES = 512
"""Memory that a request takes in addition to its body and its ext fields."""


class ConnectionInbox:
    """Unparsed bytes and parsed requests; responses go to the requests that wait for them."""

    __slots__ = (
        "_cut_to",
        "_pending",
        "_uncut",
        "reader",
        "requests",
        "requests_bytes",
        "uncut_bytes",
    )

    def __init__(self, pending: PendingRequests) -> None:
        self._pending = pending
        self._uncut: deque[bytes] = deque()
        self._cut_to = 0
        self.reader = FrameReader()
        self.requests: deque[tuple[Command, Handler | None]] = deque()
        """Requests, with the handler of resumed requests and None for new ones."""
        self.requests_bytes = 0
        self.uncut_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.requests or self._uncut)

    @property
    def failure(self) -> WireError | None:
        """Error in the peer's bytes, or None; nothing can be cut after an error."""
        return self.reader.failure

    @property
    def kept_bytes(self) -> int:
        """Bytes of the kept requests, the incomplete one included."""
        return self.requests_bytes + self.reader.pending_bytes

    def add(self, data: bytes) -> None:
        """Keep bytes until they are parsed."""
        self._uncut.append(data)
        self.uncut_bytes += len(data)

    def cut(self) -> bool:
        """Parse the next bytes; return False if no bytes are left."""
        if not self._uncut:
            return False
        begin = self._cut_to
        data = self._uncut[0][begin : begin + CUT_BYTES]
        self._cut_to += len(data)
        self.uncut_bytes -= len(data)
        if self._cut_to == len(self._uncut[0]):
            del self._uncut[0]
            self._cut_to = 0
        self.take(self.reader.feed(data))
        if self.reader.failure is not None:
            self._drop_uncut()
        return True

    def take(self, commands: list[Command]) -> None:
        """Keep requests, and hand responses to their waiters."""
        for command in commands:
            if command.is_response:
                self._pending.settle(command)
            else:
                self.put(command, None)

    def put(self, request: Command, handler: Handler | None) -> None:
        """Keep a request."""
        self.requests.append((request, handler))
        self.requests_bytes += request.size + REQUEST_BYTES

    def next(self) -> tuple[Command, Handler | None]:
        """Return the oldest request."""
        request, handler = self.requests.popleft()
        self.requests_bytes -= request.size + REQUEST_BYTES
        return request, handler

    def drop_repeated(self) -> None:
        """Drop requests that were resumed after a wait: their peer is gone."""
        new = [request for request, handler in self.requests if handler is None]
        self.requests.clear()
        self.requests_bytes = 0
        for request in new:
            self.put(request, None)

    def clear(self) -> None:
        """Drop everything, the incomplete frame included."""
        self.reader = FrameReader()
        self.requests.clear()
        self.requests_bytes = 0
        self._drop_uncut()

    def _drop_uncut(self) -> None:
        self._uncut.clear()
        self._cut_to = self.uncut_bytes = 0
