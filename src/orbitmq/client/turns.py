"""A limit on how many sends are under way at once; the others wait in a line.

A broker that has too many requests before it refuses those that have waited for long. A program
that starts a hundred thousand sends at once should not have to know.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Turns"]


class Turns:
    """Who takes one while `free` is positive counts it down himself, else waits for his turn."""

    __slots__ = ("_line", "free")

    def __init__(self, limit: int) -> None:
        self.free = limit
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait until one of those before has ended; its place is taken over."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end()  # it came, but too late
            raise

    def end(self) -> None:
        """Give a place to the next in line."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1
