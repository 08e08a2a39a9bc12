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
from collections.abc import Mapping, Sequence

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.offsets import QueueRange

__all__ = ["LEAST_PER_TASK", "ONCE_LEAST_PER_TASK", "pack", "share", "split"]

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
