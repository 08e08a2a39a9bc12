"""Printing of the answers of all commands: tables for people, JSON for programs.

A command returns an answer and does not print. In JSON an `OutputTable` is a list of objects, a
`Facts` one object, a `Done` an object with ``done`` and the values of the change. The keys are part
of the interface and do not change. Times are epoch milliseconds in JSON and local time in tables.
Data goes to stdout, messages for people go to stderr.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from orbitmq.cli.core.pipes import goes_on_unread
from orbitmq.cli.core.progress import unshown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "Answer",
    "Column",
    "Done",
    "Facts",
    "OutputTable",
    "local_time",
    "present",
    "say",
    "watch",
]

Kind = Literal["text", "number", "time", "rate"]
Output = Literal["table", "json"]


class Column(NamedTuple):
    """A column: key in JSON, heading in a table, and kind of values."""

    key: str
    heading: str
    kind: Kind = "text"


@dataclass(slots=True)
class OutputTable:
    """Table of rows, with values by the keys of the columns."""

    columns: Sequence[Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    title: str | None = None
    note: str | None = None
    """A line below the table; JSON does not contain it."""

    def as_json(self) -> Any:
        """Return the value to print as JSON."""
        keys = [column.key for column in self.columns]
        return [{key: row.get(key) for key in keys} for row in self.rows]


@dataclass(slots=True)
class Facts:
    """Values of one object by name; a value may be a table."""

    values: Mapping[str, Any]
    title: str | None = None

    def as_json(self) -> Any:
        """Return the value to print as JSON."""
        return {
            key: value.as_json() if isinstance(value, OutputTable) else value
            for key, value in self.values.items()
        }


@dataclass(slots=True)
class Done:
    """A completed change: a sentence for people, values for programs."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> Any:
        """Return the value to print as JSON."""
        return {"done": True, **self.values}


def in_common(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values that are equal in all rows, and None for keys whose values differ."""
    first, *others = rows
    return {
        key: value if all(other[key] == value for other in others) else None
        for key, value in first.items()
    }


Answer = OutputTable | Facts | Done


def present(answer: Answer, output: Output) -> None:
    """Print an answer; if the reader is gone, the command still runs to its end and exit code."""
    with goes_on_unread():
        _print(answer, output)


def say(text: str) -> None:
    """Print a text, with the same handling of a closed pipe as `present`."""
    with goes_on_unread():
        click.echo(text)


def _print(answer: Answer, output: Output) -> None:
    if output == "json":
        click.echo(json.dumps(answer.as_json(), ensure_ascii=False, indent=2))
    elif isinstance(answer, Done):
        click.echo(answer.text)
    else:
        _console().print(_drawn(answer))


def watch(look: Callable[[], Answer], output: Output, every_s: float, times: int | None) -> None:
    """Call `look` and print its answer repeatedly, `times` times or until Ctrl-C.

    On a terminal the newest answer replaces the last one. In JSON each answer is one line.
    """
    looks = 0
    live = None
    beside: Callable[[], AbstractContextManager[None]] = nullcontext
    if output == "table" and sys.stdout.isatty():
        from rich.live import Live

        live = Live(console=_console(), auto_refresh=False)
        live.start()
        beside = unshown
    try:
        while True:
            with beside():
                answer = look()
            if output == "json":
                click.echo(json.dumps(answer.as_json(), ensure_ascii=False))
            elif live is not None:
                live.update(_drawn(answer), refresh=True)
            else:
                _print(answer, output)
            looks += 1
            if looks == times:
                return
            time.sleep(every_s)
    except KeyboardInterrupt:
        return
    finally:
        if live is not None:
            live.stop()


def _console() -> Console:
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would exit with code 1; `orbitmq.cli.core.pipes` handles this

    # Do not fold lines in a file or a pipe, so that `grep` finds whole rows.
    width = None if sys.stdout.isatty() else 10_000
    return Piped(file=sys.stdout, width=width, soft_wrap=False, highlight=False)


def _drawn(answer: Answer) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    if isinstance(answer, OutputTable):
        drawn: list[RenderableType] = [_draw_table(answer)]
        return Group(*drawn, Text(answer.note)) if answer.note else drawn[0]
    if isinstance(answer, Done):
        return Text(answer.text)
    inner = [value for value in answer.values.values() if isinstance(value, OutputTable)]
    plain = {key: text for key, text in answer.values.items() if not isinstance(text, OutputTable)}
    columns = [Column("name", ""), Column("value", "")]
    rows = [{"name": key, "value": text} for key, text in plain.items()]
    facts = _draw_table(OutputTable(columns, rows, answer.title), header=False)
    return Group(facts, *(_drawn(table) for table in inner))


def _draw_table(table: OutputTable, *, header: bool = True) -> RenderableType:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=box.SIMPLE_HEAD,
        show_header=header,
        # As Text, because rich interprets brackets in a plain str as markup.
        title=None if table.title is None else Text(table.title),
        title_justify="left",
        show_edge=False,
        pad_edge=False,
    )
    for column in table.columns:
        right = column.kind in ("number", "rate")
        drawn.add_column(
            Text(column.heading),
            justify="right" if right else "left",
            no_wrap=right,
            overflow="ellipsis" if right else "fold",
        )
    for row in table.rows:
        drawn.add_row(*(Text(_text(row.get(one.key), one.kind)) for one in table.columns))
    return drawn


def _text(value: Any, kind: Kind) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() if kind == "time":
            return local_time(value) if value > 0 else "-"
        case float() | int() if kind == "rate":
            return f"{value:,.1f}"
        case int() if kind == "number":
            return f"{value:,}"
        case list() | tuple():
            return ", ".join(str(one) for one in value)
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def local_time(epoch_ms: int) -> str:
    """Return a time as local date and time with milliseconds.

    >>> local_time(0)[:4] in ("1969", "1970")
    True
    """
    moment = datetime.fromtimestamp(epoch_ms / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{epoch_ms % 1000:03d}"
