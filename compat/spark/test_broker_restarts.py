"""The restarts of `tests/spark/test_broker_restarts.py`, of Apache's brokers and nameserver."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat.java_cluster import BrokerSettings, JavaCluster
from compat.java_pair import OneOfSeveral
from tests.spark.restarting import ROUNDS, SCHEDULE, outlive

pytestmark = pytest.mark.counted


class JavaMember:
    """One of several brokers, with the interface of `Restartable`."""

    def __init__(self, broker: JavaCluster) -> None:
        self.name = broker.settings.name
        self.start = broker.start_broker
        self.stop = broker.stop_broker
        self.kill = broker.kill_broker


@pytest.fixture
def brokers(java_peer_jars: Path, tmp_path: Path) -> Iterator[list[JavaCluster]]:
    """Brokers beside one nameserver, one for each part of the schedule."""
    made: list[OneOfSeveral] = []
    try:
        for number in range(len(SCHEDULE)):
            settings = BrokerSettings(name=f"java-{number}")
            first = made[0] if made else None
            made.append(OneOfSeveral(tmp_path / settings.name, settings, first))
        with ThreadPoolExecutor(len(made)) as pool:
            list(pool.map(JavaCluster.start_broker, made))
        yield list(made)
    finally:
        for broker in reversed(made):
            broker.close()


@pytest.mark.timeout(600 * ROUNDS)
def test_streams_continue_when_brokers_restart(
    spark: SparkSession,
    brokers: list[JavaCluster],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = [JavaMember(broker) for broker in brokers]
    outlive(spark, brokers[0].nameserver, members, tmp_path, caplog)
