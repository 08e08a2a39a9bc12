"""Reads topics as a batch, from a start to an end that are fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import Endpoint, SourceCluster, shared_cluster
from orbitmq.spark.offsets import QueueRange
from orbitmq.spark.pushdown_switch import check_switch
from orbitmq.spark.source.data_loss import DataLoss
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.source.range_reader import Filter, PullSettings, RangeReader, ahead
from orbitmq.spark.source.start_offsets import (
    find_queues,
    resolve_ending,
    resolve_starting,
    skip_expired,
)
from orbitmq.spark.source.task_plan import LEAST_PER_TASK, pack
from orbitmq.spark.worker import tune_worker

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QueuePartition", "RocketMQBatchReader", "batch_reader", "cluster_of", "read_partition"]


@dataclass
class QueuePartition(InputPartition):
    """Ranges that one task reads, with the endpoints of their brokers."""

    ranges: list[QueueRange]
    endpoints: dict[str, Endpoint]

    def __init__(self, ranges: list[QueueRange], endpoints: dict[str, Endpoint]) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.endpoints = endpoints


def cluster_of(options: SourceOptions) -> SourceCluster:
    """Return this process's view of the cluster that the options name."""
    return shared_cluster(
        options.connection,
        options.group,
        options.retries,
        options.retry_interval_ms,
        options.route_ttl_ms,
    )


def losses_of(options: SourceOptions, max_absence_ms: int | None = None) -> DataLoss:
    """Return the rules for lost messages and unavailable brokers that the options set."""
    return DataLoss(
        fail=options.fail_on_data_loss,
        retries=options.retries,
        retry_interval_ms=options.retry_interval_ms,
        max_absence_ms=max_absence_ms,
        when_away=options.when_broker_away,
        hide=options.connection.hide_secrets,
    )


def make_partitions(
    options: SourceOptions,
    ranges: list[QueueRange],
    endpoints: Mapping[str, Endpoint],
    tasks: int,
    left: Mapping[MessageQueue, QueueRange] | None = None,
    least: int = LEAST_PER_TASK,
) -> list[QueuePartition]:
    """Divide ranges among tasks, with the endpoints, so that tasks need no nameserver.

    `left` is the part of the ranges that still exists, if that may be less. Each task keeps its
    part of it, even an empty one, so that the parts of the other tasks do not change.
    """
    packed = pack(ranges, tasks, options.min_partitions, options.max_records_per_partition, least)
    if left is not None:
        packed = [
            [each.within(left[each.queue]) for each in task if each.queue in left]
            for task in packed
        ]
        packed = [[each for each in task if each.count] for task in packed]
    return [
        QueuePartition(
            task, {name: endpoints[name] for name in {e.queue.broker_name for e in task}}
        )
        for task in packed
    ]


def read_partition(
    options: SourceOptions,
    columns: tuple[str, ...],
    wanted: Filter,
    partition: InputPartition,
    losses: DataLoss,
) -> Iterator[pa.RecordBatch]:
    """Read the messages of a partition, as Arrow batches."""
    import pyarrow

    tune_worker()
    if not isinstance(partition, QueuePartition):
        return  # Spark passes its own class if there is nothing to read
    settings = PullSettings(
        columns,
        wanted,
        options.pull_batch_size,
        options.pull_timeout_ms,
        options.prefetch,
        options.bulk_read,
        options.fail_on_corruption,
    )
    with options.connection.hiding_secrets():
        pulling = RangeReader(cluster_of(options), settings, partition.endpoints, losses)
        for batch in ahead(pulling.read(partition.ranges)):
            yield pyarrow.record_batch(batch)


class RocketMQBatchReader(DataSourceReader):
    """Reads the messages that are stored when the query is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], tasks: int) -> None:
        self.options = options
        self.columns = columns
        self.tasks = tasks
        self.filter = Filter(options.tags, options.sql)

    def partitions(self) -> list[InputPartition]:
        """Find the ranges to read, and divide them among tasks."""
        tune_worker()
        options = self.options
        cluster = cluster_of(options)
        with options.connection.hiding_secrets():
            ranges, endpoints = cluster.patiently(lambda: self._plan(cluster))
            return list(make_partitions(options, ranges, endpoints, self.tasks))

    def _plan(self, cluster: SourceCluster) -> tuple[list[QueueRange], dict[str, Endpoint]]:
        ranges = self._ranges(cluster)
        return ranges, cluster.endpoints(each.queue for each in ranges)

    def _ranges(self, cluster: SourceCluster) -> list[QueueRange]:
        options, losses = self.options, losses_of(self.options)
        ends = cluster.ends(find_queues(cluster, options.topics))
        starts = resolve_starting(cluster, options, ends, losses)
        starts = skip_expired(cluster, starts, ends)
        stops = resolve_ending(cluster, options, ends, losses)
        return [
            QueueRange(queue, starts[queue], stops[queue])
            for queue in ends
            if stops[queue] > starts[queue]
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the messages of one task."""
        losses = losses_of(self.options)
        return read_partition(self.options, self.columns, self.filter, partition, losses)


def batch_reader(
    options: SourceOptions, columns: tuple[str, ...], tasks: int
) -> RocketMQBatchReader:
    """Return the reader for these options.

    Spark rejects readers that take filters while its own setting for that is off. So only option
    ``pushFilters`` makes the reader one that takes filters.
    """
    if options.push_filters:
        from orbitmq.spark.source.pushdown import PushdownReader

        check_switch()
        return PushdownReader(options, columns, tasks)
    return RocketMQBatchReader(options, columns, tasks)
