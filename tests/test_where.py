"""`docs/WHERE.md` names files and names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (.+\?) \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)

ROWS = ROW.findall((ROOT / "docs" / "WHERE.md").read_text())


def test_the_page_answers_at_least_thirty_questions() -> None:
    assert len(ROWS) >= 30
    assert len({question for question, _, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("question", "file", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_the_file_of_a_question_has_the_name(question: str, file: str, name: str) -> None:
    path = ROOT / (file if file.startswith("crates/") else f"src/orbitmq/{file}")
    assert path.is_file(), f"{question} {path.relative_to(ROOT)} does not exist"
    found = re.search(rf"\b{re.escape(name)}\b", path.read_text())
    assert found, f"{question} {path.relative_to(ROOT)} has no {name}"
