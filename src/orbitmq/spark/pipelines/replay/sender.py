"""The tasks of a replay: they send rows through the sink and count what they have sent.

Counting beside sending reads the source once, and what is told as sent is what was sent, however
the source has grown since it was looked at. Counts are collected as tasks have them, without a
shuffle: one that is lost would have Spark send everything again.

A task sends all of its rows with one call of the sink, a slice at a time when they are paced: what
makes a repeat recognisable (`deduplicate`) counts the equal rows of a task, however far apart they
are.
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

# ---- Sending rows when they are due, not as fast as they come
#
# Each task sends its share of the rows, in the order of their store times, through the sink.
# Before each handful it waits: until the row's time has come (the original gaps, made shorter or
# longer by the speed), and until the rate allows more. All tasks count from one moment, which the
# driver chose, so they keep in step; there must not be more of them than run at once, or some
# would start late.
#
# The rate is a limit, not an average: each row has a slot, the next one comes a fixed time after
# it and never earlier. What a gap in the past, a task that began late or a broker that stalled has
# left unused is not made up for. The tasks' slots lie between each other's.

SLICE_S = 0.05
"""Rows due within this time go together."""


@dataclass(frozen=True)
class ReplayPace:
    """When rows are due. Times are seconds since the epoch on clocks that agree."""

    start_s: float
    """When the first row is due."""
    first_ms: int = 0
    """Its store time."""
    speed: float | None = None
    """How many times faster than they were stored; None: the gaps do not matter."""
    rate: float | None = None
    """How many rows a second all tasks together may send."""
    tasks: int = 1
    """How many share the rate."""

    def due_s(self, stored_ms: int) -> float:
        """Return when a row's time has come, as far as the gaps decide."""
        if self.speed is None:
            return self.start_s
        return self.start_s + (stored_ms - self.first_ms) / 1000 / self.speed

    @property
    def slot_s(self) -> float:
        """How long a task waits at least from one row to the next."""
        return 0.0 if self.rate is None else self.tasks / self.rate

    def first_slot_s(self, task: int, now_s: float) -> float:
        """Return when the rate allows the first row of a task."""
        return max(self.start_s, now_s) + task * self.slot_s / self.tasks


def due_slices(
    batches: Iterator[pa.RecordBatch],
    pace: ReplayPace,
    *,
    task: int = 0,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Cut batches into rows that are due together, and hand each over when it is due.

    The store time is the column ``storeTimestamp``. Whoever takes a slice should send it before
    taking the next: the rate counts from when that happens.
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
"""Tasks that keep in step need a moment to come up."""


class TopicCount(NamedTuple):
    """What was found in one topic."""

    topic: str
    messages: int
    body_bytes: int
    first_ms: int
    """The earliest store time."""
    last_ms: int

    def joined(self, other: TopicCount) -> TopicCount:
        """Return the count of both parts of a topic."""
        return TopicCount(
            self.topic,
            self.messages + other.messages,
            self.body_bytes + other.body_bytes,
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
        )


_ENDED = (None, 0, 0, 0, 0)
"""The last row of a task, which has sent everything: the number of tasks is that of these."""
_COUNTS = "topic STRING, messages LONG, body_bytes LONG, first_ms LONG, last_ms LONG"


def send(messages: DataFrame, sink: Sink) -> list[TopicCount]:
    """Send messages as fast as brokers take them; returns what was sent of each topic."""
    return _sent(messages, lambda batches: batches, sink, at_once=False)


def send_paced(
    messages: DataFrame, sink: Sink, make_pace: Callable[..., ReplayPace], spark: SparkSession
) -> list[TopicCount]:
    """Send messages when they are due; returns what was sent of each topic."""
    tasks = spark.sparkContext.defaultParallelism
    first = messages.agg(F.min(F.unix_millis("storeTimestamp"))).collect()[0][0]
    if first is None:
        return []
    # Messages that go to one queue go there in order, so one task has all of them.
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
