"""The brokers that a client has lost its connection to, and for how long the others have been back.

A broker forgets a client together with its connection, and a broker that starts anew knows nobody
at first. So what it says of a group counts only a while after it is back, when the group's other
members have announced themselves, too.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

__all__ = ["SETTLE_S", "Presence"]

SETTLE_S = 5.0
"""Time that a broker which is back gives to all members of its groups to come back, too."""


class Presence:
    """Brokers by address; every broker counts as present until it is lost."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lost_at: dict[str, float] = {}
        self._back_at: dict[str, float] = {}
        self._losses: Counter[str] = Counter()
        self._returns: dict[str, asyncio.Event] = {}

    def lost(self, address: str) -> bool:
        """Note that the connection to a broker is gone; True if that is news."""
        if address in self._lost_at:
            return False
        self._lost_at[address] = self._clock()
        self._losses[address] += 1
        return True

    def back(self, address: str) -> float | None:
        """Note that a broker has taken a heartbeat; returns how long it was away, if it was."""
        lost_at = self._lost_at.pop(address, None)
        if lost_at is None:
            return None
        now = self._back_at[address] = self._clock()
        if (event := self._returns.pop(address, None)) is not None:
            event.set()
        return now - lost_at

    def is_away(self, address: str) -> bool:
        """Return True if the broker has taken no heartbeat since its connection was lost."""
        return address in self._lost_at

    def is_settled(self, address: str) -> bool:
        """Return True if the broker was never lost, or has been back for long enough."""
        if address in self._lost_at:
            return False
        return self._clock() - self._back_at.get(address, float("-inf")) >= SETTLE_S

    def tenure(self, address: str) -> tuple[str, int]:
        """Return a value that changes with every loss of the broker: a lock is one tenure's."""
        return address, self._losses[address]

    async def wait(self, address: str, timeout_s: float) -> bool:
        """Wait for a broker to come back; returns whether it has."""
        if address not in self._lost_at:
            return True
        event = self._returns.setdefault(address, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return False
        return True
