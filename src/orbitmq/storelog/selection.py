"""Conversion of users' selections (topics, queues, times, offsets) into the scan's form."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import SupportsIndex

__all__ = [
    "INTERNAL_TOPICS",
    "QueueWishes",
    "is_internal_topic",
    "matching_topics",
    "names",
    "parse_time_ms",
    "whole_number",
    "wishes",
]

QueueWishes = dict[str, dict[int, tuple[int, int]] | None]
"""Selected topics, each with first offset and end (exclusive) of its selected queues, or None for
all queues."""

FIRST = 0
END = 2**63 - 1
ALL = (FIRST, END)
LAST_QUEUE = 2**31 - 1
OTHER_QUEUES = -1
"""Key in the place of a queue number: stands for all queues of the topic that are not named."""

INTERNAL_TOPICS = (
    r"%RETRY%.*|%DLQ%.*|%SYS%.*|RMQ_SYS_.*|rmq_sys_.*|SCHEDULE_TOPIC_XXXX|OFFSET_MOVED_EVENT"
    r"|SELF_TEST_TOPIC|TRANS_CHECK_MAX_TIME_TOPIC|TBW102|BenchmarkTest|.*_REPLY_TOPIC"
)
"""Regular expression for whole names of internal topics, valid in Python and in Java."""
_INTERNAL = re.compile(INTERNAL_TOPICS)


def is_internal_topic(topic: str) -> bool:
    """Return True for a topic of brokers and consumers, False for a user's topic."""
    return _INTERNAL.fullmatch(topic) is not None


def matching_topics(pattern: str, topics: Iterable[str]) -> list[str]:
    """Return the users' topics that a pattern fully matches; internal topics must be named."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return [topic for topic in topics if compiled.fullmatch(topic) and not is_internal_topic(topic)]


def names(given: object, parameter: str) -> tuple[str, ...]:
    """Return a tuple of names from a list or a single name; other types raise TypeError.

    >>> names("orders", "topics"), names(["orders", "returns"], "topics")
    (('orders',), ('orders', 'returns'))
    """
    several = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else given
    made = tuple(several)
    for name in made:
        if not isinstance(name, str):
            raise TypeError(f"{parameter} is a name or a list of names, and {name!r} is none")
    return made


def whole_number(value: object, parameter: str, least: int = 0, most: int = END) -> int:
    """Return a whole number; text is accepted, because JSON keys are text.

    >>> whole_number("12", "splits")
    12
    """
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{parameter} is a whole number, not {value!r}")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{parameter} is {least} or more, not {number}")
    if number > most:
        raise ValueError(f"{parameter} is {most} at most, not {number}")
    return number


def parse_time_ms(value: int | str | date, parameter: str = "a time") -> int:
    """Return a time in epoch milliseconds.

    Accepts epoch milliseconds, a datetime with a time zone, a date (its midnight in UTC), or ISO
    8601 text (UTC unless it names a time zone).
    """
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"-?\d+", text):
            return whole_number(int(text), parameter, least=-END)
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is neither epoch milliseconds nor a time such as 2026-11-16T08:30:00Z"
            ) from None
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} does not say its time zone")
        return round(value.timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(
            f"{parameter} is epoch milliseconds, ISO 8601 text, a date or a datetime with its time "
            f"zone, not {value!r}"
        )
    return whole_number(value, parameter, least=-END)


def wishes(
    topics: Iterable[str] | Mapping[str, int | Iterable[int] | None] | None,
    starting_offsets: Mapping[str, Mapping[int, int]] | None = None,
    ending_offsets: Mapping[str, Mapping[int, int]] | None = None,
) -> QueueWishes | None:
    """Return the selected topics and queues as one table; None selects everything.

    Without `topics`, the topics of the offsets are selected. A queue without offsets is selected
    from its first message to its last.
    """
    if topics is None and not starting_offsets and not ending_offsets:
        return None
    made: QueueWishes = {}
    for topic in names(() if topics is None else topics, "topics"):
        queues = topics[topic] if isinstance(topics, Mapping) else None
        made[topic] = None if queues is None else dict.fromkeys(_numbers(queues, topic), ALL)
    sides = (starting_offsets, "starting_offsets"), (ending_offsets, "ending_offsets")
    for side, (given, parameter) in enumerate(sides):
        for topic, by_queue in _offsets(given or {}, parameter).items():
            if topics is not None and topic not in made:
                raise ValueError(
                    f"offsets are given for topic {topic!r}, which is not among the topics"
                )
            wanted = made.setdefault(topic, None)
            if wanted is None:
                wanted = made[topic] = {OTHER_QUEUES: ALL}
            for queue, offset in by_queue.items():
                if queue not in wanted and OTHER_QUEUES not in wanted:
                    raise ValueError(
                        f"an offset is given for queue {queue} of topic {topic!r}, "
                        "which is not among the queues"
                    )
                first, end = wanted.get(queue, ALL)
                wanted[queue] = (offset, end) if side == 0 else (first, offset)
    return made


def _numbers(queues: object, topic: str) -> list[int]:
    """Return the queue numbers of a topic, from a list or a single number."""
    several = queues if isinstance(queues, Iterable) and not isinstance(queues, str) else (queues,)
    return [_queue_id(each, topic, "topics") for each in several]


def _queue_id(value: object, topic: str, parameter: str) -> int:
    return whole_number(value, f"a queue of topic {topic!r} in {parameter}", most=LAST_QUEUE)


def _offsets(given: object, parameter: str) -> dict[str, dict[int, int]]:
    """Return offsets by topic and queue as numbers."""
    made: dict[str, dict[int, int]] = {}
    for topic, by_queue in given.items() if isinstance(given, Mapping) else [("", None)]:
        if not isinstance(topic, str) or not isinstance(by_queue, Mapping):
            raise TypeError(f"{parameter} is such as {{'orders': {{0: 12}}}}, not {given!r}")
        made[topic] = {
            _queue_id(queue, topic, parameter): whole_number(
                offset, f"an offset of topic {topic!r} in {parameter}"
            )
            for queue, offset in by_queue.items()
        }
    return made
