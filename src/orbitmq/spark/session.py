"""Creates a Spark session with settings that matter for messages, and reports each setting.

::

    from orbitmq.spark.session import session

    spark = session("orders", master="local[*]", say=print)

Spark's defaults suit large batches. A stream of small batches mostly waits for

- a stall of some 40 ms per Python task, which Unix sockets between JVM and Python do not have;
- a process per checkpoint file, which a local disk does not need;
- a garbage collection in each Python worker after each task, which visits all imported modules.
  It needs no setting: see `worker`.

Two more settings give the sink batches of a sensible size, and let a stream start again that was
killed at a bad moment. (Spark takes a half-written file for the checkpoint of another query.) No
setting changes a result or disables a feature of Spark: the tests run every kind of state with
them. Local files keep Hadoop's checksums for that reason. The checksums cost a few milliseconds per
trigger, but Spark uploads the files of its RocksDB state store through the file system that has
them.

Settings that the user gives explicitly are never overridden. Settings of a JVM that already runs
are left as they are and not reported, because Spark ignores them then.
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
    """A Spark setting and the reason for it."""

    key: str
    value: str
    why: str
    only_local: bool = False
    """True if the setting is only for checkpoints on a local disk, as with a local master."""


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
"""Settings to add, unless the user has given them."""


def tuned(
    master: str, given: Mapping[str, str] | None = None, *, local_checkpoints: bool = True
) -> tuple[dict[str, str], list[Tuning]]:
    """Return all settings of a session, and the ones among them added to the given ones.

    Without `local_checkpoints`, only settings that suit every file system are added.

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
    """Return a session with both formats registered; pass each added setting to `say`. ::

    spark = session("orders", master="spark://host:7077", settings={"spark.ui.enabled": "false"})

    Checkpoints of a local master are assumed to be on a local disk. Set `local_checkpoints` to
    false if they are on HDFS or in an object store.
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
        # Workers on this machine use this interpreter, so that they have the same packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in everything.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    for tuning in added:
        say(f"set {tuning.key}={tuning.value}: {tuning.why}")
    register(made)
    return made
