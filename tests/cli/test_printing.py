"""Tables print their content literally and whole."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from orbitmq.cli.core.printing import Column, Done, Facts, OutputTable, _drawn, present

SAID = "GET [/orders/1] failed for [id]"
ID = "7F000001AB12345678900A1B2C3D4E5F"


def test_brackets_are_printed_literally(capsys: pytest.CaptureFixture[str]) -> None:
    table = OutputTable([Column("a", SAID)], [{"a": SAID}], title=SAID, note=SAID)
    present(table, "table")
    assert capsys.readouterr().out.count(SAID) == 4
    present(Facts({"inner": table, "plain": SAID}, title=SAID), "table")
    assert capsys.readouterr().out.count(SAID) == 6
    drawn = io.StringIO()
    Console(file=drawn, width=80).print(_drawn(Done(SAID)))
    assert SAID in drawn.getvalue()


def test_a_narrow_terminal_folds_ids() -> None:
    drawn = io.StringIO()
    table = OutputTable(
        [Column("id", "Message"), Column("body", "Body")], [{"id": ID, "body": ID[::-1]}]
    )
    Console(file=drawn, width=40).print(_drawn(table))
    rows = [line.split() for line in drawn.getvalue().splitlines()[2:] if line.strip()]
    assert ["".join(parts) for parts in zip(*rows, strict=True)] == [ID, ID[::-1]]
