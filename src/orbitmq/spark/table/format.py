"""``format("rocketmq-store")``: a store directory as a table, read file by file in parallel.

::

    spark.read.format("rocketmq-store").option("topics", "orders").load("/var/lib/rocketmq/store")

The planner inspects the directory once: its files, the end of its log, and the byte ranges that can
contain selected messages. Each task reads its ranges and builds Arrow batches in Rust. Every
executor must have the directory under the same path. Data that cannot be read fails the query. With
``failOnCorruption=false`` it is left out, counted and named in the worker's log. ``table=damages``
lists such data as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from orbitmq.errors import ConfigError
from orbitmq.spark.filters import (
    ALL_OFFSETS,
    column_of,
    narrowed_offsets,
    narrowed_times,
    passing_values,
)
from orbitmq.spark.pushdown_switch import check_switch
from orbitmq.spark.schema import column_names, message_schema
from orbitmq.spark.table.options import StoreOptions
from orbitmq.spark.table.read_split import read_split, say_torn_tail
from orbitmq.spark.worker import tune_worker
from orbitmq.storelog import QueueWishes, ScanPlan, Selection, StoreLog
from orbitmq.storelog.selection import END, FIRST, OTHER_QUEUES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DAMAGE_SCHEMA", "PushingStoreReader", "RocketMQStoreSource", "narrow"]

DAMAGE_SCHEMA = StructType(
    [
        StructField("kind", StringType()),
        StructField("file", StringType()),
        StructField("physicalOffset", LongType()),
        StructField("length", LongType()),
        StructField("reason", StringType()),
        StructField("topic", StringType()),
        StructField("queueId", IntegerType()),
        StructField("queueOffset", LongType()),
    ]
)
"""Columns of ``table=damages``; kinds: ``damage``, ``gap``, ``expired`` and ``torn-tail``."""


class RocketMQStoreSource(DataSource):
    """Data source for a store directory of OrbitMQ or of a Java broker."""

    parallelism: ClassVar[int | None] = None
    """Number of tasks the session can run at once; None if unknown."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """Return the columns that the options select."""
        tune_worker()
        options = StoreOptions.of(self.options)
        return DAMAGE_SCHEMA if options.table == "damages" else message_schema(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Inspect the directory and plan the scan."""
        tune_worker()
        options = StoreOptions.of(self.options)
        log = options.open()
        selection = options.select(log)
        if options.table == "damages":
            plan = options.plan(log, selection, ("physicalOffset",), self.parallelism)
            return DamageReader(plan, _torn_tail(log, plan))
        say_torn_tail(log)
        columns = column_names(schema)
        if options.push_filters:
            # Spark rejects readers that take filters while its own setting for that is off.

            check_switch()

            def planning(narrowed: Selection) -> ScanPlan:
                return options.plan(log, narrowed, columns, self.parallelism)

            return PushingStoreReader(selection, planning)
        return StoreReader(options.plan(log, selection, columns, self.parallelism))

    def streamReader(self, schema: StructType) -> NoReturn:
        """Raise `ConfigError`: files cannot notify a stream of new messages."""
        raise ConfigError(
            "format rocketmq-store is read once, with spark.read; to follow messages, read their "
            "topic with spark.readStream.format('rocketmq')"
        )


class SplitPartition(InputPartition):
    """Number of one split of the plan."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StoreReader(DataSourceReader):
    """Reads the messages of each split."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    @property
    def plan(self) -> ScanPlan:
        """Plan of the scan."""
        return self._plan

    def partitions(self) -> list[SplitPartition]:
        """Return one partition per split."""
        return [SplitPartition(number) for number in range(max(1, len(self.plan.splits)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the selected messages of a split as record batches."""
        assert isinstance(partition, SplitPartition)
        if self.plan.splits:
            yield from read_split(self.plan, self.plan.splits[partition.number])


class DamageReader(StoreReader):
    """Reads all splits and returns the data that cannot be read."""

    def __init__(self, plan: ScanPlan, known: list[dict[str, Any]]) -> None:
        super().__init__(plan)
        self.known = known

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the damages that begin in a split."""
        import pyarrow as pa

        assert isinstance(partition, SplitPartition)
        schema = _damage_arrow_schema()
        if partition.number == 0:
            yield pa.RecordBatch.from_pylist(self.known, schema=schema)
        if not self.plan.splits:
            return
        scan = self.plan.open(self.plan.splits[partition.number])
        while found := scan.next_damages():
            rows = [_damage_row(self.plan, *damage) for damage in found]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _damage_row(
    plan: ScanPlan,
    kind: str,
    at: int,
    length: int,
    reason: str,
    topic: str | None = None,
    queue_id: int | None = None,
    queue_offset: int | None = None,
) -> dict[str, Any]:
    files = (str(path) for path, start, size in plan.log_files if start <= at < start + size)
    place = (next(files, None), at, length, reason, topic, queue_id, queue_offset)
    return dict(zip(DAMAGE_SCHEMA.names, (kind, *place), strict=True))


def _torn_tail(log: StoreLog, plan: ScanPlan) -> list[dict[str, Any]]:
    """Return the torn tail, which follows the end of the log and is in no split."""
    if log.snapshot.tail is None:
        return []
    size, reason = log.snapshot.tail
    return [_damage_row(plan, "torn-tail", log.snapshot.log_end, size, reason)]


def _damage_arrow_schema() -> pa.Schema:
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32()}
    kinds = {field.name: types[field.dataType.simpleString()] for field in DAMAGE_SCHEMA.fields}
    return pa.schema(list(kinds.items()))


# ---- Filters that Spark pushes down (``pushFilters=true``)
#
# | filter on | result |
# | --- | --- |
# | topic, queueId | fewer queues |
# | queueOffset | shorter ranges of them |
# | storeTimestamp | fewer files |
#
# Spark checks all rows again: the scan only reads less. A selection that the options leave open
# stays open, whether or not the directory has queues for it.


class PushingStoreReader(StoreReader):
    """Reads the messages of each split, with as few splits as the query's filters allow.

    The plan is made at the first use of `plan`, because Spark has pushed its filters by then.
    """

    def __init__(self, selection: Selection, planning: Callable[[Selection], ScanPlan]) -> None:
        self._selection = selection
        self._planning = planning
        self._planned: ScanPlan | None = None

    @property
    def plan(self) -> ScanPlan:
        """Plan of the scan, narrowed by the pushed filters."""
        if self._planned is None:
            self._planned = self._planning(self._selection)
        return self._planned

    def __getstate__(self) -> dict[str, object]:
        # Tasks need the plan only; the inspected directory cannot be sent to them.
        return {"_planned": self.plan}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the selection by the filters; return all of them, because Spark applies them."""
        self._selection = narrow(self._selection, filters)
        self._planned = None
        return filters


def narrow(selection: Selection, filters: list[Filter]) -> Selection:
    """Return a selection without some messages that the filters drop, and with all the others."""
    since, until = selection.start_ms, selection.end_ms
    for each in filters:
        if column_of(each) == "storeTimestamp":
            since, until = narrowed_times(since, until, each)
    topics = _narrow_topics(selection.topics, filters)
    return replace(selection, topics=topics, start_ms=since, end_ms=until)


def _narrow_topics(topics: QueueWishes | None, filters: list[Filter]) -> QueueWishes | None:
    values: dict[str, frozenset[Any]] = {}
    offsets = ALL_OFFSETS
    for each in filters:
        name, allowed = column_of(each), passing_values(each)
        if name in ("topic", "queueId") and allowed is not None:
            values[name] = values.get(name, allowed) & allowed
        if name == "queueOffset" and (narrowed := narrowed_offsets(offsets, each)) is not None:
            offsets = narrowed
    if topics is None:
        if "topic" not in values:
            return None  # a selection of queues needs their topics
        topics = dict.fromkeys(sorted(values["topic"]))
    names = values.get("topic", topics)
    queue_ids = values.get("queueId")
    return {
        topic: _narrow_queues(queues, queue_ids, offsets)
        for topic, queues in topics.items()
        if topic in names
    }


def _narrow_queues(
    queues: dict[int, tuple[int, int]] | None, queue_ids: frozenset[int] | None, offsets: range
) -> dict[int, tuple[int, int]] | None:
    if queue_ids is None and offsets == ALL_OFFSETS:
        return queues
    wished = {OTHER_QUEUES: (FIRST, END)} if queues is None else queues
    if queue_ids is not None:
        others = wished.get(OTHER_QUEUES)
        given = {number: wished.get(number, others) for number in queue_ids if number >= 0}
        wished = {number: wish for number, wish in given.items() if wish is not None}
    return {
        number: (max(first, offsets.start), min(end, offsets.stop))
        for number, (first, end) in wished.items()
    }
