"""The Spark suite's session, for tests against Apache RocketMQ itself."""

from tests.spark.conftest import spark

__all__ = ["spark"]
