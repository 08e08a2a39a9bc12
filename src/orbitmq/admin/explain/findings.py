"""Findings: the results of a diagnosis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

__all__ = ["Finding", "Severity", "Verdict", "has_fault", "when"]


class Severity(StrEnum):
    """Importance of a finding."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is wrong."""
    FAULT = "fault"
    """Something does not work, or will not work without help."""


class Verdict(StrEnum):
    """Kind of a finding, in a word."""

    # of groups
    NOBODY_ONLINE = "nobody-online"
    CONSUMING_DISABLED = "consuming-disabled"
    TOPIC_MISSING = "topic-missing"
    TOPIC_NOT_READABLE = "topic-not-readable"
    BROKER_DOWN = "broker-down"
    SUBSCRIPTIONS_DIFFER = "subscriptions-differ"
    MORE_CONSUMERS_THAN_QUEUES = "more-consumers-than-queues"
    QUEUE_WITHOUT_OWNER = "queue-without-owner"
    STUCK_ON_MESSAGE = "stuck-on-message"
    NOT_PULLING = "not-pulling"
    NOT_LOCKED = "not-locked"
    FLOW_CONTROLLED = "flow-controlled"
    CONSUMER_SILENT = "consumer-silent"
    OFFSET_EXPIRED = "offset-expired"
    OFFSET_AHEAD = "offset-ahead"
    CATCHING_UP = "catching-up"
    HAS_DEAD_LETTERS = "has-dead-letters"
    NOTHING_WANTED = "nothing-wanted"
    # of messages
    CONSUMED = "consumed"
    WAITING = "waiting"
    FILTERED_BY_TAG = "filtered-by-tag"
    FILTERED_BY_SQL = "filtered-by-sql"
    RETRYING = "retrying"
    DEAD_LETTER = "dead-letter"
    HALF_MESSAGE = "half-message"
    ROLLED_BACK = "rolled-back"
    DISCARDED = "discarded"
    DELAYED = "delayed"
    EXPIRED = "expired"
    NOT_FOUND = "not-found"
    NOBODY_CONSUMES = "nobody-consumes"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a diagnosis.

    >>> Finding(Verdict.CONSUMED, Severity.OK, "billing", "it is done with it").verdict.value
    'consumed'
    """

    verdict: Verdict
    severity: Severity
    subject: str
    """Group, or message and group, of the finding."""
    text: str
    """Sentence that describes the finding."""
    advice: str = ""
    """Next step for the reader."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """Numbers of the finding, for programs."""


def has_fault(findings: Iterable[Finding]) -> bool:
    """Return True if any finding is a fault."""
    return any(one.severity is Severity.FAULT for one in findings)


def when(epoch_ms: int) -> str:
    """Return the text of a time for a sentence, in the reader's own zone."""
    moment = datetime.fromtimestamp(epoch_ms / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")
