"""Findings as rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from orbitmq.cli.printing import Column, Table

if TYPE_CHECKING:
    from orbitmq.admin.explain.findings import Finding

__all__ = ["finding_table", "in_words"]

COLUMNS: Final = [
    Column("verdict", "Verdict"),
    Column("severity", "Severity"),
    Column("subject", "Of"),
    Column("text", "What"),
    Column("advice", "What to do"),
    Column("evidence", "Evidence"),
]


def finding_table(findings: Iterable[Finding]) -> Table:
    """Return findings as a table."""
    rows = [
        {
            "verdict": str(one.verdict),
            "severity": str(one.severity),
            "subject": one.subject,
            "text": one.text,
            "advice": one.advice,
            "evidence": one.evidence,
        }
        for one in findings
    ]
    return Table(COLUMNS, rows)


def in_words(findings: Iterable[Finding]) -> str:
    """Return findings as sentences."""
    marks = {"fault": "✗", "note": "·", "ok": "✓"}
    lines = []
    for one in findings:
        lines.append(f"{marks[one.severity]} {one.verdict}: {one.text}.")
        if one.advice:
            lines.append(f"    → {one.advice}")
    return "\n".join(lines)
