"""Makes ``format("rocketmq")`` known to Spark by being installed: Spark looks for such modules.

`orbitmq.spark.register` does the same for one session and, unlike this, tells the source how many
tasks the session can run at once.
"""

from orbitmq.spark.source.data_source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
