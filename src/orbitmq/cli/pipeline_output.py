"""Output of ``orbitmq pipeline``: tables and lines for people, JSON lines for programs.

Progress is for people and goes to stderr. On a terminal it is a table that is redrawn in place,
elsewhere one line per batch, at most one a second for each query. With ``--output json`` every
batch, the report and the end are objects on stdout. Secrets are removed from all output.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from orbitmq.spark.pipelines.secrets import RedactingFilter

if TYPE_CHECKING:
    from orbitmq.spark.pipelines.plan import Report
    from orbitmq.spark.pipelines.progress import BatchProgress
    from orbitmq.spark.pipelines.secrets import Secrets
    from orbitmq.spark.pipelines.spec import Loaded

__all__ = ["RunDisplay", "display_for", "print_spec"]

COLUMNS = (
    *("query", "batch", "rows", "undecoded", "rows/s in", "rows/s done", "lag", "batch ms"),
    "watermark",
)
LINE_EVERY_S = 1.0


class RunDisplay(Protocol):
    """Display of a run: its progress, report and end."""

    def progress(self, progress: BatchProgress) -> None:
        """Show a micro-batch."""

    def say(self, text: str) -> None:
        """Show a line of text."""

    def report(self, report: Report) -> None:
        """Show the report."""

    def failed(self, text: str) -> None:
        """Show the error of a failed run."""

    def ended(self, code: int) -> None:
        """Show the exit code."""


@contextmanager
def display_for(output: str, secrets: Secrets, verbosity: int) -> Iterator[RunDisplay]:
    """Yield the display for a run."""
    redacting = RedactingFilter(secrets)
    handlers = logging.getLogger().handlers
    if output == "json":
        for handler in handlers:
            handler.setFormatter(JsonFormatter())
    for handler in handlers:
        handler.addFilter(redacting)
    if output == "json":
        yield JsonDisplay(secrets)
    elif sys.stderr.isatty():
        with LiveDisplay(secrets) as live:
            yield live
    else:
        yield LineDisplay(secrets, every_s=0 if verbosity > 0 else LINE_EVERY_S)


class JsonFormatter(logging.Formatter):
    """Formats log records as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_text or record.exc_info:
            line["error"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        return json.dumps(line)


class JsonDisplay:
    """Prints JSON objects to stdout."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._lock = threading.Lock()

    def _print(self, event: str, **facts: Any) -> None:
        line = json.dumps(self._secrets.shown({"event": event, **facts}), default=str)
        with self._lock:
            click.echo(line)

    def progress(self, progress: BatchProgress) -> None:
        """Show a micro-batch."""
        self._print("progress", **progress.as_dict())

    def say(self, text: str) -> None:
        """Show a line of text."""
        self._print("said", text=text)

    def report(self, report: Report) -> None:
        """Show the report."""
        tables = {table.title: table.as_dicts() for table in report.tables}
        self._print(
            "report",
            faults=report.faults,
            facts=report.facts,
            tables=tables,
            notes=list(report.notes),
            files=list(report.files),
        )

    def failed(self, text: str) -> None:
        """Show the error of a failed run."""
        self._print("failed", error=text)

    def ended(self, code: int) -> None:
        """Show the exit code."""
        self._print("ended", exit_code=int(code))


class LineDisplay:
    """Prints lines to stderr and the report to stdout."""

    def __init__(self, secrets: Secrets, every_s: float = LINE_EVERY_S) -> None:
        self._secrets = secrets
        self._every_s = every_s
        self._shown_at: dict[str, float] = {}

    def progress(self, progress: BatchProgress) -> None:
        """Show a micro-batch, unless one of this query was shown within `every_s` seconds."""
        now = time.monotonic()
        if now - self._shown_at.get(progress.query, -self._every_s) < self._every_s:
            return
        self._shown_at[progress.query] = now
        values = zip(COLUMNS[1:], _cells(progress)[1:], strict=True)
        self.say(f"{progress.query}: " + ", ".join(f"{name} {value}" for name, value in values))

    def say(self, text: str) -> None:
        """Show a line of text."""
        click.echo(self._secrets.strike_out(text), err=True)

    def report(self, report: Report) -> None:
        """Show the report."""
        # Do not fold lines in a file or a pipe: programs search them for whole ids.
        width = None if sys.stdout.isatty() else 10_000
        _print_report(Console(file=sys.stdout, width=width), report, self._secrets)

    def failed(self, text: str) -> None:
        """Show the error of a failed run."""
        self.say(f"Error: {text}")

    def ended(self, code: int) -> None:
        """Print nothing: the shell has the exit code."""


class LiveDisplay(LineDisplay):
    """Shows progress as a table on the terminal that is redrawn in place."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__(secrets)
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)
        self._newest: dict[str, BatchProgress] = {}

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def progress(self, progress: BatchProgress) -> None:
        """Redraw the table with this micro-batch."""
        self._newest[progress.query] = progress
        table = RichTable(*COLUMNS, expand=False)
        for newest in self._newest.values():
            table.add_row(*map(Text, _cells(newest)))
        self._live.update(table, refresh=True)

    def say(self, text: str) -> None:
        """Show a line above the table."""
        self._live.console.print(self._secrets.strike_out(text), markup=False, highlight=False)


def _cells(progress: BatchProgress) -> tuple[str, ...]:
    return (
        progress.query,
        str(progress.batch_id),
        f"{progress.rows:,}",
        "-" if progress.undecoded is None else f"{progress.undecoded:,}",
        f"{progress.input_rows_per_s:,.0f}",
        f"{progress.processed_rows_per_s:,.0f}",
        "-" if progress.lag is None else f"{progress.lag:,}",
        f"{progress.duration_ms:,}",
        progress.watermark or "-",
    )


def _print_report(console: Console, report: Report, secrets: Secrets) -> None:
    for table in report.tables:
        # As Text, because rich interprets brackets in a plain str as markup.
        drawn = RichTable(title=Text(table.title), title_justify="left")
        for name in table.columns:
            drawn.add_column(Text(name), overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Text(secrets.strike_out(_text(cell))) for cell in row))
        console.print(drawn)
    for note in report.notes:
        console.print(Text(secrets.strike_out(note)), soft_wrap=True)
    for file in report.files:
        console.print(Text(f"written: {file}"), soft_wrap=True)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return str(cell)


def print_spec(loaded: Loaded, output: str) -> None:
    """Print the checked specification of a pipeline."""
    spec = loaded.spec
    if output == "json":
        shown = loaded.secrets.shown(dataclasses.asdict(spec))
        click.echo(json.dumps(shown, indent=2, default=str))
    else:
        click.echo(f"{loaded.file.name}: a pipeline of kind '{spec.kind}', without mistakes")
