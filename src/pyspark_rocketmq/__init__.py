"""Registers ``format("rocketmq")`` with Spark by being installed: Spark looks for such modules.

`orbitmq.spark.register` does the same for one session. Unlike this module, it also gives the source
the number of tasks the session can run at once.
"""

from orbitmq.spark.source.data_source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
