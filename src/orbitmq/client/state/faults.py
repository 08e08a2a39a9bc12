"""Brokers to keep away from for a while, because they were slow or failed.

Each send leaves the broker's latency; the slower it was, the longer the broker is passed over. A
failure counts as 30 s. When no broker is left, one of the better half is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["FAILURE_LATENCY_MS", "LatencyFaults"]

FAILURE_LATENCY_MS = 30_000.0

_ISOLATION_MS = (
    (15_000, 600_000),
    (3_000, 180_000),
    (2_000, 120_000),
    (1_000, 60_000),
    (550, 30_000),
    (100, 0),
    (50, 0),
)
"""From this latency on → passed over for so long; the first line that fits."""


@dataclass(frozen=True, slots=True)
class _Fault:
    latency_ms: float
    available_from_s: float


class LatencyFaults:
    """What the last sends to each broker say of it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._next = itertools.count().__next__

    def note(self, broker_name: str, latency_ms: float) -> None:
        """Take down how long a broker took."""
        isolation = next((ms for latency, ms in _ISOLATION_MS if latency_ms >= latency), 0)
        available_from_s = self._clock() + isolation / 1000
        self._faults[broker_name] = _Fault(latency_ms, available_from_s)

    def is_available(self, broker_name: str) -> bool:
        """Whether nothing speaks against a broker now."""
        fault = self._faults.get(broker_name)
        return fault is None or fault.available_from_s <= self._clock()

    def least_bad(self) -> str | None:
        """Return one of the better half of the brokers that were noted, in turn."""
        now = self._clock()
        ranked = sorted(
            self._faults.items(),
            key=lambda item: (
                item[1].available_from_s > now,
                item[1].latency_ms,
                item[1].available_from_s,
            ),
        )
        if not ranked:
            return None
        return ranked[self._next() % max(len(ranked) // 2, 1)][0]

    def forget(self, broker_name: str) -> None:
        """Drop what was noted of a broker that has no queues any more."""
        self._faults.pop(broker_name, None)
