"""Findings of `explain` as table rows and as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from orbitmq.cli.core.messages import MESSAGE_COLUMNS, message_row
from orbitmq.cli.core.printing import Column, OutputTable, local_time

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.explain.findings import Finding

__all__ = ["finding_table", "findings_of_messages", "in_words", "place_in_words"]

COLUMNS: Final = [
    Column("verdict", "Verdict"),
    Column("severity", "Severity"),
    Column("subject", "Of"),
    Column("text", "What"),
    Column("advice", "What to do"),
    Column("evidence", "Evidence"),
]


def finding_table(findings: Iterable[Finding]) -> OutputTable:
    """Return findings as a table."""
    return OutputTable(COLUMNS, [_row(one) for one in findings])


def _row(one: Finding) -> dict[str, Any]:
    return {
        "verdict": str(one.verdict),
        "severity": str(one.severity),
        "subject": one.subject,
        "text": one.text,
        "advice": one.advice,
        "evidence": one.evidence,
    }


def findings_of_messages(
    told: Iterable[tuple[ReceivedMessage, Iterable[Finding]]],
) -> OutputTable:
    """Return findings with the position, the time and the keys of their messages."""
    rows = [
        message_row(message, with_body=False) | _row(one)
        for message, findings in told
        for one in findings
    ]
    return OutputTable([*COLUMNS, *MESSAGE_COLUMNS[:-1]], rows)


def place_in_words(message: ReceivedMessage) -> str:
    """Return a line with a message's queue, offset, store time, keys, tag and id."""
    tag = f", tag {message.tags}" if message.tags else ""
    return (
        f"{message.stored_topic}, {message.queue.broker_name}, queue {message.queue_id}, "
        f"offset {message.queue_offset:,}: stored {local_time(message.store_timestamp)}, "
        f"keys {' '.join(message.keys)}{tag}, id {message.message_id}"
    )


def in_words(findings: Iterable[Finding]) -> str:
    """Return findings as text, with the advice below each."""
    marks = {"fault": "✗", "note": "·", "ok": "✓"}
    lines = []
    for one in findings:
        lines.append(f"{marks[one.severity]} {one.verdict}: {one.text}.")
        if one.advice:
            lines.append(f"    → {one.advice}")
    return "\n".join(lines)
