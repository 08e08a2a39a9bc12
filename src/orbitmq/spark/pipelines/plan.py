"""What a pipeline is once it has been built: streams to start, or a job to run, and its report.

Nothing here has started yet. `Streams` are queries that go on until they are told to stop (or, with
the trigger ``available-now``, until they have caught up); a `Job` works once and reports.
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
    """A small table for people: not the data of a pipeline, but what it has to say about it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, title: str, rows: DataFrame) -> Table:
        """Return all rows of a query as a table, lists as words."""
        shown = tuple(
            tuple(" ".join(cell) if isinstance(cell, list) else cell for cell in row)
            for row in rows.collect()
        )
        return cls(title, tuple(rows.columns), shown)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Report:
    """What a pipeline has found. With faults the command ends with code 3."""

    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """What was written for the reader, such as plots."""
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
    """Queries that run side by side; when one fails the others are stopped."""

    streams: tuple[Stream, ...]
    endless: bool
    """Whether they go on until told to stop."""
    report: Callable[[], Report] | None = None
    """Work to do, and to report on, after all have ended without a failure."""


@dataclass(frozen=True)
class Job:
    """Work that is done once. It runs on a thread of its own; a signal cancels its Spark jobs."""

    run: Callable[[], Report]


def moment(ms: int) -> str:
    """Return a time as reports show it.

    >>> moment(1_700_000_000_123)
    '2023-11-14T22:13:20.123+00:00'
    """
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


# ---- What a build function works with: the Spark session, the file's place, and the wish to stop


@dataclass(frozen=True)
class Trigger:
    """When a stream looks for more: ``5 seconds``, ``available-now`` or ``batch``.

    ``available-now`` takes what is there when it starts, in as many batches as the limits ask for,
    and ends; ``batch`` reads all of it at once and keeps no checkpoint.
    """

    mode: Literal["interval", "available-now", "batch"]
    interval: Interval = field(default=Interval(0))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the value of the key ``trigger``."""
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
    """One run of one pipeline."""

    spark: SparkSession
    directory: Path
    """Where the pipeline's file is; paths in it start there."""
    file: str = "pipeline"
    """The file's name, for messages."""
    once: bool = False
    """Whether to take what is there and end, whatever the file says."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when somebody wants an end; the runner then stops streams and cancels jobs."""
    sources: list[dict[str, str]] = field(default_factory=list)
    """The connector's options of every topic that is read as a stream."""
    undecoded: dict[str, Observation] = field(default_factory=dict)
    """The counts of bodies that could not be decoded, of every source that is read as a batch."""
    log: logging.Logger = field(default=logging.getLogger("orbitmq.pipeline"))

    def locate(self, path: str) -> str:
        """Return a path of the file as Spark takes it."""
        return resolve(path, self.directory)

    def locate_here(self, path: str) -> Path:
        """Return a path of the file as Python takes it."""
        return local_path(path, self.directory)

    def trigger(self, wished: Trigger) -> Trigger:
        """Return the trigger to use."""
        if self.once and wished.mode == "interval":
            return Trigger("available-now")
        return wished

    def with_trigger(self, writer: DataStreamWriter, wished: Trigger) -> DataStreamWriter:
        """Set a stream's trigger."""
        trigger = self.trigger(wished)
        if trigger.mode == "available-now":
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=str(trigger.interval))

    @contextmanager
    def planning(self, key: str) -> Iterator[None]:
        """Turn what Spark finds wrong with a part of the file into a mistake of that key."""
        # Here, as the specs can be checked on a machine without Spark.
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except BadPipeline:
            raise
        # What Spark does not know, such as a file system without its jar, is py4j's own error.
        except (PySparkException, Py4JError, OrbitError, ValueError) as error:
            where = f"{self.file}: {key}" if key else self.file
            raise BadPipeline([f"{where}: {one_line(error)}"]) from error
