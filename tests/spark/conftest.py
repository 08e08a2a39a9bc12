"""Common fixtures of the Spark suite: one session per process, one cluster of ours, one of Spark.

Starting a JVM costs seconds, so a process has one session for all of its tests; a test that must
kill its driver, or talk to a standalone cluster, starts that driver as a process of its own with
`run_driver` (see `drivers.py`). Topics have names of their own (`new_topic`), so tests can share
a cluster as well.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from orbitmq import Admin
from orbitmq.spark.session import tuned
from orbitmq.testing import LocalCluster
from tests.spark.archiving import Archive, Replay
from tests.spark.quick_start import make_quick
from tests.spark.small_stores import COUNT, fill
from tests.spark.standalone import StandaloneCluster

os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
make_quick(os.environ)  # Set before the first session is made.

# Settings of the session helper; without them every file of a checkpoint costs a process.
SESSION_SETTINGS = tuned("local[2]")[0] | {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    # A killed driver leaves these behind; tests remove their own directories.
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
}


def pytest_report_header() -> str:
    """Print the version of Spark: the suite runs on two."""
    return f"spark: {pyspark.__version__}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Session of this process, `local[2]`, with both formats registered."""
    from orbitmq.spark import register

    builder = SparkSession.builder.master("local[2]").appName("orbitmq-tests")
    for key, value in SESSION_SETTINGS.items():
        builder = builder.config(key, value)
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A shared cluster of one broker: use your own topics, and leave the broker running."""
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="session")
def two_brokers() -> Iterator[LocalCluster]:
    """A shared cluster of two brokers, `broker-a` and `broker-b`."""
    with LocalCluster(brokers=2) as running:
        yield running


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A Spark standalone cluster: a master and two workers, processes of their own."""
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store directory with `small_stores.COUNT` messages, to be read only."""
    return fill(tmp_path_factory.mktemp("stores") / "store", COUNT)


NewTopic = Callable[..., str]
_numbers = itertools.count(1)


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> NewTopic:
    """Make a unique topic: `new_topic(cluster, queues=8)` returns its name."""

    def make(cluster: LocalCluster, *, queues: int = 4) -> str:
        stem = request.node.name.partition("[")[0].removeprefix("test_")
        name = f"{stem[:60]}-{next(_numbers)}"
        with Admin(cluster.address) as admin:
            admin.create_topic(name, queues=queues)
        return name

    return make


@pytest.fixture
def archive(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> Archive:
    """An archive for one test."""
    return Archive(spark, cluster, tmp_path)


@pytest.fixture
def replay(spark: SparkSession, tmp_path: Path) -> Replay:
    """Runs replays: `replay(source={…}, sink={…})` returns the exit code and the report."""
    return Replay(spark, tmp_path)
