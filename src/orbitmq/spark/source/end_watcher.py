"""Watches the ends of a stream's queues, with few requests while no messages arrive.

Theory of operation. With a trigger without interval, Spark calls `latestOffset` about a hundred
times a second, even while no messages are sent. As long as the ends of the queues move, `Watch`
requests them (one request per broker and topic). Once they stand still, `Watch` sends one *pull*
per queue, which the broker holds until a message arrives. Until a broker answers such a pull, no
other request is sent. The first new message is noticed at once, and then only its queue needs a new
pull. After `RECHECK_S` the cycle starts again.

```text
polling ──nothing new──► armed: a held pull per queue ──an answer, or RECHECK_S──► polling
```

So an idle stream costs each broker a request per queue every `RECHECK_S`. If a broker has more than
`MAX_HELD` queues, `Watch` requests the ends instead, at the same rate: at most two requests a
second. Nothing here runs in the background: `Watch` reads the answers of held pulls when Spark
calls `latestOffset`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import PULL_ANSWERS, RequestCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.remoting.pipeline import Pipeline
from orbitmq.spark.cluster import Reach, SourceCluster
from orbitmq.spark.offsets import OffsetBounds, Offsets

__all__ = ["Watch"]

HOLD_MS = 60_000
RECHECK_S = 55.0
"""A little less than `HOLD_MS`: the answer to an expired pull must not pass for a message."""
MIN_INTERVAL_S = 0.5
"""Least time between two requests to a broker that cannot hold the pulls."""
MAX_HELD = 100
HOLD_AGAIN_S = 600.0
"""Time before the next try after rejected pulls; a try sends many requests at once."""


class Watch:
    """Tracks the ends of a stream's queues."""

    def __init__(self, cluster: SourceCluster, find: Callable[[], list[MessageQueue]]) -> None:
        self._cluster = cluster
        self._find = find
        self.known: dict[MessageQueue, OffsetBounds] | None = None
        """Ends of the queues at the last request."""
        self.reach = Reach()
        """Result of the last request, with the brokers and topics that returned no ends."""
        self._looked_for: list[MessageQueue] = []
        self._links: dict[str, Pipeline] = {}
        self._held: dict[int, MessageQueue] = {}
        """Queues of the pulls that brokers hold, by opaque."""
        self._begin_anew_at = 0.0
        self._known_until = 0.0
        self._hold_again_at = 0.0

    def ends(self, seen: Offsets) -> Mapping[MessageQueue, OffsetBounds]:
        """Return the bounds of all queues; `seen` are offsets already read or known."""
        cluster = self._cluster
        queues = cluster.patiently(self._find)
        known = self.known
        if known is not None and queues == self._looked_for and self._is_still(seen):
            return known
        self.reach = cluster.reachable_ends(queues)
        found = self.reach.ends
        self.known, self._looked_for, self._known_until = found, queues, 0.0
        if any(reach.max_offset > seen.get(q, 0) for q, reach in found.items()):
            return found
        if self.reach.unreachable or self.reach.unknown:
            self._known_until = cluster.clock() + _interval_s(queues)
        elif found:
            self._arm(found)
        return found

    def _is_still(self, seen: Offsets) -> bool:
        """Return True if `known` is still up to date."""
        assert self.known is not None
        if self._cluster.clock() >= self._known_until:
            return False
        if any(reach.max_offset > seen.get(q, 0) for q, reach in self.known.items()):
            return True  # not all known messages are read yet, so newer ends do not matter
        try:
            answers = {
                opaque: answer
                for link in self._links.values()
                for opaque, answer in link.poll().items()
            }
        except OrbitError:
            self._disarm()
            return False
        if any(answer.code not in PULL_ANSWERS for answer in answers.values()):
            # Some broker is busy or forbids pulls: poll at an interval for a while.
            self._hold_again_at = self._cluster.clock() + HOLD_AGAIN_S
        for opaque in answers:
            self._held.pop(opaque, None)
        return not answers

    def _arm(self, found: Mapping[MessageQueue, OffsetBounds]) -> None:
        """Send a pull per queue that its broker holds until a message arrives."""
        now = self._cluster.clock()
        most = max(Counter(queue.broker_name for queue in found).values())
        interval_s = _interval_s(found)
        if now < self._hold_again_at or most > MAX_HELD:
            self._known_until = now + interval_s
            return
        if not self._held or now >= self._begin_anew_at:
            self._disarm()
            self._begin_anew_at = now + RECHECK_S
        try:
            for queue in found.keys() - set(self._held.values()):
                self._hold(queue, found[queue].max_offset)
            self._known_until = self._begin_anew_at
        except OrbitError:
            # Pulls cannot be sent: poll instead.
            self._disarm()
            self._known_until = now + interval_s

    def _hold(self, queue: MessageQueue, offset: int) -> None:
        cluster = self._cluster
        address = cluster.address(queue.topic, queue.broker_name)
        if address not in self._links:
            self._links[address] = cluster.new_pipeline(address)
        fields = cluster.pull_fields(queue, offset, 1) | {
            "sysFlag": str(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND),
            "suspendTimeoutMillis": str(HOLD_MS),
        }
        opaque = self._links[address].send(RequestCode.PULL_MESSAGE, fields)
        self._held[opaque] = queue

    def _disarm(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._held.clear()

    def close(self) -> None:
        """Close the connections, which ends the held pulls."""
        self._disarm()


def _interval_s(queues: Iterable[MessageQueue]) -> float:
    """Return the pause between requests for ends, in proportion to topics per broker.

    Each topic costs its broker one request.
    """
    topics = {(queue.broker_name, queue.topic) for queue in queues}
    return MIN_INTERVAL_S * max(Counter(broker for broker, _ in topics).values(), default=1)
