"""Reads topics as a stream: the offsets of each micro-batch, and the messages in between.

Theory of operation. Spark calls `latestOffset` at every trigger and plans a batch when the offset
has moved. Spark writes the offsets of a batch to its checkpoint before it reads the batch. So after
a failure the same range is read again: `read` depends on its range and on nothing else.

The checkpoint also contains how a batch was planned (see `offsets`). The sink needs this, because
it recognises rows sent before by their partition, too. The next driver may have more or fewer
cores, and messages may have expired meanwhile.

When Spark requests the next batch from `start` on, everything before `start` is committed. At that
time progress is written to the consumer group (``commitOffsets=progress``), for display only.

Each trigger checks the routes again, from a cache for `routeCacheTtlMs`. Queues that were added
begin at their first offset. `end_watcher` decides which requests an idle stream sends to brokers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.offsets import (
    OffsetBounds,
    Offsets,
    QueueRange,
    as_json,
    begins_in,
    from_json,
    least_in,
    tasks_in,
)
from orbitmq.spark.progress_commits import ProgressCommits
from orbitmq.spark.source.availability import LOOK_AGAIN_S, QueueAvailability
from orbitmq.spark.source.batch_reader import cluster_of, losses_of, make_partitions, read_partition
from orbitmq.spark.source.data_loss import DataLoss, place
from orbitmq.spark.source.end_watcher import Watch
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.source.range_reader import Filter
from orbitmq.spark.source.start_offsets import (
    find_on_any_broker,
    find_queues,
    resolve_starting,
    settled,
    skip_expired,
)
from orbitmq.spark.source.task_plan import LEAST_PER_TASK, ONCE_LEAST_PER_TASK, TriggerLimits

__all__ = ["RocketMQStreamReader"]

Json = dict[str, Any]


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics micro-batch by micro-batch.

    The planner's process has one instance for the life of a query. Each task gets a copy of which
    only `read` is called. So objects that only the planner needs are created at their first use.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], tasks: int) -> None:
        self.options = options
        self.columns = columns
        self.tasks = tasks
        self._topics = options.topics
        self._filter = Filter(options.tags, options.sql)
        self._pinned: Offsets | None = None
        self._too_few: Offsets = {}
        self._watch: Watch | None = None
        self._absences: QueueAvailability | None = None
        self._limits: TriggerLimits | None = None
        self._commits: ProgressCommits | None = None

    def __getstate__(self) -> Json:
        # Objects with connections stay in the planner's process.
        state = self.__dict__.copy()
        return state | {"_watch": None, "_absences": None, "_limits": None, "_commits": None}

    # ---- Offsets

    def initialOffset(self) -> Json:
        """Return the first offsets of a stream that has no checkpoint."""
        options = self.options
        with options.connection.hiding_secrets():
            cluster = cluster_of(options)
            return as_json(cluster.patiently(lambda: self._first_offsets(cluster)))

    def _first_offsets(self, cluster: SourceCluster) -> Offsets:
        ends = cluster.ends(find_queues(cluster, self.options.topics))
        starts = resolve_starting(cluster, self.options, ends, losses_of(self.options))
        return skip_expired(cluster, starts, ends)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to `latestOffset`; Spark supports one at a time."""
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Return the end of the next micro-batch; `start` means that there is no batch now."""
        with self.options.connection.hiding_secrets():
            cluster, began = cluster_of(self.options), from_json(start)
            self._report(cluster, began)
            ends = self._ends(cluster, began)
            starts = self._starts(began, ends)
            batch_end = self._batch_end(cluster, starts, self._latest(began, ends), limit)
            if batch_end is None or batch_end == began:
                # Spark compares offsets as text. So a changed number of tasks is not written until
                # there is a batch.
                return start
            begins = {q: at for q, at in starts.items() if q in batch_end and at > began.get(q, 0)}
            return as_json(batch_end, self.tasks, begins, LEAST_PER_TASK)

    def _batch_end(
        self, cluster: SourceCluster, starts: Offsets, latest: Offsets, limit: ReadLimit
    ) -> Offsets | None:
        if isinstance(limit, ReadAllAvailable):
            return latest
        if self._limits is None:
            self._limits = TriggerLimits(self.options.limits, cluster, time.monotonic)
        # A stream with a fixed end (available-now) does not wait for more messages.
        batch_end = self._limits.apply(starts, latest, may_wait=self._pinned is None)
        self._too_few = latest if batch_end is None else {}
        return batch_end

    def _starts(self, began: Offsets, ends: Mapping[MessageQueue, OffsetBounds]) -> Offsets:
        """Return the first offsets of a micro-batch.

        A new queue begins at its first message. A queue whose next messages have expired begins at
        the first one left, unless the loss is an error anyway. Otherwise a stream that is far
        behind would plan batch after batch of offsets without messages.
        """
        firsts = {queue: reach.min_offset for queue, reach in ends.items()}
        if self.options.fail_on_data_loss:
            return firsts | began
        return firsts | {queue: max(at, firsts.get(queue, at)) for queue, at in began.items()}

    def _ends(self, cluster: SourceCluster, began: Offsets) -> Mapping[MessageQueue, OffsetBounds]:
        topics = self._topics = settled(self.options.topics, began)
        if self._watch is None:
            # Topics may have been deleted since the start, so none is required.
            self._watch = Watch(cluster, lambda: find_queues(cluster, self._topics, required=False))
        watch, absences = self._watch, self._absent(cluster)
        wanted = {q: offset for q, offset in began.items() if topics.has(q)}
        for queue, end in (self._pinned or {}).items():
            if topics.has(queue) and end > began.get(queue, 0):
                wanted[queue] = began.get(queue, 0)
        # `_too_few` counts as seen: brokers get no requests before more messages arrive.
        ends = watch.ends(began | self._too_few)
        # A run with a fixed end must read up to that end, so it waits for missing queues.
        while absences.check(wanted, watch.reach) and self._pinned is not None:
            time.sleep(LOOK_AGAIN_S)
            ends = watch.ends(began)
        return ends

    def _absent(self, cluster: SourceCluster) -> QueueAvailability:
        if self._absences is None:
            options = self.options
            self._absences = QueueAvailability(
                cluster, losses_of(options), options.max_broker_absence_ms
            )
        return self._absences

    def _latest(self, began: Offsets, ends: Mapping[MessageQueue, OffsetBounds]) -> Offsets:
        """Return the ends of all queues; for missing queues, the offset where reading stopped."""
        latest = dict(began)
        for queue, reach in ends.items():
            end, start = reach.max_offset, began.get(queue, 0)
            if self._pinned is not None and end > start:
                if queue not in began and queue not in self._pinned:
                    continue  # added after the start of this run
                # The broker of a begun queue may have been away when the ends were pinned.
                end = max(min(end, self._pinned.setdefault(queue, end)), start)
            # An end before the start is a loss, which `partitions` reports.
            latest[queue] = end
        return latest

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream at the present ends of all queues."""
        options = self.options
        with options.connection.hiding_secrets():
            cluster = cluster_of(options)
            queues = cluster.patiently(lambda: find_on_any_broker(cluster, options.topics))
            ends = cluster.reachable_ends(queues).ends
            self._pinned = {queue: reach.max_offset for queue, reach in ends.items()}

    def reportLatestOffset(self) -> Json | None:
        """Return the known ends of all queues, so that Spark can show the lag."""
        ends = None if self._watch is None else self._watch.known
        if ends is None:
            return None
        return as_json({queue: reach.max_offset for queue, reach in ends.items()})

    # ---- Batches

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Divide the messages between two offsets among tasks."""
        options = self.options
        with options.connection.hiding_secrets():
            cluster = cluster_of(options)
            began, stops = from_json(start), from_json(end)
            moving = {q: began.get(q, 0) for q, stop in stops.items() if stop != began.get(q)}
            ends, endpoints = self._absent(cluster).await_queues(moving)
            left = ranges_left(ends, began, stops, losses_of(options))
            begins = moving | begins_in(end)
            ranges = [QueueRange(queue, begins[queue], stops[queue]) for queue in sorted(moving)]
            # A checkpoint of an earlier version has only one of the two numbers, or none.
            tasks, least = tasks_in(end) or self.tasks, least_in(end) or ONCE_LEAST_PER_TASK
            return make_partitions(options, ranges, endpoints, tasks, left, least=least)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the messages of one task."""
        losses = losses_of(self.options, self.options.max_broker_absence_ms)
        return read_partition(self.options, self.columns, self._filter, partition, losses)

    def commit(self, end: Json) -> None:
        """Do nothing: Spark calls this a batch late, `latestOffset` gets the offsets earlier."""

    def stop(self) -> None:
        """Close the connections of this stream; the shared ones stay open for other readers."""
        for each in (self._watch, self._commits):
            if each is not None:
                each.close()

    def _report(self, cluster: SourceCluster, committed: Offsets) -> None:
        if self.options.commits == "none":
            return
        if self._commits is None:
            self._commits = ProgressCommits(cluster, time.monotonic)
        self._commits.report(committed)


def ranges_left(
    ends: Mapping[MessageQueue, OffsetBounds], began: Offsets, stops: Offsets, losses: DataLoss
) -> dict[MessageQueue, QueueRange]:
    """Return the ranges between two offsets that still exist; report missing ones as a loss."""
    ranges = {}
    for queue in sorted(ends):
        first, last = ends[queue].min_offset, ends[queue].max_offset
        start, stop = began.get(queue, first), stops[queue]
        if start > last or stop > last:
            what = f"offsets {min(start, last)} to {max(start, stop) - 1} of {place(queue)}"
            losses.report("queue shrunk", what)
            start, stop = min(start, last), min(stop, last)
        elif start < first:
            what = f"offsets {start} to {min(first, stop) - 1} of {place(queue)}"
            losses.report("expired", what)
            start = min(first, stop)
        if stop > start:
            ranges[queue] = QueueRange(queue, start, stop)
    return ranges
