"""Queues that a stream reads and that are not there now: for a while, or for good.

| what nameservers and brokers say | it is |
| --- | --- |
| the broker is not registered, or does not answer | away: it may be restarting; gone, in the end |
| the broker is there, the topic has no route to it, or it knows no such topic | topic deleted |
| the broker is there, the topic has fewer queues on it | queue removed |
| no nameserver answers | nothing: routes hold as they were (`directory`) |

Queues of a broker that is away wait where they are while the others go on; after `max_absence_ms`
the broker counts as gone. A topic that is missing is looked at twice before it counts as deleted,
because a nameserver may be a moment behind. Either is a loss (`data_loss`): the query fails, or it
is told once and the queues wait on, in case they come back. A batch that Spark has decided on waits
for all of its queues in the same way; one that goes on without some of them leaves their part out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import Cluster, Endpoint, Reach
from orbitmq.spark.data_loss import Cause, DataLoss, place
from orbitmq.spark.offsets import QueueEnds

__all__ = ["Absences"]

LOOK_AGAIN_S = 0.5
SURE_AFTER_S = 1.5


class Absences:
    """Which queues are missing, since when, and what follows from it."""

    def __init__(
        self,
        cluster: Cluster,
        losses: DataLoss,
        max_absence_ms: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._losses = losses
        self._max_absence_s = max_absence_ms / 1000
        self._pause = pause
        self._since: dict[MessageQueue, float] = {}
        self._told: set[MessageQueue] = set()
        self._look_at = 0.0

    def check(self, wanted: Mapping[MessageQueue, int], reach: Reach) -> bool:
        """Tell of queues that are gone; whether there are others that may come back soon.

        `wanted` are the queues and the offsets they are read up to, `reach` is what is there. Cheap
        while nothing is missing, or when something was looked at just now.
        """
        missing = [queue for queue in wanted if queue not in reach.ends]
        # Those that nobody asks about now, because others have a batch of their own, stay missing.
        for queue in (wanted.keys() & self._since.keys()) - set(missing):
            del self._since[queue]
            self._told.discard(queue)
        now = self._cluster.clock()
        if missing and now >= self._look_at:
            self._look_at = now + LOOK_AGAIN_S
            self._look(sorted(missing), wanted, reach, now)
        return any(queue not in self._told for queue in missing)

    def _look(
        self,
        missing: Iterable[MessageQueue],
        wanted: Mapping[MessageQueue, int],
        reach: Reach,
        now: float,
    ) -> None:
        cluster = self._cluster
        registered = cluster.patiently(cluster.registered_brokers)
        for queue in missing:
            since = self._since.setdefault(queue, now)
            cause = self._cause(queue, registered, reach)
            if cause is None or queue in self._told:
                continue
            patience_s = self._max_absence_s if cause == "broker gone" else SURE_AFTER_S
            if now - since >= patience_s:
                self._told.add(queue)
                self._losses.report(cause, f"{place(queue)} from offset {wanted[queue]} on")

    def _cause(
        self, queue: MessageQueue, registered: Collection[str] | None, reach: Reach
    ) -> Cause | None:
        """Return why a queue is not there, None if it is again or nobody knows."""
        if queue.broker_name in reach.unreachable:
            return "broker gone"
        if (queue.topic, queue.broker_name) in reach.unknown:
            return "topic deleted"
        if registered is None:
            return None
        if queue.broker_name not in registered:
            return "broker gone"
        if self._has_route(queue):
            return None
        route = self._cluster.route(queue.topic)
        if route is None or not route.brokers.get(queue.broker_name):
            return "topic deleted"
        return "queue removed"

    def _has_route(self, queue: MessageQueue) -> bool:
        route = self._cluster.route(queue.topic)
        return route is not None and queue in route.subscribe_queues

    def await_queues(
        self, wanted: Mapping[MessageQueue, int]
    ) -> tuple[dict[MessageQueue, QueueEnds], dict[str, Endpoint]]:
        """Wait until all of some queues are there, or no other may come.

        Returns how far those that are there reach, and where their brokers are.
        """
        cluster = self._cluster
        while True:
            routed = cluster.patiently(lambda: [q for q in wanted if self._has_route(q)])
            reach, endpoints = self._reach(routed)
            if not self.check(wanted, reach):
                return reach.ends, endpoints
            self._pause(LOOK_AGAIN_S)
            cluster.forget_routes()

    def _reach(self, queues: Iterable[MessageQueue]) -> tuple[Reach, dict[str, Endpoint]]:
        """Return how far queues reach and where their brokers are, of those who tell both."""
        cluster = self._cluster
        reach, endpoints = cluster.reachable_ends(queues), {}
        for broker, topic in {queue.broker_name: queue.topic for queue in reach.ends}.items():
            try:
                endpoints[broker] = cluster.endpoint(topic, broker)
            except OrbitError as error:
                if not error.retriable:
                    raise
                reach.unreachable.add(broker)
        reach.ends = {q: end for q, end in reach.ends.items() if q.broker_name in endpoints}
        return reach, endpoints
