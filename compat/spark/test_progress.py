"""The lag of a stream as shown by `mqadmin consumerProgress` of 4.9.7."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat.java_cluster import JavaCluster
from compat.nameserver.tools import JavaTools
from orbitmq import Admin
from orbitmq.testing import LocalCluster
from tests.spark.source_fixtures import run_available, send, stream

TOPIC, GROUP = "progress-orders", "progress-spark"


def shows_lag(tools: JavaTools, spark: SparkSession, address: str, directory: Path) -> None:
    with Admin(address) as admin:
        admin.create_topic(TOPIC, queues=2)
    send(address, TOPIC, (f"{number}" for number in range(10)))
    options = {"consumerGroup": GROUP, "commitOffsets": "progress", "startingOffsets": "earliest"}
    run_available(stream(spark, address, TOPIC, **options), directory)
    send(address, TOPIC, ["more", "and more", "and more again"])

    shown = tools.mqadmin("consumerProgress", "-g", GROUP, "-n", address)
    rows = [line.split() for line in shown.splitlines() if line.startswith(TOPIC)]
    # Topic, broker, queue, the broker's offset, the group's, …
    places = {int(row[2]): (int(row[3]), int(row[4])) for row in rows}
    assert places.keys() == {0, 1}, shown
    assert sum(stored for stored, _ in places.values()) == 13
    assert sum(read for _, read in places.values()) == 10
    assert "Diff Total: 3" in shown

    groups = tools.mqadmin("consumerProgress", "-n", address).splitlines()
    (listed,) = [line.split() for line in groups if line.startswith(GROUP)]
    assert listed[-1] == "3", listed


@pytest.mark.parametrize("java", ["4.9.7"], indirect=True)
def test_progress_shows_as_lag_on_a_java_broker(
    tools: JavaTools, spark: SparkSession, java: JavaCluster, tmp_path: Path
) -> None:
    shows_lag(tools, spark, java.nameserver, tmp_path)


def test_progress_shows_as_lag_on_our_broker(
    tools: JavaTools, spark: SparkSession, tmp_path: Path
) -> None:
    with LocalCluster() as ours:
        shows_lag(tools, spark, ours.address, tmp_path)
