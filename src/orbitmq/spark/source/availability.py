"""Finds out why queues of a stream are missing: for a while, or for good.

| answers of nameservers and brokers | cause |
| --- | --- |
| the broker is not registered, or does not answer | broker away: it may be restarting |
| the broker is there; the topic has no route to it, or is unknown to it | topic deleted |
| the broker is there, the topic has fewer queues on it | queue removed |
| no nameserver answers | none: the routes stay as they were (`nameserver_cache`) |

Queues of a broker that is away keep their offsets, and the other queues continue. Their messages
are not lost: after `max_absence_ms` the query fails and names the broker, or keeps waiting, as the
options say (`data_loss`). Deleted topics and removed queues are a loss: the query fails, or logs
one warning and keeps waiting, in case the queues come back. A batch that Spark has planned waits
for all of its queues in the same way. A batch that continues without some queues leaves their part
out.

A broker that restarts passes through states that look like a deleted topic. Registrations are
requested each time, routes are cached for a while, and servers answer one after the other. So a
cached route never proves that a queue is gone. Neither does a route whose broker was not registered
both before and after the route was read. Each cause has its own waiting time, which begins when
that cause is first seen.
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
    """Table of missing queues: the cause seen for each, and since when; times are in seconds."""

    def __init__(self, max_absence_s: float) -> None:
        self._max_absence_s = max_absence_s
        self._seen: dict[MessageQueue, _Sighting] = {}

    def see(self, queue: MessageQueue, cause: Absence | None, now: float) -> bool:
        """Note why a queue is missing; return True, once per cause, if it is time to report it.

        The cause None means that the queue has a route again and was not read yet. This ends a
        deleted topic or a removed queue. An absence of a broker ends when its queues can be read
        (`are_back`).
        """
        seen = self._seen.get(queue)
        if seen is not None and seen.is_told and seen.cause != AWAY:
            return False  # reported as a loss, whatever happens to its broker
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
        """Forget the causes of these queues, because they are available."""
        for queue in [queue for queue in self._seen if queue in queues]:
            del self._seen[queue]

    def told(self, queue: MessageQueue) -> Absence | None:
        """Return the cause that was reported, None while the queue may come back soon."""
        seen = self._seen.get(queue)
        return seen.cause if seen is not None and seen.is_told else None


class QueueAvailability:
    """Tracks missing queues and reports each cause once."""

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
        """Report missing queues; return True if some of them may come back soon.

        `wanted` maps the queues to the next offset to read, `reach` has the available queues. A
        call is cheap while no queue is missing, or shortly after the last check of missing queues.
        """
        missing = self._missing(wanted, reach)
        return any(self._sightings.told(queue) is None for queue in missing)

    def _missing(self, wanted: Mapping[MessageQueue, int], reach: Reach) -> list[MessageQueue]:
        """Return the missing queues, and report those that are missing for too long."""
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
        """Return why queues are missing; None for queues that have a route.

        Queues whose cause is unknown for now are left out.
        """
        cluster = self._cluster
        before = cluster.patiently(cluster.registered_brokers)
        cluster.forget_routes()  # routes are cached for a while, registrations are not
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
        """Return what is missing of a queue whose broker is there, None if its route has it."""
        route = self._cluster.route(queue.topic)
        if route is None or not route.brokers.get(queue.broker_name):
            return "topic deleted"
        return None if queue in route.subscribe_queues else "queue removed"

    def await_queues(
        self, wanted: Mapping[MessageQueue, int]
    ) -> tuple[dict[MessageQueue, OffsetBounds], dict[str, Endpoint]]:
        """Wait until all queues are available, or no further one can be expected.

        Returns the bounds of the available queues, and the endpoints of their brokers.
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
        """Return True if a batch waits for a missing queue."""
        told = self._sightings.told(queue)
        return told is None or (told == AWAY and self._losses.waits_for_brokers)

    def _reach(self, queues: Iterable[MessageQueue]) -> tuple[Reach, dict[str, Endpoint]]:
        """Return bounds and endpoints of the queues whose brokers return both."""
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
