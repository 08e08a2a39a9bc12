"""RocketMQ for Spark, through Spark's Python Data Source API: no jar has to match a version.

::

    from orbitmq.spark import register

    register(spark)
    orders = spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876") \\
        .option("subscribe", "orders").load()

Formats: ``rocketmq`` (a cluster; source and sink, batch and streaming) and ``rocketmq-store`` (a
store directory). `read_store` returns the same table as ``rocketmq-store``, faster for whole rows.
This package needs the extra ``spark`` of OrbitMQ's wheel.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_store", "register"]

_FORMATS = {
    "rocketmq": ("orbitmq.spark.source.data_source", "RocketMQSource"),
    "rocketmq-store": ("orbitmq.spark.table.format", "RocketMQStoreSource"),
}
"""Module and class of each data source; using one format does not import the others."""


def register(spark: SparkSession) -> None:
    """Register the formats at a session, with the number of tasks it can run at once. ::

    register(spark)
    """
    for module, name in _FORMATS.values():
        source = getattr(import_module(module), name)
        spark.dataSource.register(_with_parallelism(source, _parallelism(spark)))


def read_store(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> DataFrame:
    """Return the messages of a store directory; the options are those of the format. ::

    orders = read_store(spark, "/var/lib/rocketmq/store", topics=["orders"])

    The rows are those of ``spark.read.format("rocketmq-store")``, but Spark copies whole rows once
    less. This process lists the directory now. Every run of the query reads the messages that are
    there now. The options ``table=damages`` and ``pushFilters`` are rejected.
    """
    from orbitmq.spark.table.frame import frame

    return frame(spark, path, options, _parallelism(spark))


def _parallelism(spark: SparkSession) -> int | None:
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # a Connect session has no context here, each Spark with its own exception
        return None


def _with_parallelism(source: Any, parallelism: int | None) -> Any:
    """Return the data source with the number of tasks to plan for.

    Spark plans a source in a process that has no session, so the class carries the number.
    """
    if parallelism is None:
        return source
    return type(source.__name__, (source,), {"parallelism": parallelism, "__doc__": source.__doc__})
