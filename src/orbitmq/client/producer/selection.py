"""Choice of the queue for a message.

The queues of a topic take turns. The first one is random, so that producers that start together do
not all begin with the same queue. A retry goes to another broker than those that have just failed.
With the latency-fault strategy, slow brokers are passed over (see `LatencyFaults`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from orbitmq._native import java_hash
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["FAILURE_LATENCY_MS", "LatencyFaults", "QueueChooser", "by_hash"]


def by_hash(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue of all messages with this key, as Java's clients choose it."""
    return queues[abs(java_hash(key)) % len(queues)]


class QueueChooser:
    """Chooses queues for a producer's messages. Any thread may use it."""

    def __init__(self, faults: LatencyFaults | None = None) -> None:
        self._faults = faults
        self._counters: dict[str, Callable[[], int]] = {}

    def choose(
        self, topic: str, queues: Sequence[MessageQueue], avoided: Collection[str] = ()
    ) -> MessageQueue:
        """Return the next queue, if possible on a broker that is not in `avoided`."""
        count = self._counters.get(topic)
        if count is None:
            first = random.randrange(1 << 16)
            count = self._counters.setdefault(topic, itertools.count(first).__next__)
        if self._faults is not None:
            return self._choose_available(self._faults, count, queues, avoided)
        if avoided:
            queues = [queue for queue in queues if queue.broker_name not in avoided] or queues
        return queues[count() % len(queues)]

    def _choose_available(
        self,
        faults: LatencyFaults,
        count: Callable[[], int],
        queues: Sequence[MessageQueue],
        avoided: Collection[str],
    ) -> MessageQueue:
        start = count()
        untried: MessageQueue | None = None
        for step in range(len(queues)):
            queue = queues[(start + step) % len(queues)]
            if queue.broker_name in avoided:
                continue
            if faults.is_available(queue.broker_name):
                return queue
            untried = untried or queue
        if avoided and untried is not None:
            return untried
        broker = faults.least_bad()
        if broker is not None:
            of_broker = [queue for queue in queues if queue.broker_name == broker]
            if of_broker:
                return of_broker[count() % len(of_broker)]
            faults.forget(broker)
        return queues[count() % len(queues)]


# ---- Slow and failed brokers
#
# Each send records the broker's latency: the slower the broker, the longer it is passed over. A
# failure counts as 30 s. If every broker is passed over, one of the better half is used.

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
"""Least latency → time for which the broker is passed over; the first matching line applies."""


@dataclass(frozen=True, slots=True)
class _Fault:
    latency_ms: float
    available_from_s: float


class LatencyFaults:
    """Table of each broker's last latency and the time until which it is passed over."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._next = itertools.count().__next__

    def note(self, broker_name: str, latency_ms: float) -> None:
        """Record the latency of a broker."""
        isolation = next((ms for latency, ms in _ISOLATION_MS if latency_ms >= latency), 0)
        available_from_s = self._clock() + isolation / 1000
        self._faults[broker_name] = _Fault(latency_ms, available_from_s)

    def is_available(self, broker_name: str) -> bool:
        """Return True if a broker is not passed over now."""
        fault = self._faults.get(broker_name)
        return fault is None or fault.available_from_s <= self._clock()

    def least_bad(self) -> str | None:
        """Return one of the better half of the recorded brokers, in turn."""
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
        """Remove the record of a broker that has no queues any more."""
        self._faults.pop(broker_name, None)
