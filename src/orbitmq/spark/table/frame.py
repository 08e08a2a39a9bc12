"""`read_store`: the table of ``format("rocketmq-store")``, faster for whole rows.

::

    format("rocketmq-store")   Arrow ─► row ─► copy of the row ─► query
    read_store                 Arrow ─► row ─► query

Spark does not trust a data source to create rows of Spark's own class. So Spark copies the rows of
a data source, column by column, but not the rows that a function of the query (`mapInArrow`)
returns. The copy contains only the columns that the query needs. If the query needs whole messages,
for a file or another topic, the copy takes a third of the time Spark needs to load them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from orbitmq.errors import ConfigError
from orbitmq.spark.schema import message_schema
from orbitmq.spark.table.options import StoreOptions
from orbitmq.spark.table.read_split import read_split, say_torn_tail
from orbitmq.storelog import ScanPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["frame"]


def frame(
    spark: SparkSession,
    path: str | os.PathLike[str],
    options: dict[str, Any],
    parallelism: int | None,
) -> DataFrame:
    """Inspect the directory and return its messages; see `orbitmq.spark.read_store`."""
    given = {name: _text(value) for name, value in options.items() if value is not None}
    if isinstance(options.get("topics"), Mapping):
        given["queues"] = given.pop("topics")
    read = StoreOptions.of({"path": os.fspath(path)} | given)
    if read.table != "messages" or read.push_filters:
        raise ConfigError(
            "read_store gives messages, and knows no filters of queries; options table and "
            'pushFilters are for spark.read.format("rocketmq-store")'
        )
    log = read.open()
    say_torn_tail(log)
    plan = read.plan(log, read.select(log), read.columns, parallelism)
    # Each task gets one number, that of its split.
    numbers = spark.range(0, len(plan.splits), 1, max(1, len(plan.splits)))
    return numbers.mapInArrow(_Splits(plan), message_schema(read.columns))


def _text(value: object) -> str:
    """Return a value as the text of an option."""
    if isinstance(value, (bool, dict)):
        return json.dumps(value)
    return ",".join(value) if isinstance(value, (list, tuple, set, frozenset)) else str(value)


class _Splits:
    """Function of the query that reads splits; executors import it by its module's name."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_split(self._plan, self._plan.splits[number])
