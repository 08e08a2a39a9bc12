"""Queues that a stream reads and that are not there now: for a while, or for good.

| nameservers and brokers say | it is |
| --- | --- |
| the broker is not registered, or does not answer | broker away: it may be restarting |
| the broker is there, the topic has no route to it, or it knows no such topic | topic deleted |
| the broker is there, the topic has fewer queues on it | queue removed |
| no nameserver answers | nothing: routes hold as they were (`directory`) |

Queues of a broker that is away wait where they are while the others go on. Their messages are not
lost: after `max_absence_ms` the query fails and names the broker, or waits on, as its user chose
(`data_loss`). Topics and queues that are gone are a loss: the query fails, or it is told once and
the queues wait on, in case they come back. A batch that Spark has decided on waits for all of its
queues in the same way; one that goes on without some of them leaves their part out.

A broker that restarts passes through states that look like a deleted topic: registrations are asked
for anew, routes are kept for a while, and servers are asked one after the other. So nothing is
called gone by a route from memory, nor by a broker that was not registered before and after its
route was read; and each cause has its own time, which begins when that cause is first seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import Endpoint, Reach, SourceCluster
from orbitmq.spark.offsets import OffsetBounds
from orbitmq.spark.source.data_loss import AWAY, Absence, DataLoss, place

__all__ = ["LOOK_AGAIN_S", "SURE_AFTER_S", "QueueAvailability", "Sightings"]

LOOK_AGAIN_S = 0.5
SURE_AFTER_S = 1.5


@dataclass(slots=True)
class _Sighting:
    cause: Absence
    since: float
    is_told: bool = False


class Sightings:
    """The causes that were seen for missing queues, and since when; time is given, in seconds."""

    def __init__(self, max_absence_s: float) -> None:
        self._max_absence_s = max_absence_s
        self._seen: dict[MessageQueue, _Sighting] = {}

    def see(self, queue: MessageQueue, cause: Absence | None, now: float) -> bool:
        """Note why a queue is missing; whether it is time to tell, which it is once per cause.

        None is a queue that has a route again and was not read yet. That ends what was seen of a
        topic or a queue; a broker is back when its queues can be read (`are_back`).
        """
        seen = self._seen.get(queue)
        if seen is not None and seen.is_told and seen.cause != AWAY:
            return False  # gone, whatever becomes of its broker
        if cause is None:
            if seen is not None and seen.cause != AWAY:
                del self._seen[queue]
            return False
        if seen is None or seen.cause != cause:
            seen = self._seen[queue] = _Sighting(cause, now)
        patience_s = self._max_absence_s if cause == AWAY else SURE_AFTER_S
        if seen.is_told or now - seen.since < patience_s:
            return False
        seen.is_told = True
        return True

    def are_back(self, queues: Collection[MessageQueue]) -> None:
        """Forget those of some queues that were missing; these are there."""
        for queue in [queue for queue in self._seen if queue in queues]:
            del self._seen[queue]

    def told(self, queue: MessageQueue) -> Absence | None:
        """Return the cause that was told, None while the queue may come back soon."""
        seen = self._seen.get(queue)
        return seen.cause if seen is not None and seen.is_told else None


class QueueAvailability:
    """Which queues are missing, and what follows from it."""

    def __init__(
        self,
        cluster: SourceCluster,
        losses: DataLoss,
        max_absence_ms: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._losses = losses
        self._sightings = Sightings(max_absence_ms / 1000)
        self._pause = pause
        self._look_at = 0.0

    def check(self, wanted: Mapping[MessageQueue, int], reach: Reach) -> bool:
        """Tell of queues that are missing; whether some of them may come back soon.

        `wanted` are the queues and the offsets they are read up to, `reach` is what is there. Cheap
        while nothing is missing, or when something was looked at just now.
        """
        missing = self._missing(wanted, reach)
        return any(self._sightings.told(queue) is None for queue in missing)

    def _missing(self, wanted: Mapping[MessageQueue, int], reach: Reach) -> list[MessageQueue]:
        """Return the queues that are not there, and tell of those that are missing for long."""
        missing = [queue for queue in wanted if queue not in reach.ends]
        self._sightings.are_back(reach.ends.keys())
        now = self._cluster.clock()
        if missing and now >= self._look_at:
            self._look_at = now + LOOK_AGAIN_S
            self._look(sorted(missing), wanted, reach, now)
        return missing

    def _look(
        self,
        missing: Collection[MessageQueue],
        wanted: Mapping[MessageQueue, int],
        reach: Reach,
        now: float,
    ) -> None:
        for queue, cause in self._causes(missing, reach).items():
            if not self._sightings.see(queue, cause, now) or cause is None:
                continue
            where = f"{place(queue)} from offset {wanted[queue]} on"
            if cause == AWAY:
                self._losses.is_away(where)
            else:
                self._losses.report(cause, where)

    def _causes(
        self, missing: Collection[MessageQueue], reach: Reach
    ) -> dict[MessageQueue, Absence | None]:
        """Return why queues are not there, None for those that have a route.

        Those of which nobody can say it now are left out.
        """
        cluster = self._cluster
        before = cluster.patiently(cluster.registered_brokers)
        cluster.forget_routes()  # they are kept for a while, registrations are not
        routed = {queue: self._routed(queue) for queue in missing}
        after = before
        if any(cause is not None for cause in routed.values()):
            after = cluster.patiently(cluster.registered_brokers)
        causes: dict[MessageQueue, Absence | None] = {}
        for queue in missing:
            if queue.broker_name in reach.unreachable:
                causes[queue] = AWAY
            elif (queue.topic, queue.broker_name) in reach.unknown:
                causes[queue] = "topic deleted"
            elif before is None or after is None:
                continue
            elif queue.broker_name in before and queue.broker_name in after:
                causes[queue] = routed[queue]
            else:
                causes[queue] = AWAY
        return causes

    def _routed(self, queue: MessageQueue) -> Absence | None:
        """Return what a route says of a queue whose broker is there: None if it has the queue."""
        route = self._cluster.route(queue.topic)
        if route is None or not route.brokers.get(queue.broker_name):
            return "topic deleted"
        return None if queue in route.subscribe_queues else "queue removed"

    def await_queues(
        self, wanted: Mapping[MessageQueue, int]
    ) -> tuple[dict[MessageQueue, OffsetBounds], dict[str, Endpoint]]:
        """Wait until all of some queues are there, or no other may come.

        Returns how far those that are there reach, and where their brokers are.
        """
        cluster = self._cluster
        while True:
            routed = cluster.patiently(lambda: [q for q in wanted if self._routed(q) is None])
            reach, endpoints = self._reach(routed)
            if not any(self._is_awaited(queue) for queue in self._missing(wanted, reach)):
                return reach.ends, endpoints
            self._pause(LOOK_AGAIN_S)
            cluster.forget_routes()

    def _is_awaited(self, queue: MessageQueue) -> bool:
        """Whether a batch waits for a queue that is missing."""
        told = self._sightings.told(queue)
        return told is None or (told == AWAY and self._losses.waits_for_brokers)

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
