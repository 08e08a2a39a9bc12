"""Presence of brokers: lost connections, and the time since each lost broker came back.

A broker removes a client together with its connection, and a restarted broker has no clients at
first. So its list of a group's members counts only some time after its return, when the group's
other members have sent heartbeats, too.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

__all__ = ["SETTLE_S", "Presence"]

SETTLE_S = 5.0
"""Time after a broker's return in which all members of its groups can come back, too."""


class Presence:
    """Table of brokers by address; every broker counts as present until it is lost."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lost_at: dict[str, float] = {}
        self._back_at: dict[str, float] = {}
        self._losses: Counter[str] = Counter()
        self._returns: dict[str, asyncio.Event] = {}

    def lost(self, address: str) -> bool:
        """Record the loss of the connection to a broker; return False if it was lost already."""
        if address in self._lost_at:
            return False
        self._lost_at[address] = self._clock()
        self._losses[address] += 1
        return True

    def back(self, address: str) -> float | None:
        """Record that a broker accepted a heartbeat; return for how long it was lost, or None."""
        lost_at = self._lost_at.pop(address, None)
        if lost_at is None:
            return None
        now = self._back_at[address] = self._clock()
        if (event := self._returns.pop(address, None)) is not None:
            event.set()
        return now - lost_at

    def is_away(self, address: str) -> bool:
        """Return True if the broker has accepted no heartbeat since its connection was lost."""
        return address in self._lost_at

    def is_settled(self, address: str) -> bool:
        """Return True if the broker was never lost, or has been back for long enough."""
        if address in self._lost_at:
            return False
        return self._clock() - self._back_at.get(address, float("-inf")) >= SETTLE_S

    def tenure(self, address: str) -> tuple[str, int]:
        """Return a value that changes with each loss of the broker, which voids its locks."""
        return address, self._losses[address]

    async def wait(self, address: str, timeout_s: float) -> bool:
        """Wait for a broker to come back; return False after the timeout."""
        if address not in self._lost_at:
            return True
        event = self._returns.setdefault(address, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return False
        return True
