"""The tasks of a replay that keeps gaps or a rate.

A task sends all of its rows with one call of the sink, a slice at a time: what makes a repeat
recognisable (`deduplicate`) counts the equal rows of a task, however far apart they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import functions as F

from orbitmq.spark.pipelines.pacing import Pace, due_slices

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.sink import Sink

__all__ = ["send_paced"]

START_AFTER_S = 2.0
"""Tasks that keep in step need a moment to come up."""


def send_paced(
    messages: DataFrame, sink: Sink, make_pace: Callable[..., Pace], spark: SparkSession
) -> list[tuple[str, int, int]]:
    """Send messages when they are due; returns topics with their messages and bytes."""
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

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        counts: dict[str, list[int]] = {}
        context = TaskContext.get()

        def slices() -> Iterator[pa.RecordBatch]:
            task = 0 if context is None else context.partitionId()
            for rows in due_slices(batches, pace, task=task):
                yield rows
                # Whoever asks for the next slice has sent this one.
                for topic, body in zip(rows.column("topic"), rows.column("body"), strict=True):
                    count = counts.setdefault(topic.as_py(), [0, 0])
                    count[0] += 1
                    count[1] += len(body.as_buffer() or b"")

        sink.write(slices(), at_once=True)
        names = list(counts)
        yield pa.RecordBatch.from_pydict(
            {
                "topic": pa.array(names, pa.string()),
                "messages": pa.array([counts[name][0] for name in names], pa.int64()),
                "bytes": pa.array([counts[name][1] for name in names], pa.int64()),
            }
        )

    sent = ordered.mapInArrow(send, "topic string, messages long, bytes long")
    totals = sent.groupBy("topic").agg(F.sum("messages"), F.sum("bytes")).orderBy("topic")
    return [(row[0], row[1], row[2]) for row in totals.collect()]
