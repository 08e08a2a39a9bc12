"""Applies filters that Spark pushes down to a batch read (``pushFilters=true``).

| filter on | result | check of the rows by Spark |
| --- | --- | --- |
| topic, brokerName, queueId | fewer queues | none |
| queueOffset | shorter ranges | none |
| tags, equal or in | a filter at the broker | none |
| storeTimestamp | shorter ranges, found by time | yes: brokers store in almost that order |

Spark applies all other filters itself. Times are looked up with a margin: after a broker's clock
was set back, messages follow others with later times. As long as no message is earlier than one
before it by more than the margin, the ranges contain every message that passes the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import Filter

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.filters import (
    ALL_OFFSETS,
    column_of,
    narrowed_offsets,
    narrowed_times,
    passing_values,
)
from orbitmq.spark.offsets import OffsetBounds, QueueRange
from orbitmq.spark.source.batch_reader import RocketMQBatchReader
from orbitmq.spark.source.options import SourceOptions

__all__ = ["PushdownReader"]

CLOCK_MARGIN_MS = 60_000
"""Time by which a broker's clock may have been set back; the store format allows the same."""

_OF_QUEUE: dict[str, Callable[[MessageQueue], Any]] = {
    "topic": lambda queue: queue.topic,
    "brokerName": lambda queue: queue.broker_name,
    "queueId": lambda queue: queue.queue_id,
}


class PushdownReader(RocketMQBatchReader):
    """Reads the stored messages without those that the query's filters drop."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], tasks: int) -> None:
        super().__init__(options, columns, tasks)
        self._queue_tests: list[tuple[str, frozenset[Any]]] = []
        self._offsets = ALL_OFFSETS
        self._since_ms: int | None = None
        self._until_ms: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over the filters that this source can apply, and return the rest."""
        for each in filters:
            if not self._take(each):
                yield each

    def _take(self, wanted: Filter) -> bool:
        """Take a filter over; return False if Spark must check the rows itself."""
        name, values = column_of(wanted), passing_values(wanted)
        if name in _OF_QUEUE and values is not None:
            self._queue_tests.append((name, values))
            return True
        if name == "queueOffset":
            return self._take_offset(wanted)
        if name == "tags" and values is not None:
            return self._take_tags(values)
        if name == "storeTimestamp":
            times = narrowed_times(self._since_ms, self._until_ms, wanted)
            self._since_ms, self._until_ms = times
        return False

    def _take_offset(self, wanted: Filter) -> bool:
        narrowed = narrowed_offsets(self._offsets, wanted)
        if narrowed is None:
            return False
        self._offsets = narrowed
        return True

    def _take_tags(self, values: frozenset[Any]) -> bool:
        plain = all(tag and "|" not in tag and tag == tag.strip() and tag != "*" for tag in values)
        if self.filter.tags is not None or self.filter.sql is not None or not values or not plain:
            return False
        self.filter = replace(self.filter, tags=" || ".join(sorted(values)))
        return True

    def _ranges(self, cluster: SourceCluster) -> list[QueueRange]:
        kept = []
        for each in super()._ranges(cluster):
            if not all(_OF_QUEUE[name](each.queue) in values for name, values in self._queue_tests):
                continue
            start, stop = max(each.start, self._offsets.start), min(each.end, self._offsets.stop)
            reach = OffsetBounds(each.start, each.end)
            if self._since_ms is not None:
                since = cluster.first_since(each.queue, self._since_ms - CLOCK_MARGIN_MS, reach)
                start = max(start, each.end if since is None else since)
            if self._until_ms is not None:
                until = cluster.first_since(each.queue, self._until_ms + CLOCK_MARGIN_MS, reach)
                stop = min(stop, each.end if until is None else until)
            if stop > start:
                kept.append(QueueRange(each.queue, start, stop))
        return kept
