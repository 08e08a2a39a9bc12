"""``format("rocketmq-store")``: a store directory as a table, read file by file in parallel.

::

    spark.read.format("rocketmq-store").option("topics", "orders").load("/var/lib/rocketmq/store")

The directory is looked at once, when the query is planned: its files, the end of its log, and the
byte ranges that can hold what is wanted. Each task reads its ranges and builds Arrow batches in
Rust. Every executor must see the directory under the same path. What cannot be read fails the
query, or, with ``failOnCorruption=false``, is left out, counted and named in the worker's log;
``table=damages`` lists it as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from orbitmq.errors import ConfigError
from orbitmq.spark.pushdown_switch import check_switch
from orbitmq.spark.schema import column_names, message_schema
from orbitmq.spark.settling import settle_in
from orbitmq.spark.store_options import StoreOptions
from orbitmq.spark.store_reading import read_split, say_torn_tail
from orbitmq.storelog import ScanPlan, Selection, StoreLog

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DAMAGE_SCHEMA", "RocketMQStoreSource"]

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
"""The columns of ``table=damages``; kinds: ``damage``, ``gap``, ``expired`` and ``torn-tail``."""


class RocketMQStoreSource(DataSource):
    """A store directory, ours or a Java broker's."""

    parallelism: ClassVar[int | None] = None
    """How many tasks the session can run at once, when that is known."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq-store"

    def schema(self) -> StructType:
        """Return the columns that the options ask for."""
        settle_in()
        options = StoreOptions.of(self.options)
        return DAMAGE_SCHEMA if options.table == "damages" else message_schema(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Look at the directory and plan the scan."""
        settle_in()
        options = StoreOptions.of(self.options)
        log = options.open()
        selection = options.select(log)
        if options.table == "damages":
            plan = options.plan(log, selection, ("physicalOffset",), self.parallelism)
            return DamageReader(plan, _torn_tail(log, plan))
        say_torn_tail(log)
        columns = column_names(schema)
        if options.push_filters:
            # Spark refuses readers that take filters while its own switch for that is off.
            from orbitmq.spark.store_pushdown import PushingStoreReader

            check_switch()

            def planning(narrowed: Selection) -> ScanPlan:
                return options.plan(log, narrowed, columns, self.parallelism)

            return PushingStoreReader(selection, planning)
        return StoreReader(options.plan(log, selection, columns, self.parallelism))

    def streamReader(self, schema: StructType) -> NoReturn:
        """Refuse: files do not tell when messages come."""
        raise ConfigError(
            "format rocketmq-store is read once, with spark.read; to follow messages, read their "
            "topic with spark.readStream.format('rocketmq')"
        )


class SplitPartition(InputPartition):
    """One split of the plan."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class StoreReader(DataSourceReader):
    """Reads the messages of each split."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    @property
    def plan(self) -> ScanPlan:
        """What is read."""
        return self._plan

    def partitions(self) -> list[SplitPartition]:
        """Return one partition per split."""
        return [SplitPartition(number) for number in range(max(1, len(self.plan.splits)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the wanted messages of a split as record batches."""
        assert isinstance(partition, SplitPartition)
        if self.plan.splits:
            yield from read_split(self.plan, self.plan.splits[partition.number])


class DamageReader(StoreReader):
    """Reads everything and tells what cannot be read."""

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
    """Return what stands behind the end of the log, where no split reads."""
    if log.snapshot.tail is None:
        return []
    size, reason = log.snapshot.tail
    return [_damage_row(plan, "torn-tail", log.snapshot.log_end, size, reason)]


def _damage_arrow_schema() -> pa.Schema:
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32()}
    kinds = {field.name: types[field.dataType.simpleString()] for field in DAMAGE_SCHEMA.fields}
    return pa.schema(list(kinds.items()))
