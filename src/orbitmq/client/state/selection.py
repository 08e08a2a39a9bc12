"""Which queue a message goes to.

Queues of a topic take turns, from a random one on so that producers that start together do not all
begin with the same. A retry goes to another broker than those that have just failed. With the
latency-fault strategy brokers that were slow are passed over (see `faults`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Sequence

from orbitmq._native import java_hash
from orbitmq.client.state.faults import LatencyFaults
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["QueueChooser", "by_hash"]


def by_hash(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue of all messages with this key, the same that Java's clients choose."""
    return queues[abs(java_hash(key)) % len(queues)]


class QueueChooser:
    """Chooses queues for a producer's messages. May be used by any thread."""

    def __init__(self, faults: LatencyFaults | None = None) -> None:
        self._faults = faults
        self._counters: dict[str, Callable[[], int]] = {}

    def choose(
        self, topic: str, queues: Sequence[MessageQueue], avoided: Collection[str] = ()
    ) -> MessageQueue:
        """Return the next queue, on a broker that is not to be avoided if there is one."""
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
