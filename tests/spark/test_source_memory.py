"""Memory of Python workers is limited, whatever the number and size of waiting messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, Producer
from orbitmq.testing import LocalCluster
from tests.spark.source_fixtures import frame

LIMIT_MB = 400
BODY_BYTES = (4 << 20) - 4096
"""The largest size that brokers accept."""
MESSAGES = 110
"""More than a worker may hold."""
DAEMON = b"pyspark.daemon\0pyspark.worker\0"


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[LocalCluster, str]]:
    """A topic of large messages."""
    with LocalCluster() as running:
        with Producer(running.address, group="tests", compress_over_bytes=1 << 30) as producer:
            for number in range(MESSAGES):
                producer.send(Message("large", bytes([number]) * BODY_BYTES))
        yield running, "large"


def peak_mb(spark: SparkSession) -> float:
    """Return the maximum memory of any Python process of this session's tasks."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    driver = jvm.java.lang.ProcessHandle.current().pid()
    processes = list(_processes())
    daemons = {pid for pid, parent, command in processes if parent == driver and DAEMON in command}
    workers = [pid for pid, parent, _ in processes if parent in daemons]
    assert workers, "no worker is left to be looked at"
    return max(_peak_kb(pid) for pid in workers) / 1024


def _processes() -> Iterator[tuple[int, int, bytes]]:
    for directory in Path("/proc").glob("[0-9]*"):
        # A process may end while it is examined.
        with contextlib.suppress(OSError):
            stat = (directory / "stat").read_text().rpartition(")")[2].split()
            yield int(directory.name), int(stat[1]), (directory / "cmdline").read_bytes()


def _peak_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


@pytest.mark.parametrize("bulk", ["true", "false"])
def test_memory_is_limited_when_bodies_are_large(
    spark: SparkSession, large: tuple[LocalCluster, str], bulk: str
) -> None:
    cluster, topic = large
    read = frame(spark, cluster, topic, columns="body", bulkRead=bulk)
    (counted,) = read.selectExpr("sum(length(body))").collect()
    assert counted[0] == MESSAGES * BODY_BYTES
    assert peak_mb(spark) <= LIMIT_MB
