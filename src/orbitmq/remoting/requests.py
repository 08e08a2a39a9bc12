"""Sent requests that wait for their responses.

A single timer serves all deadlines: one timer per request would cost more than the request.
"""

from __future__ import annotations

import asyncio

from orbitmq._native import Command
from orbitmq.errors import ConnectionLost, RequestTimeout

__all__ = ["PendingRequests"]

NEVER = float("inf")
CLOCK_TICK_S = 0.001
"""Time by which timers may run early."""


class PendingRequests:
    """The unanswered requests of one connection, by opaque id."""

    __slots__ = ("_loop", "_sweep", "_sweep_due", "_waiting", "peer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, tuple[asyncio.Future[Command], float]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_due = NEVER
        self.peer = ""
        """Address of the peer, for error texts."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, opaque: int, timeout_ms: float) -> asyncio.Future[Command]:
        """Register a request and return the future of its response."""
        future: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._loop.time() + timeout_ms / 1000
        self._waiting[opaque] = (future, deadline)
        if deadline < self._sweep_due:
            self._sweep_at(deadline)
        return future

    def settle(self, response: Command) -> bool:
        """Complete the request of a response; return False if no request waits for it."""
        waiting = self._waiting.pop(response.opaque, None)
        if waiting is None or waiting[0].done():
            return False
        waiting[0].set_result(response)
        return True

    def fail_all(self) -> None:
        """Fail all requests, because the connection is closed."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep, self._sweep_due = None, NEVER
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(f"connection to {self.peer} was closed"))
        self._waiting.clear()

    def _sweep_at(self, when: float) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep = self._loop.call_at(when, self._fail_late)
        self._sweep_due = when

    def _fail_late(self) -> None:
        """Fail the requests whose deadline has passed; set the timer for the next deadline."""
        self._sweep, self._sweep_due = None, NEVER
        now = self._loop.time() + CLOCK_TICK_S
        late = [(opaque, f) for opaque, (f, end) in self._waiting.items() if end <= now]
        for opaque, future in late:
            del self._waiting[opaque]
            if not future.done():
                text = f"{self.peer} did not answer a request in time"
                future.set_exception(RequestTimeout(text))
        if self._waiting:
            self._sweep_at(min(end for _, end in self._waiting.values()))
