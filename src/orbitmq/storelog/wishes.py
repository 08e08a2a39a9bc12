"""What of a log is wanted, as people write it down, made into what the scan understands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

__all__ = [
    "INTERNAL_TOPICS",
    "QueueWishes",
    "is_internal_topic",
    "matching_topics",
    "parse_time_ms",
]

QueueWishes = dict[str, dict[int, tuple[int, int]] | None]
"""Wanted topics, each with first offset and end of its wanted queues, or None for all of them."""

FIRST = 0
END = 2**63 - 1
OTHER_QUEUES = -1
"""In the place of a queue's number: those of the topic that are not named."""

INTERNAL_TOPICS = (
    r"%RETRY%.*|%DLQ%.*|%SYS%.*|RMQ_SYS_.*|rmq_sys_.*|SCHEDULE_TOPIC_XXXX|OFFSET_MOVED_EVENT"
    r"|SELF_TEST_TOPIC|TRANS_CHECK_MAX_TIME_TOPIC|TBW102|BenchmarkTest|.*_REPLY_TOPIC"
)
"""A regular expression, Python's and Java's, for whole names."""
_INTERNAL = re.compile(INTERNAL_TOPICS)


def is_internal_topic(topic: str) -> bool:
    """Whether a topic belongs to brokers and consumers rather than to users."""
    return _INTERNAL.fullmatch(topic) is not None


def matching_topics(pattern: str, topics: Iterable[str]) -> list[str]:
    """Return the users' topics that a pattern matches wholly; internal ones must be named."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return [topic for topic in topics if compiled.fullmatch(topic) and not is_internal_topic(topic)]


def parse_time_ms(value: int | str | datetime) -> int:
    """Return a moment in epoch milliseconds.

    It may be given so, as a datetime that knows its time zone, or as ISO 8601 text, which is UTC
    unless it says otherwise.
    """
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is neither epoch milliseconds nor a time such as 2026-11-16T08:30:00Z"
            ) from None
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} does not say its time zone")
        return round(value.timestamp() * 1000)
    return value


def wishes(
    topics: Iterable[str] | Mapping[str, Iterable[int] | None] | None,
    starting_offsets: Mapping[str, Mapping[int, int]] | None = None,
    ending_offsets: Mapping[str, Mapping[int, int]] | None = None,
) -> QueueWishes | None:
    """Return wanted topics and queues in one table; None is everything.

    Without topics, those that the offsets name are wanted. A queue that the offsets do not name is
    wanted from its first message to its last.
    """
    if topics is None and not starting_offsets and not ending_offsets:
        return None
    named = topics if isinstance(topics, Mapping) else dict.fromkeys(topics or ())
    made: QueueWishes = {}
    for topic, queues in named.items():
        made[topic] = None if queues is None else dict.fromkeys(queues, (FIRST, END))
    for side, offsets in enumerate((starting_offsets or {}, ending_offsets or {})):
        for topic, by_queue in offsets.items():
            if topics is not None and topic not in made:
                raise ValueError(
                    f"offsets are given for topic {topic!r}, which is not among the topics"
                )
            wanted = made.setdefault(topic, None)
            if wanted is None:
                wanted = made[topic] = {OTHER_QUEUES: (FIRST, END)}
            for queue, offset in by_queue.items():
                if queue not in wanted and OTHER_QUEUES not in wanted:
                    raise ValueError(
                        f"an offset is given for queue {queue} of topic {topic!r}, "
                        "which is not among the queues"
                    )
                first, end = wanted.get(queue, (FIRST, END))
                wanted[queue] = (offset, end) if side == 0 else (first, offset)
    return made
