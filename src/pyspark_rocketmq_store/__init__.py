"""Makes ``format("rocketmq-store")`` known to Spark without a call.

Spark looks for modules whose names begin with ``pyspark_`` and takes their `DefaultSource`; so this
one imports as little as it can.
"""

from orbitmq.spark.table.format import RocketMQStoreSource as DefaultSource

__all__ = ["DefaultSource"]
