"""A Spark session with the settings that matter for messages, and a word on each it has set.

::

    from orbitmq.spark.session import session

    spark = session("orders", master="local[*]", say=print)

Spark's defaults are made for large batches. What a stream of small ones waits for is mostly

- a stall of some 40 ms per Python task, which Unix sockets between JVM and Python do not have;
- a process per checkpoint file, which a local disk needs none of;
- a collector that walks through all imported modules in each Python worker after each task, which
  needs no setting: see `settling`.

Two more settings give the sink batches of a sensible size, and let a stream start again that was
killed at a bad moment (Spark takes a half-written file for somebody else's checkpoint). None
changes a result or takes a feature of Spark's away: the tests run every kind of state with them.
Local files keep Hadoop's checksums for that reason: they cost a few milliseconds per trigger, and
Spark uploads the files of its RocksDB state store through the file system that has them.

What is given explicitly is never overruled. Settings of the JVM that runs already are left alone:
Spark ignores them then, so nothing is said of them either.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TUNED", "Tuning", "session", "tuned"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tuning:
    """A setting, and why it is set."""

    key: str
    value: str
    why: str
    only_local: bool = False
    """Whether it is for checkpoints on a local disk, as those of a local master are."""


TUNED = (
    Tuning(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "no stall of 40 ms per Python task",
    ),
    Tuning(
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "8192",
        "rows for the sink come in batches of some megabytes",
    ),
    Tuning(
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart",
        "false",
        "a driver that was killed while it wrote its first offsets can start again",
    ),
    Tuning(
        "spark.sql.streaming.checkpointFileManagerClass",
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
        "a checkpoint on a local disk is renamed into place without a process per file",
        only_local=True,
    ),
)
"""What is set, unless the user has said otherwise."""


def tuned(
    master: str, given: Mapping[str, str] | None = None, *, local_checkpoints: bool = True
) -> tuple[dict[str, str], list[Tuning]]:
    """Return all settings of a session, and those among them that were added to the given ones.

    Without `local_checkpoints` there are none but those that suit every file system.

    >>> settings, added = tuned("spark://host:7077", {"spark.executor.memory": "2g"})
    >>> [tuning.key for tuning in added][0]
    'spark.python.unix.domain.socket.enabled'
    """
    settings = dict(given or {})
    is_local = local_checkpoints and master.startswith("local")
    added = [
        tuning
        for tuning in TUNED
        if tuning.key not in settings and (is_local or not tuning.only_local)
    ]
    settings.update((tuning.key, tuning.value) for tuning in added)
    return settings, added


def session(
    name: str,
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    local_checkpoints: bool = True,
    say: Callable[[str], object] = _log.info,
) -> SparkSession:
    """Return a session with both formats registered, and say which settings were added. ::

    spark = session("orders", master="spark://host:7077", settings={"spark.ui.enabled": "false"})

    Checkpoints of a local master are taken to be on a local disk; `local_checkpoints` is false
    where they are on HDFS or in an object store.
    """
    from pyspark.sql import SparkSession

    from orbitmq.spark import register

    found = SparkSession.getActiveSession()
    if found is not None:
        say("there is a session already, its settings stay as they are")
        register(found)
        return found
    everything, added = tuned(master, settings, local_checkpoints=local_checkpoints)
    if master.startswith("local"):
        # Workers on this machine are this interpreter, with the packages it has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in everything.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    for tuning in added:
        say(f"set {tuning.key}={tuning.value}: {tuning.why}")
    register(made)
    return made
