"""What a pipeline is once it has been built: streams to start, or a job to run, and its report.

Nothing here has started yet. `Streams` are queries that go on until they are told to stop (or, with
the trigger ``available-now``, until they have caught up); a `Job` works once and reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Job", "Report", "Stream", "Streams", "Table", "moment"]


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
