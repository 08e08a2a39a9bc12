"""Division of ranges among tasks, and the size of a micro-batch.

A query may do anything with a row, so every core should get rows. Queues are packed into as many
tasks as can run at once, if as many queues have messages to read.

A task costs Spark some milliseconds whatever it reads, and a second and much memory when it is the
first on a core. Most triggers of a stream that keeps up have a few messages only. So queues with
few offsets share a task, until it has at least `LEAST_PER_TASK` offsets. A queue is only divided if
the options require more tasks (`min_partitions`) or smaller ones (`max_records`).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from orbitmq._native import RecordColumns
from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.offsets import Offsets, QueueRange
from orbitmq.spark.source.options import BatchLimits

__all__ = ["LEAST_PER_TASK", "ONCE_LEAST_PER_TASK", "TriggerLimits", "pack", "share", "split"]

LEAST_PER_TASK = 32
"""This many rows at 2 ms each take a query no longer than a trigger without rows."""
ONCE_LEAST_PER_TASK = 10_000
"""Value in older versions, whose checkpoints do not contain it."""


def split(
    ranges: Sequence[QueueRange], min_partitions: int | None, max_records: int | None
) -> list[QueueRange]:
    """Divide ranges until they are as many and as short as the arguments say."""
    pieces = [each for each in ranges if each.count > 0]
    if max_records is not None:
        pieces = [
            part for each in pieces for part in _divide(each, math.ceil(each.count / max_records))
        ]
    missing = 0 if min_partitions is None else min_partitions - len(pieces)
    if missing <= 0 or not pieces:
        return pieces
    # Each cut is made in the piece whose parts are the longest.
    cuts = [1] * len(pieces)
    longest = [(-each.count, number) for number, each in enumerate(pieces)]
    heapq.heapify(longest)
    for _ in range(missing):
        length, number = longest[0]
        if -length <= 1:
            break
        cuts[number] += 1
        heapq.heapreplace(longest, (-math.ceil(pieces[number].count / cuts[number]), number))
    return [part for each, count in zip(pieces, cuts, strict=True) for part in _divide(each, count)]


def _divide(whole: QueueRange, count: int) -> list[QueueRange]:
    if count <= 1:
        return [whole]
    bounds = [whole.start + whole.count * number // count for number in range(count + 1)]
    return [
        QueueRange(whole.queue, start, end)
        for start, end in itertools.pairwise(bounds)
        if end > start
    ]


def pack(
    ranges: Sequence[QueueRange],
    parallelism: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
    least: int = LEAST_PER_TASK,
) -> list[list[QueueRange]]:
    """Divide ranges among tasks of about equal size; the ranges of each task are sorted.

    There is at most one task per `least` offsets, unless the other arguments require more tasks.
    """
    pieces = split(ranges, min_partitions, max_records)
    if not pieces:
        return []
    total = sum(each.count for each in pieces)
    tasks = min(parallelism, math.ceil(total / least))
    if max_records is not None:
        tasks = max(tasks, math.ceil(total / max_records))
    tasks = min(max(tasks, min_partitions or 1, 1), len(pieces))
    loads = [(0, number) for number in range(tasks)]
    packed: list[list[QueueRange]] = [[] for _ in range(tasks)]
    for each in sorted(pieces, key=lambda each: (-each.count, each.queue, each.start)):
        load, number = loads[0]
        if max_records is not None and load and load + each.count > max_records:
            # Not even the smallest task has room left for this piece.
            packed.append([each])
            heapq.heappush(loads, (each.count, len(packed) - 1))
            continue
        packed[number].append(each)
        heapq.heapreplace(loads, (load + each.count, number))
    return [sorted(task, key=lambda each: (each.queue, each.start)) for task in packed]


def share(
    backlogs: Mapping[MessageQueue, int], limit: int, turn: int = 0
) -> dict[MessageQueue, int]:
    """Divide a limit among queues by their backlogs; each backlog is at least 1.

    No queue gets more than its backlog, and the shares add up to the limit if the backlogs suffice.
    Each queue gets one offset, however small its backlog is. The rest is divided in proportion to
    the backlogs. Offsets left after rounding down go to the queues that lost most by the rounding.

    If the limit is below the number of queues, the queues take turns, beginning with queue number
    `turn`. The number of offsets given out before is the `turn` of the next round.

    >>> share({MessageQueue("t", "b", 0): 300, MessageQueue("t", "b", 1): 100}, 40)
    {MessageQueue(topic='t', broker_name='b', queue_id=0): 30, \
MessageQueue(topic='t', broker_name='b', queue_id=1): 10}
    """
    total, queues = sum(backlogs.values()), sorted(backlogs)
    if total <= limit:
        return dict(backlogs)
    if limit < len(queues):
        first = turn % len(queues)
        return dict.fromkeys(queues, 0) | dict.fromkeys((queues * 2)[first : first + limit], 1)
    # One offset for each queue; each has a right to its part of the rest.
    rest, waiting = limit - len(queues), total - len(queues)
    rights = {queue: (backlogs[queue] - 1) * rest for queue in queues}
    shares = {queue: 1 + right // waiting for queue, right in rights.items()}
    left = limit - sum(shares.values())
    for queue in sorted(queues, key=lambda queue: (-(rights[queue] % waiting), queue))[:left]:
        shares[queue] += 1
    return shares


# ---- Size of a micro-batch
#
# Options limit the offsets or bytes of a micro-batch, and set a least number of messages to wait
# for. All limits apply together. Bytes are an estimate: a sample of the first messages of each
# queue's share is read every `LOOK_AGAIN_S`, and its mean size counts for the rest.

LOOK_AGAIN_S = 10.0
SAMPLED_MESSAGES = 32
PRESUMED_BYTES = 1024.0
"""Assumed size of a message in a queue without a sample."""


class TriggerLimits:
    """Applies the limits of a trigger to consecutive micro-batches."""

    def __init__(
        self, limits: BatchLimits, cluster: SourceCluster, clock: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._cluster = cluster
        self._clock = clock
        self._last_batch = clock()
        self._sizes: dict[MessageQueue, tuple[float, float]] = {}

    def apply(self, starts: Offsets, latest: Offsets, *, may_wait: bool) -> Offsets | None:
        """Return the end of the next micro-batch, None if there are not enough messages yet."""
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
        # The sum of starts grows by each batch, so turns continue after a restart, too.
        shares = share(backlogs, limit, turn=sum(starts.values()))
        ends = {queue: starts.get(queue, end) for queue, end in latest.items()}
        ends |= {queue: starts.get(queue, 0) + part for queue, part in shares.items()}
        # A queue that became shorter keeps its end before its start, so that the loss is noticed.
        ends |= {queue: end for queue, end in latest.items() if end < starts.get(queue, 0)}
        return ends

    def _offsets_in(
        self, max_bytes: int, backlogs: Mapping[MessageQueue, int], starts: Offsets
    ) -> int:
        """Return the number of offsets that make up `max_bytes`, at least one."""
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
        """Return the mean size of messages at an offset, 0 if it cannot be found out now."""
        try:
            body = self._cluster.sample(queue, offset, SAMPLED_MESSAGES)
        except OrbitError as error:
            if not error.retriable:
                raise
            return 0.0  # no error: the tasks of a stream wait for a broker that is away
        counting = RecordColumns([], max_rows=SAMPLED_MESSAGES)
        counting.append(body, verify_crc=False)  # tasks check the bodies
        return len(body) / counting.num_rows if counting.num_rows else 0.0
