"""Display of a run: a redrawn table on a terminal, lines elsewhere, never a secret."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from orbitmq.cli.pipeline_output import LineDisplay, LiveDisplay, _print_report
from orbitmq.spark.pipelines import Mistakes, Report, Table
from orbitmq.spark.pipelines.progress import BatchProgress
from orbitmq.spark.pipelines.secrets import Secrets

SECRET = "hunter2hunter2"
UP = "\x1b[1A"
"""The cursor goes up a line: something is redrawn in place."""


def secrets() -> Secrets:
    """Secrets of a file that takes one from the environment."""
    made = Secrets()
    made.fill_in({"secretKey": "${THE_SECRET}"}, {"THE_SECRET": SECRET}, Mistakes("orders.toml"))
    return made


def progress(query: str, batch: int, **facts: Any) -> BatchProgress:
    known: dict[str, Any] = {
        "query": query,
        "batch_id": batch,
        "timestamp": "2026-01-05T09:00:00Z",
        "rows": 1200,
        "input_rows_per_s": 2400.4,
        "processed_rows_per_s": 4800.0,
        "duration_ms": 250,
        "lag": 31_000,
        "watermark": "2026-01-05T08:59:00.000Z",
        "state_rows": 0,
        "undecoded": 3,
    }
    return BatchProgress(**known | facts)


def test_a_terminal_shows_a_table_that_is_redrawn() -> None:
    seen = io.StringIO()
    display = LiveDisplay(secrets())
    console = Console(file=seen, force_terminal=True, width=160)
    display._live.console = console
    with display:
        display.progress(progress("orders", 1))
        display.progress(progress("payments", 7, lag=None, watermark=None))
        display.say(f"signed with {SECRET}")
        display.progress(progress("orders", 2, lag=0))
    drawn = seen.getvalue()
    assert UP in drawn
    last = drawn[drawn.rindex("query") :]
    for title in ("batch", "undecoded", "rows/s in", "rows/s done", "lag", "batch ms", "watermark"):
        assert title in last
    (orders,) = [line for line in last.splitlines() if "orders" in line]
    for cell in ("1,200", "2,400", "4,800", "250", "2026-01-05T08:59:00.000Z"):
        assert cell in orders
    assert "31,000" not in orders, "the newest batch has no lag"
    assert "payments" in last
    assert SECRET not in drawn


ID = "7F000001AB12345678900A1B2C3D4E5F"
CAUSE = "GET [/orders/1] failed for [id], [bold]told"


def test_a_report_is_printed_literally_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are not markup, and in a pipe nothing is cut or folded."""
    columns = tuple(f"column [{number}]" for number in range(8))
    row = (ID, CAUSE, *(f"{ID}-{number}" for number in range(6)))
    note = f"{CAUSE} {ID * 4}"
    table = Table("T [/t]", columns, (row,))
    LineDisplay(secrets()).report(Report(tables=(table,), notes=(note,), files=(note,)))
    shown = capsys.readouterr().out.splitlines()
    (line,) = [line for line in shown if CAUSE in line and "│" in line]
    assert [cell.strip() for cell in line.strip("│").split("│")] == list(row)
    assert all(f"column [{number}]" in "".join(shown) for number in range(8))
    assert shown[0].strip() == "T [/t]"
    assert shown[-2:] == [note, f"written: {note}"]


def test_a_narrow_terminal_folds_long_cells() -> None:
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=True, width=40)
    row = (ID, f"{ID[::-1]}")
    _print_report(console, Report(tables=(Table("T", ("a", "b"), (row,)),)), secrets())
    cells = [line.split("│")[1:3] for line in seen.getvalue().splitlines() if "│" in line]
    assert tuple("".join(part).replace(" ", "") for part in zip(*cells, strict=True)) == row


def test_a_query_name_may_contain_brackets() -> None:
    seen = io.StringIO()
    display = LiveDisplay(secrets())
    display._live.console = Console(file=seen, force_terminal=True, width=160)
    with display:
        display.progress(progress("orders [/x]", 1))
    assert "orders [/x]" in seen.getvalue()


def test_progress_is_printed_as_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    display = LineDisplay(secrets(), every_s=3600)
    display.progress(progress("orders", 1))
    display.progress(progress("orders", 2))
    display.progress(progress("payments", 1))
    display.failed(f"refused: {SECRET}")
    display.report(Report(tables=(Table("T", ("key",), ((SECRET,),)),), notes=("a note",)))
    shown = capsys.readouterr()
    orders, payments, failed = shown.err.splitlines()
    assert orders.startswith(
        "orders: batch 1, rows 1,200, undecoded 3, rows/s in 2,400, rows/s done 4,800, "
    )
    assert orders.endswith("lag 31,000, batch ms 250, watermark 2026-01-05T08:59:00.000Z")
    assert payments.startswith("payments: ")
    assert failed.startswith("Error: refused: ")
    assert "a note" in shown.out
    assert SECRET not in shown.err + shown.out
