"""Registers ``format("rocketmq-store")`` with Spark without a call.

Spark imports all modules whose names begin with ``pyspark_`` and uses their `DefaultSource`. So
this module imports as little as possible.
"""

from orbitmq.spark.table.format import RocketMQStoreSource as DefaultSource

__all__ = ["DefaultSource"]
