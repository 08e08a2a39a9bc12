"""An ordinary restart of brokers is not reported as a loss, neither by a stream nor in its log."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq.testing import LocalCluster
from tests.spark.broker_process import MemberProcess
from tests.spark.restarting import ROUNDS, SCHEDULE, outlive

pytestmark = [pytest.mark.counted, pytest.mark.newest_spark]


@pytest.fixture
def nameserver() -> Iterator[str]:
    """A nameserver for one test, without brokers."""
    with LocalCluster(brokers=0) as running:
        yield running.address


@pytest.fixture
def brokers(nameserver: str, tmp_path: Path) -> Iterator[list[MemberProcess]]:
    """Brokers, one for each part of the schedule."""
    names = [f"broker-{number}" for number in range(len(SCHEDULE))]
    made = [MemberProcess(name, tmp_path / name, nameserver) for name in names]
    with ExitStack() as leaving:
        for broker in made:
            leaving.callback(broker.stop)
        with ThreadPoolExecutor(len(made)) as pool:
            list(pool.map(MemberProcess.start, made))
        yield made


@pytest.mark.timeout(600 * ROUNDS)
def test_streams_continue_when_brokers_restart(
    spark: SparkSession,
    nameserver: str,
    brokers: list[MemberProcess],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outlive(spark, nameserver, brokers, tmp_path, caplog)
