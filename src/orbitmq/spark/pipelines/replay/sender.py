"""Tasks of a replay: send rows through the sink and count the sent rows.

The tasks count while they send. The source is therefore read only once, and the counts are those of
sent messages even if the source has grown in the meantime. The tasks return their counts directly,
without a shuffle, because Spark would send all messages again after the loss of a shuffle file.

A task sends all of its rows with one call of the sink, in slices if they are paced. The option
`deduplicate` requires this: it recognises repeats by counting the equal rows of a task, at any
distance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql import functions as F

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.sink.writer import Sink

__all__ = ["ReplayPace", "TopicCount", "due_slices", "send", "send_paced"]

# ---- Paced sending
#
# Each task sends its share of the rows, in the order of their store times, through the sink. Before
# each slice the task waits until the first row is due and until the rate allows more rows. A row is
# due after its original gap, scaled by the speed. All tasks count from one start time, which the
# driver chose, so they keep in step. The number of tasks must not exceed the number that can run at
# once, because some tasks would start late.
#
# The rate is a limit, not an average. Each row has a slot, and the next slot follows after a fixed
# time, never earlier. Slots that stay unused after a gap in the past, a late start of a task or a
# stalled broker are not made up for. The slots of the tasks alternate.

SLICE_S = 0.05
"""Rows that are due within this time are sent together."""


@dataclass(frozen=True)
class ReplayPace:
    """Schedule of rows. Times are seconds since the epoch; all machines need the same time."""

    start_s: float
    """Time at which the first row is due."""
    first_ms: int = 0
    """Store time of the first row."""
    speed: float | None = None
    """Factor by which the original gaps become shorter; None ignores the gaps."""
    rate: float | None = None
    """Maximum number of rows per second that all tasks together send; None is no limit."""
    tasks: int = 1
    """Number of tasks that share the rate."""

    def due_s(self, stored_ms: int) -> float:
        """Return the time at which a row is due according to the original gaps."""
        if self.speed is None:
            return self.start_s
        return self.start_s + (stored_ms - self.first_ms) / 1000 / self.speed

    @property
    def slot_s(self) -> float:
        """Minimum time in seconds between two rows of the same task."""
        return 0.0 if self.rate is None else self.tasks / self.rate

    def first_slot_s(self, task: int, now_s: float) -> float:
        """Return the time at which the rate allows the first row of a task."""
        return max(self.start_s, now_s) + task * self.slot_s / self.tasks


def due_slices(
    batches: Iterator[pa.RecordBatch],
    pace: ReplayPace,
    *,
    task: int = 0,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Cut batches into slices of rows that are due together, and yield each slice when it is due.

    The store time is the column ``storeTimestamp``. The caller should send a slice before it takes
    the next one, because the rate counts from that moment.
    """
    import pyarrow as pa

    allowed = pace.first_slot_s(task, now())
    for batch in batches:
        stored = batch.column("storeTimestamp").cast(pa.int64()).to_pylist()
        begin = 0
        while begin < batch.num_rows:
            due = max(pace.due_s(stored[begin] // 1000), allowed)
            if (wait := due - now()) > 0:
                sleep(wait)
            slot = max(due, now())
            limit = slot + SLICE_S
            end = begin + 1
            while end < batch.num_rows:
                following = max(pace.due_s(stored[end] // 1000), slot + pace.slot_s)
                if following > limit:
                    break
                slot = following
                end += 1
            allowed = slot + pace.slot_s
            yield batch.slice(begin, end - begin)
            begin = end


START_AFTER_S = 2.0
"""Time until the first row is due; all tasks must have started by then to keep in step."""


class TopicCount(NamedTuple):
    """Number, sizes and store times of the messages of one topic."""

    topic: str
    messages: int
    body_bytes: int
    first_ms: int
    """Earliest store time."""
    last_ms: int

    def joined(self, other: TopicCount) -> TopicCount:
        """Return the sum of the counts of two parts of a topic."""
        return TopicCount(
            self.topic,
            self.messages + other.messages,
            self.body_bytes + other.body_bytes,
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
        )


_ENDED = (None, 0, 0, 0, 0)
"""Last row of a task that has sent all of its messages; the number of tasks is counted by it."""
_COUNTS = "topic STRING, messages LONG, body_bytes LONG, first_ms LONG, last_ms LONG"


def send(messages: DataFrame, sink: Sink) -> list[TopicCount]:
    """Send messages as fast as brokers accept them; return the counts of sent messages by topic."""
    return _sent(messages, lambda batches: batches, sink, at_once=False)


def send_paced(
    messages: DataFrame, sink: Sink, make_pace: Callable[..., ReplayPace], spark: SparkSession
) -> list[TopicCount]:
    """Send messages when they are due; return the counts of sent messages by topic."""
    tasks = spark.sparkContext.defaultParallelism
    first = messages.agg(F.min(F.unix_millis("storeTimestamp"))).collect()[0][0]
    if first is None:
        return []
    # Messages for one queue must be sent in order, so one task sends all of them.
    keys = [name for name in ("topic", "brokerName", "queueId") if name in messages.columns]
    kept = "queueId" in keys
    spread = messages.repartition(tasks, *keys) if kept else messages.repartition(tasks)
    ordered = spread.sortWithinPartitions("storeTimestamp", "queueOffset")
    pace = make_pace(start_s=time.time() + START_AFTER_S, first_ms=first, tasks=tasks)

    def due(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        return due_slices(batches, pace, task=0 if context is None else context.partitionId())

    return _sent(ordered, due, sink, at_once=True)


def _sent(
    messages: DataFrame,
    due: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    sink: Sink,
    *,
    at_once: bool,
) -> list[TopicCount]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        counts: dict[str, TopicCount] = {}

        def counted() -> Iterator[pa.RecordBatch]:
            for rows in due(batches):
                _add(counts, _counts(rows))
                yield rows

        sink.write(counted(), at_once=at_once)
        columns = list(zip(*counts.values(), _ENDED, strict=True))
        types = (pa.string(), *[pa.int64()] * 4)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(TopicCount._fields))

    totals: dict[str, TopicCount] = {}
    rows = messages.mapInArrow(task, _COUNTS).collect()
    _add(totals, (TopicCount(*row) for row in rows if row[0] is not None))
    if totals:
        tasks = sum(row[0] is None for row in rows)
        sink.note_run(totals, tasks, range(tasks))
    return [totals[topic] for topic in sorted(totals)]


def _counts(rows: pa.RecordBatch) -> Iterator[TopicCount]:
    import pyarrow as pa
    from pyarrow import compute

    sizes = compute.binary_length(rows.column("body"))
    stored = rows.column("storeTimestamp").cast(pa.int64())
    table = pa.table({"topic": rows.column("topic"), "size": sizes, "stored": stored})
    wished = [("size", "sum"), ("stored", "min"), ("stored", "max"), ([], "count_all")]
    for row in table.group_by("topic").aggregate(wished).to_pylist():
        first, last = (row[name] // 1000 for name in ("stored_min", "stored_max"))
        yield TopicCount(row["topic"], row["count_all"], row["size_sum"] or 0, first, last)


def _add(totals: dict[str, TopicCount], counts: Iterable[TopicCount]) -> None:
    for count in counts:
        known = totals.get(count.topic)
        totals[count.topic] = count if known is None else known.joined(count)
