"""How far queues reach, asked of brokers only when something has happened.

Theory of operation. With a trigger of no interval Spark asks for the latest offset about a hundred
times a second, also while nothing is sent. Here the ends of the queues are asked for as long as
they move (one request per broker and topic). Once they stand still, one *pull* per queue is sent
that the broker holds until a message arrives there, and until one is answered nothing else is
asked. So an idle stream costs a request per queue every `RECHECK_S`, and the first new message is
noticed at once.

```text
asking ──nothing new──► armed: a held pull per queue ──an answer, or RECHECK_S──► asking
```

Nothing here runs in the background: held pulls are looked at when Spark asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.remoting.pipeline import Pipeline
from orbitmq.spark.cluster import Cluster
from orbitmq.spark.offsets import Offsets, QueueEnds

__all__ = ["Watch"]

HOLD_MS = 60_000
RECHECK_S = 55.0
"""A little earlier than brokers let go, so that no answer of theirs is taken for a message."""
MIN_INTERVAL_S = 0.5
"""How often to ask at most where pulls cannot be held."""


_HOLDING = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class Watch:
    """The ends of a stream's queues."""

    def __init__(self, cluster: Cluster, find: Callable[[], list[MessageQueue]]) -> None:
        self._cluster = cluster
        self._find = find
        self.known: dict[MessageQueue, QueueEnds] | None = None
        """The ends as they were last seen."""
        self._armed: dict[str, Pipeline] = {}
        self._recheck_at = 0.0
        self._can_hold = True

    def ends(self, began: Offsets) -> Mapping[MessageQueue, QueueEnds]:
        """Return how far all queues reach; `began` is what has been read already."""
        cluster = self._cluster
        queues = cluster.patiently(self._find)
        known = self.known
        if known is not None and set(queues) == known.keys() and self._is_still(began):
            return known
        self._disarm()
        self.known = found = cluster.patiently(lambda: cluster.ends(self._find()))
        self._recheck_at = 0.0
        if found and all(reach.max_offset <= began.get(q, 0) for q, reach in found.items()):
            self._arm(found)
        return found

    def _is_still(self, began: Offsets) -> bool:
        """Whether the ends as known are the ends."""
        assert self.known is not None
        if self._cluster.clock() >= self._recheck_at:
            return False
        if any(reach.max_offset > began.get(q, 0) for q, reach in self.known.items()):
            return True  # not all of it is read yet, so there is no need to know of more
        try:
            answers = [each for link in self._armed.values() for each in link.poll().values()]
        except OrbitError:
            return False
        if any(answer.code not in _HOLDING for answer in answers):
            self._can_hold = False  # whoever may not pull is asked now and then instead
        return not answers

    def _arm(self, found: Mapping[MessageQueue, QueueEnds]) -> None:
        """Have brokers tell when something arrives."""
        cluster = self._cluster
        self._recheck_at = cluster.clock() + (RECHECK_S if self._can_hold else MIN_INTERVAL_S)
        if not self._can_hold:
            return
        try:
            for queue, reach in found.items():
                address = cluster.address(queue.topic, queue.broker_name)
                if address not in self._armed:
                    self._armed[address] = cluster.new_pipeline(address)
                fields = cluster.pull_fields(queue, reach.max_offset, 1) | {
                    "sysFlag": str(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND),
                    "suspendTimeoutMillis": str(HOLD_MS),
                }
                self._armed[address].send(RequestCode.PULL_MESSAGE, fields)
        except OrbitError:
            # Whoever cannot be watched is asked.
            self._disarm()
            self._recheck_at = cluster.clock() + MIN_INTERVAL_S

    def _disarm(self) -> None:
        for link in self._armed.values():
            link.close()
        self._armed.clear()

    def close(self) -> None:
        """Watch no more."""
        self._disarm()
