"""A real Spark cluster with a master and two workers, whose executors are killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster
from tests.spark.drivers import Driver
from tests.spark.quick_start import EXECUTOR_FLAGS
from tests.spark.relay_driver import Relay
from tests.spark.standalone import StandaloneCluster
from tests.spark.topics import bodies_in, produce, wait_for_records

pytestmark = pytest.mark.counted

MESSAGES = 1600


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_repeated_when_executors_are_killed(
    spark_cluster: StandaloneCluster,
    cluster: LocalCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    source, target = new_topic(cluster), new_topic(cluster)
    produce(cluster, source, (b"%d" % number for number in range(MESSAGES)), batch=50)
    relay = Relay(
        name_server=cluster.address,
        source=source,
        target=target,
        checkpoints=str(tmp_path / "checkpoints"),
        rows_per_batch=200,
        to_the_end=True,
        master=spark_cluster.url,
        settings={
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": EXECUTOR_FLAGS,
        },
    )
    with Driver(relay, tmp_path / "driver.log") as driver:
        driver.wait_for("jvm")
        killed = 0
        for stored in (1, MESSAGES // 3):
            wait_for_records(cluster, target, stored, within_s=240)
            for pid in spark_cluster.executor_pids()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        driver.wait_for("ended", 300)
        driver.process.wait(60)
    assert killed, "no executor was there to be killed"
    assert bodies_in(cluster, target) == Counter(b"%d" % number for number in range(MESSAGES))
