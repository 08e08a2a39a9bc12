"""Which task reads what, and how much a micro-batch has. Pure: numbers in, numbers out.

A query may do anything with a row, so all cores are to have some: queues are packed into as many
tasks as can run at once, if there are as many queues in which something waits. A task costs Spark
some milliseconds whatever it reads, a second and much memory when it is the first on a core, and
most triggers of a stream that keeps up have a few messages: a task has at least `LEAST_PER_TASK`
offsets where queues have less than that. A queue is only divided when somebody asks for more tasks
(`min_partitions`) or smaller ones (`max_records`).
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
"""So few rows may cost a query 2 ms each and still take no longer than a trigger without any."""
ONCE_LEAST_PER_TASK = 10_000
"""The same in versions whose checkpoints do not say."""


def split(
    ranges: Sequence[QueueRange], min_partitions: int | None, max_records: int | None
) -> list[QueueRange]:
    """Divide ranges until there are as many, and they are as short, as was asked for."""
    pieces = [each for each in ranges if each.count > 0]
    if max_records is not None:
        pieces = [
            part for each in pieces for part in _divide(each, math.ceil(each.count / max_records))
        ]
    missing = 0 if min_partitions is None else min_partitions - len(pieces)
    if missing <= 0 or not pieces:
        return pieces
    # The next cut always goes to the piece whose parts are the longest.
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
    """Give ranges to tasks, so that all have about as much to do; each task's are in order.

    There are no more tasks than can have `least` offsets each, unless more are asked for.
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
            # Even the emptiest task has no room left for it.
            packed.append([each])
            heapq.heappush(loads, (each.count, len(packed) - 1))
            continue
        packed[number].append(each)
        heapq.heapreplace(loads, (load + each.count, number))
    return [sorted(task, key=lambda each: (each.queue, each.start)) for task in packed]


def share(
    backlogs: Mapping[MessageQueue, int], limit: int, turn: int = 0
) -> dict[MessageQueue, int]:
    """Divide a limit among the queues in which something waits; there is at least 1 in each.

    Nobody gets more than waits there, and the shares add up to the limit if that much waits. Each
    queue gets one offset, however little it has beside the others, and the rest goes to them in
    proportion to what waits: what is left after rounding down, to those that lost most by it. A
    limit that has not one for each is given out in turns, beginning with queue number `turn`; who
    counts what was given out before has the number for the next round.

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
    # One for each; of what is to be given out beyond that, each has a right to its part.
    rest, waiting = limit - len(queues), total - len(queues)
    rights = {queue: (backlogs[queue] - 1) * rest for queue in queues}
    shares = {queue: 1 + right // waiting for queue, right in rights.items()}
    left = limit - sum(shares.values())
    for queue in sorted(queues, key=lambda queue: (-(rights[queue] % waiting), queue))[:left]:
        shares[queue] += 1
    return shares


# ---- How much a micro-batch has: at most so many offsets or bytes, and not before there are enoug
#
# All limits apply together. Bytes are an estimate: the first messages of each queue's share are
# looked at now and then, and their size is taken for that of the rest.

LOOK_AGAIN_S = 10.0
SAMPLED_MESSAGES = 32
PRESUMED_BYTES = 1024.0
"""The size of a message where none has been seen."""


class TriggerLimits:
    """Applies the limits of triggers, one after the other."""

    def __init__(
        self, limits: BatchLimits, cluster: SourceCluster, clock: Callable[[], float]
    ) -> None:
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
