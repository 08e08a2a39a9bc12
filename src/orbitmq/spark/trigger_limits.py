"""How much a micro-batch has: at most so many offsets or bytes, and not before there are enough.

All limits apply together. Bytes are an estimate: the first messages of each queue's share are
looked at now and then, and their size is taken for that of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq._native import RecordColumns
from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import Cluster
from orbitmq.spark.offsets import Offsets
from orbitmq.spark.planning import share
from orbitmq.spark.source_options import Limits

__all__ = ["TriggerLimits"]

LOOK_AGAIN_S = 10.0
SAMPLED_MESSAGES = 32
PRESUMED_BYTES = 1024.0
"""The size of a message where none has been seen."""


class TriggerLimits:
    """Applies the limits of triggers, one after the other."""

    def __init__(self, limits: Limits, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._cluster = cluster
        self._clock = clock
        self._last_batch = clock()
        self._sizes: dict[MessageQueue, tuple[float, float]] = {}

    def apply(self, starts: Offsets, latest: Offsets, *, may_wait: bool) -> Offsets | None:
        """Return where the next micro-batch ends; None when there is not enough for one yet."""
        limits = self._limits
        backlogs = {
            queue: end - starts.get(queue, 0)
            for queue, end in latest.items()
            if end > starts.get(queue, 0)
        }
        total = sum(backlogs.values())
        if may_wait and limits.min_offsets is not None and 0 < total < limits.min_offsets:
            waited_ms = (self._clock() - self._last_batch) * 1000
            if waited_ms < limits.max_delay_ms:
                return None
        if total:
            self._last_batch = self._clock()
        limit = total if limits.max_offsets is None else limits.max_offsets
        if limits.max_bytes is not None and total:
            limit = min(limit, self._offsets_in(limits.max_bytes, backlogs, starts))
        # What was read so far grows by what is given out now, so turns go on after a restart, too.
        shares = share(backlogs, limit, turn=sum(starts.values()))
        ends = {queue: starts.get(queue, end) for queue, end in latest.items()}
        ends |= {queue: starts.get(queue, 0) + part for queue, part in shares.items()}
        # A queue that became shorter is not held back, so that the loss is noticed.
        ends |= {queue: end for queue, end in latest.items() if end < starts.get(queue, 0)}
        return ends

    def _offsets_in(
        self, max_bytes: int, backlogs: Mapping[MessageQueue, int], starts: Offsets
    ) -> int:
        """Return how many offsets make up so many bytes, at least one."""
        total = sum(backlogs.values())
        sizes = {queue: self._message_bytes(queue, starts.get(queue, 0)) for queue in backlogs}
        mean = sum(sizes[queue] * count for queue, count in backlogs.items()) / total
        return max(int(max_bytes / mean), 1)

    def _message_bytes(self, queue: MessageQueue, offset: int) -> float:
        until, size = self._sizes.get(queue, (0.0, 0.0))
        if until <= self._clock():
            size = self._sampled(queue, offset) or size or PRESUMED_BYTES
            self._sizes[queue] = (self._clock() + LOOK_AGAIN_S, size)
        return size

    def _sampled(self, queue: MessageQueue, offset: int) -> float:
        """Return how large messages are there, 0 when that cannot be said now."""
        try:
            body = self._cluster.sample(queue, offset, SAMPLED_MESSAGES)
        except OrbitError as error:
            if not error.retriable:
                raise
            return 0.0  # no reason to end a stream: its tasks wait for a broker that is away
        counting = RecordColumns([], max_rows=SAMPLED_MESSAGES)
        counting.append(body, verify_crc=False)  # whether bodies can be read is for the tasks
        return len(body) / counting.num_rows if counting.num_rows else 0.0
