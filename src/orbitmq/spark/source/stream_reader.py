"""Reading what is to come: offsets per micro-batch, and what is in between.

Theory of operation. Spark asks for the latest offset at every trigger and plans a batch when it
has moved. The offsets of a batch are written to Spark's checkpoint before it is read, so after a
failure the same range is read again: `read` depends on its range and on nothing else. How a batch
was planned is written along with them (see `offsets`), because the sink tells rows it has sent
before by their partition, too; the next driver may have more cores or fewer, and messages may have
expired meanwhile. When Spark asks for the next batch from `start` on, everything before it is
committed; that is when progress is reported to the consumer group (``commitOffsets=progress``), for
display only.

Routes are looked at anew at each trigger (for `routeCacheTtlMs` from memory): queues that were
added begin at their first offset. What a stream asks brokers while nothing happens is the business
of `watching`.
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

    The planner's process has one of these for the life of a query; each task gets a copy that only
    ever calls `read`, so what the planner alone needs is made when it is first used.
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
        # What has connections stays with the planner.
        state = self.__dict__.copy()
        return state | {"_watch": None, "_absences": None, "_limits": None, "_commits": None}

    # ---- offsets

    def initialOffset(self) -> Json:
        """Return where the stream begins when there is no checkpoint."""
        options = self.options
        with options.connection.hiding_secrets():
            cluster = cluster_of(options)
            return as_json(cluster.patiently(lambda: self._first_offsets(cluster)))

    def _first_offsets(self, cluster: SourceCluster) -> Offsets:
        ends = cluster.ends(find_queues(cluster, self.options.topics))
        starts = resolve_starting(cluster, self.options, ends, losses_of(self.options))
        return skip_expired(cluster, starts, ends)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark hands to `latestOffset`; it knows one at a time."""
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Return where the next micro-batch ends, `start` if there is to be none now."""
        with self.options.connection.hiding_secrets():
            cluster, began = cluster_of(self.options), from_json(start)
            self._report(cluster, began)
            ends = self._ends(cluster, began)
            starts = self._starts(began, ends)
            batch_end = self._batch_end(cluster, starts, self._latest(began, ends), limit)
            if batch_end is None or batch_end == began:
                # Spark takes another text for another offset, so a number of tasks that has
                # changed waits for a batch to go with.
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
        # A stream that catches up does not wait for more to come.
        batch_end = self._limits.apply(starts, latest, may_wait=self._pinned is None)
        self._too_few = latest if batch_end is None else {}
        return batch_end

    def _starts(self, began: Offsets, ends: Mapping[MessageQueue, OffsetBounds]) -> Offsets:
        """Return where a micro-batch begins.

        That is where new queues have their first message. Where messages have expired it is the
        first that is left, unless the loss is an error anyway: otherwise a stream that is far
        behind would take batch after batch of offsets that have nothing.
        """
        firsts = {queue: reach.min_offset for queue, reach in ends.items()}
        if self.options.fail_on_data_loss:
            return firsts | began
        return firsts | {queue: max(at, firsts.get(queue, at)) for queue, at in began.items()}

    def _ends(self, cluster: SourceCluster, began: Offsets) -> Mapping[MessageQueue, OffsetBounds]:
        topics = self._topics = settled(self.options.topics, began)
        if self._watch is None:
            # Topics may be gone by then.
            self._watch = Watch(cluster, lambda: find_queues(cluster, self._topics, required=False))
        watch, absences = self._watch, self._absent(cluster)
        wanted = {q: offset for q, offset in began.items() if topics.has(q)}
        for queue, end in (self._pinned or {}).items():
            if topics.has(queue) and end > began.get(queue, 0):
                wanted[queue] = began.get(queue, 0)
        # What was too little for a batch has been seen: there is nothing to ask before more comes.
        ends = watch.ends(began | self._too_few)
        # A run up to a fixed end may not be over before it has been there.
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
        """Return the ends of all queues; of those that are not there now, where reading stopped."""
        latest = dict(began)
        for queue, reach in ends.items():
            end, start = reach.max_offset, began.get(queue, 0)
            if self._pinned is not None and end > start:
                if queue not in began and queue not in self._pinned:
                    continue  # came too late for this run
                # The broker of a queue that was begun may have been away when all were pinned.
                end = max(min(end, self._pinned.setdefault(queue, end)), start)
            # An end before the start is a loss: planning the batch tells of it.
            latest[queue] = end
        return latest

    def prepareForTriggerAvailableNow(self) -> None:
        """Take the ends of all queues as they are now for the end of the stream."""
        options = self.options
        with options.connection.hiding_secrets():
            cluster = cluster_of(options)
            queues = cluster.patiently(lambda: find_on_any_broker(cluster, options.topics))
            ends = cluster.reachable_ends(queues).ends
            self._pinned = {queue: reach.max_offset for queue, reach in ends.items()}

    def reportLatestOffset(self) -> Json | None:
        """Return the ends of all queues, as far as they are known, so that lag can be shown."""
        ends = None if self._watch is None else self._watch.known
        if ends is None:
            return None
        return as_json({queue: reach.max_offset for queue, reach in ends.items()})

    # ---- batches

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Divide what lies between two offsets among tasks."""
        options = self.options
        with options.connection.hiding_secrets():
            cluster = cluster_of(options)
            began, stops = from_json(start), from_json(end)
            moving = {q: began.get(q, 0) for q, stop in stops.items() if stop != began.get(q)}
            ends, endpoints = self._absent(cluster).await_queues(moving)
            left = ranges_left(ends, began, stops, losses_of(options))
            begins = moving | begins_in(end)
            ranges = [QueueRange(queue, begins[queue], stops[queue]) for queue in sorted(moving)]
            # A checkpoint of an earlier version says one of them or none.
            tasks, least = tasks_in(end) or self.tasks, least_in(end) or ONCE_LEAST_PER_TASK
            return make_partitions(options, ranges, endpoints, tasks, left, least=least)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read one task's share."""
        losses = losses_of(self.options, self.options.max_broker_absence_ms)
        return read_partition(self.options, self.columns, self._filter, partition, losses)

    def commit(self, end: Json) -> None:
        """Do nothing: this comes a batch late, `latestOffset` knows earlier."""

    def stop(self) -> None:
        """Let go of the connections of this stream; others share the rest."""
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
    """Return what lies between two offsets and is still there; what is not, is told as a loss."""
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
