"""RocketMQ for Spark, through Spark's Python Data Source API: no jar to match.

::

    from orbitmq.spark import register

    register(spark)
    orders = spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876") \\
        .option("subscribe", "orders").load()

Formats: ``rocketmq`` (a cluster; source and sink, batch and streaming) and ``rocketmq-store`` (a
store directory; `read_store` is the same table, with whole rows sooner). Needs the extra ``spark``
of OrbitMQ's wheel.
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
"""Where each format's data source is, so that one can be used without importing the others."""


def register(spark: SparkSession) -> None:
    """Make the formats known to a session, along with how many tasks it can run at once. ::

    register(spark)
    """
    for module, name in _FORMATS.values():
        source = getattr(import_module(module), name)
        spark.dataSource.register(_with_parallelism(source, _parallelism(spark)))


def read_store(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> DataFrame:
    """Return the messages of a store directory; the options are those of the format. ::

    orders = read_store(spark, "/var/lib/rocketmq/store", topics=["orders"])

    The rows are those of ``spark.read.format("rocketmq-store")``, but Spark copies whole ones once
    less. The directory is looked at now, by this process, and every run of the query reads what is
    there now. It gives no ``table=damages`` and takes no ``pushFilters``.
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

    A source is planned in a process that knows nothing of the session, so the number travels with
    the class.
    """
    if parallelism is None:
        return source
    return type(source.__name__, (source,), {"parallelism": parallelism, "__doc__": source.__doc__})
