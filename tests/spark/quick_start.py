"""Settings that make drivers and workers start quickly, as most of the suite's time is theirs.

A driver loads and checks some ten thousand classes, compiles what runs twice, and compiles it again
if it runs often. In tests it lives for seconds, so one compiler is enough, and so is one thread
that collects garbage. The classes come from an archive (class-data sharing): ``python -m
tests.spark.quick_start`` lets a driver relay a few messages and keep what it has loaded, and the
Makefile runs it once. Without the archive, or with one of another Java or Spark, everything works
as well, slower.

Each query has Python processes of its own, `worker_python` spares them a second. All of it goes
through the environment, so that it reaches the drivers of commands, too.

A Java machine that is killed leaves behind what it has made for its own life: sockets, libraries,
directories of blocks. All of them make that in one directory, which goes with the process that has
started them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import MutableMapping
from pathlib import Path

import pyspark

__all__ = ["ARCHIVE", "EXECUTOR_FLAGS", "make_quick", "train"]

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / ".build" / f"spark-classes-{pyspark.__version__}.jsa"
LEFT_BEHIND = tempfile.TemporaryDirectory(prefix="omq-", ignore_cleanup_errors=True)
"""A short name: the path of a socket has about a hundred characters at most."""
FLAGS = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable"),
    f"-Djava.io.tmpdir={LEFT_BEHIND.name}",
)
EXECUTOR_FLAGS = " ".join(FLAGS)
EXIT_LIMIT_S = 300.0


def make_quick(environment: MutableMapping[str, str], make: Path | None = None) -> None:
    """Have all drivers and workers that are started with this environment start quickly.

    With `make` a driver leaves an archive there when it ends, in place of using one.
    """
    environment["ORBITMQ_TEST_PYTHON"] = sys.executable
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment[name] = str(Path(__file__).with_name("worker_python"))
    flags = list(FLAGS)
    if make is not None:
        flags.append(f"-XX:ArchiveClassesAtExit={make}")
    elif ARCHIVE.exists():
        flags.append(f"-XX:SharedArchiveFile={ARCHIVE}")
    environment["SPARK_SUBMIT_OPTS"] = " ".join(flags)
    environment["SPARK_DAEMON_JAVA_OPTS"] = " ".join(flags)
    environment["SPARK_LAUNCHER_OPTS"] = EXECUTOR_FLAGS


def train() -> None:
    """Make the archive; without one the suite is only slower, so a failure does not stop it."""
    from orbitmq import Admin
    from orbitmq.testing import LocalCluster
    from tests.spark.drivers import Driver
    from tests.spark.relay_driver import Relay
    from tests.spark.topics import produce

    ARCHIVE.parent.mkdir(exist_ok=True)
    made = ARCHIVE.with_suffix(".new")
    make_quick(os.environ, made)
    with LocalCluster() as cluster, tempfile.TemporaryDirectory() as directory:
        with Admin(cluster.address) as admin:
            for topic in ("source", "target"):
                admin.create_topic(topic, queues=1)
        produce(cluster, "source", (b"%d" % number for number in range(200)), batch=100)
        relay = Relay(
            name_server=cluster.address,
            source="source",
            target="target",
            parquet=f"{directory}/rows",
            checkpoints=f"{directory}/checkpoints",
            rows_per_batch=100,
            to_the_end=True,
        )
        with Driver(relay, Path(directory, "log")) as driver:
            machine = driver.wait_for("jvm")
            driver.wait_for("ended")
            # The archive is written when the machine ends, after the Python program has.
            deadline = time.monotonic() + EXIT_LIMIT_S
            while Path(f"/proc/{machine}").exists():
                if time.monotonic() > deadline:
                    print("no archive of classes: the driver does not end", file=sys.stderr)
                    return
                time.sleep(0.1)
    if made.exists():
        made.replace(ARCHIVE)
    else:
        print("no archive of classes: the driver has left none", file=sys.stderr)


if __name__ == "__main__":
    train()
