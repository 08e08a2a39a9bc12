"""Plan of a built pipeline: streams to start, or a job to run, and its report.

A plan has not started yet. `Streams` are queries that run until they are stopped. With the trigger
``available-now`` they end when they have caught up. A `Job` runs once and returns a report.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from orbitmq.errors import BadPipeline, OrbitError
from orbitmq.spark.pipelines.failures import one_line
from orbitmq.spark.pipelines.spec import Interval, local_path, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Job", "Report", "Stream", "Streams", "Table", "Trigger", "Workspace", "moment"]


@dataclass(frozen=True)
class Table:
    """Small table of a report for people; it describes the data of a pipeline."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, title: str, rows: DataFrame) -> Table:
        """Return all rows of a query as a table; the items of a list are joined with spaces."""
        shown = tuple(
            tuple(" ".join(cell) if isinstance(cell, list) else cell for cell in row)
            for row in rows.collect()
        )
        return cls(title, tuple(rows.columns), shown)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Report:
    """Findings of a pipeline. With faults the command ends with exit code 3."""

    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files that were written for the reader, such as plots."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Figures by name, for programs that read the report as JSON."""
    faults: int = 0


@dataclass(frozen=True)
class Stream:
    """One streaming query."""

    name: str
    start: Callable[[], StreamingQuery]


@dataclass(frozen=True)
class Streams:
    """Queries that run at the same time; when a query fails, the others are stopped."""

    streams: tuple[Stream, ...]
    endless: bool
    """True if the queries run until they are stopped."""
    report: Callable[[], Report] | None = None
    """Work to do after all queries have ended without a failure; returns the report."""


@dataclass(frozen=True)
class Job:
    """Work that is done once, on a thread of its own. A signal cancels its Spark jobs."""

    run: Callable[[], Report]


def moment(ms: int) -> str:
    """Return a time in epoch milliseconds as reports show it.

    >>> moment(1_700_000_000_123)
    '2023-11-14T22:13:20.123+00:00'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


# ---- Workspace of a build function: Spark session, directory of the file, stop event


@dataclass(frozen=True)
class Trigger:
    """Trigger of a stream: an interval such as ``5 seconds``, ``available-now`` or ``batch``.

    ``available-now`` reads the messages that are stored at the start, in as many batches as the
    limits require, and ends. ``batch`` reads all of them at once and keeps no checkpoint.
    """

    mode: Literal["interval", "available-now", "batch"]
    interval: Interval = field(default=Interval(0))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the value of the key ``trigger``."""
        if text in ("available-now", "batch"):
            return cls(text)  # type: ignore[arg-type]
        try:
            return cls("interval", Interval.parse(text))
        except ValueError:
            raise ValueError(
                f"{text!r} is neither a length of time such as '5 seconds' "
                "nor 'available-now' nor 'batch'"
            ) from None


@dataclass
class Workspace:
    """State of one run of a pipeline, for its build function."""

    spark: SparkSession
    directory: Path
    """Directory of the pipeline's file; relative paths in the file start there."""
    file: str = "pipeline"
    """Name of the pipeline's file, for messages."""
    once: bool = False
    """True to use ``available-now`` in place of an interval that the file names."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set to end the run; the runner then stops streams and cancels jobs."""
    sources: list[dict[str, str]] = field(default_factory=list)
    """Connector options of every topic source that is read as a stream."""
    undecoded: dict[str, Observation] = field(default_factory=dict)
    """Observed counts of undecodable bodies, by name of a source that is read as a batch."""
    log: logging.Logger = field(default=logging.getLogger("orbitmq.pipeline"))

    def locate(self, path: str) -> str:
        """Return a path in the pipeline's file as Spark needs it."""
        return resolve(path, self.directory)

    def locate_here(self, path: str) -> Path:
        """Return a path in the pipeline's file as a local path for Python."""
        return local_path(path, self.directory)

    def trigger(self, wished: Trigger) -> Trigger:
        """Return the trigger to use: with `once`, ``available-now`` in place of an interval."""
        if self.once and wished.mode == "interval":
            return Trigger("available-now")
        return wished

    def with_trigger(self, writer: DataStreamWriter, wished: Trigger) -> DataStreamWriter:
        """Return the writer with the trigger to use."""
        trigger = self.trigger(wished)
        if trigger.mode == "available-now":
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=str(trigger.interval))

    @contextmanager
    def planning(self, key: str) -> Iterator[None]:
        """Turn errors of Spark in a part of the file into a mistake of its key."""
        # Imported here, because specs can be checked on a machine without Spark.
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except BadPipeline:
            raise
        # Some failures, such as a file system whose jar is missing, are py4j's own errors.
        except (PySparkException, Py4JError, OrbitError, ValueError) as error:
            where = f"{self.file}: {key}" if key else self.file
            raise BadPipeline([f"{where}: {one_line(error)}"]) from error
