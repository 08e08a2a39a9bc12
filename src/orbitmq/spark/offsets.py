"""Offsets as JSON: ``{"topic": {"broker": {"0": 12}}}``.

A queue is a topic, a broker and a number; numbers repeat on each broker, so offsets have three
levels. Spark compares offsets as text, so what is written is sorted, queues by their number. With
one broker its level may be left out where people write; such queues have no broker name until
`with_brokers` gives them one.

The offsets of a stream also say how the batch that ends there was planned. They are in the
checkpoint before the batch runs, so one that is run again is divided as it was, however many cores
there are by then and whatever has expired. No topic has such names:

- ``"#tasks": 2``: for how many tasks that run at once;
- ``"#least": 32``: how many offsets a task was to have before there was another one;
- ``"#begins": {"topic": …}``: where it begins in queues in which that is not where the batch before
  it ended. Those are new, or messages had expired.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import MessageQueue

__all__ = [
    "BEGINS",
    "EARLIEST",
    "LATEST",
    "LEAST",
    "NO_TOPICS",
    "TASKS",
    "OffsetBounds",
    "Offsets",
    "QueueRange",
    "as_json",
    "begins_in",
    "from_json",
    "least_in",
    "parse_assignment",
    "parse_offsets",
    "tasks_in",
    "with_brokers",
]

EARLIEST = -2
LATEST = -1
TASKS = "#tasks"
LEAST = "#least"
BEGINS = "#begins"
NO_TOPICS = frozenset({TASKS, LEAST, BEGINS})

Offsets = dict[MessageQueue, int]


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The first offset a queue still has, and the one its next message will get."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class QueueRange:
    """A stretch of a queue: from `start` up to before `end`."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets it has. With a filter there may be fewer messages."""
        return self.end - self.start

    def within(self, other: QueueRange) -> QueueRange:
        """Return what both have in common, maybe nothing."""
        start = min(max(self.start, other.start), self.end)
        return QueueRange(self.queue, start, max(min(self.end, other.end), start))


def as_json(
    offsets: Mapping[MessageQueue, int],
    tasks: int | None = None,
    begins: Mapping[MessageQueue, int] | None = None,
    least: int | None = None,
) -> dict[str, Any]:
    """Write offsets, in the one order that equal offsets have, and how their batch was planned.

    >>> as_json({MessageQueue("t", "b", 10): 7, MessageQueue("t", "b", 2): 5}, tasks=4, least=32)
    {'#tasks': 4, '#least': 32, 't': {'b': {'2': 5, '10': 7}}}
    """
    value: dict[str, Any] = {} if tasks is None else {TASKS: tasks}
    if least is not None:
        value[LEAST] = least
    if begins:
        value[BEGINS] = as_json(begins)
    for queue in sorted(offsets):
        of_broker = value.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
        of_broker[str(queue.queue_id)] = offsets[queue]
    return value


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Read what `as_json` has written."""
    return {
        MessageQueue(topic, broker, int(queue_id)): int(offset)
        for topic, brokers in value.items()
        if topic not in NO_TOPICS
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def tasks_in(value: Mapping[str, Any]) -> int | None:
    """Return for how many tasks the batch that ends here was planned; None if it does not say."""
    tasks = value.get(TASKS)
    return None if tasks is None else int(tasks)


def least_in(value: Mapping[str, Any]) -> int | None:
    """Return how many offsets each task of that batch was to have; None if it does not say."""
    least = value.get(LEAST)
    return None if least is None else int(least)


def begins_in(value: Mapping[str, Any]) -> Offsets:
    """Return where the batch that ends here begins, of queues in which the one before does not say.

    >>> begins_in({"#begins": {"t": {"b": {"0": 3}}}, "t": {"b": {"0": 9}}})
    {MessageQueue(topic='t', broker_name='b', queue_id=0): 3}
    """
    return from_json(value.get(BEGINS) or {})


def parse_offsets(option: str, text: str, *, least: int = EARLIEST) -> Offsets:
    """Read offsets that a user has written; `least` is the smallest number that makes sense."""
    shape = '{"topic": {"broker": {"0": 12}}}'
    offsets: Offsets = {}
    for topic, brokers in _object(option, text, shape).items():
        if topic in NO_TOPICS:
            continue  # copied from a checkpoint or from a query's progress
        if not isinstance(brokers, dict):
            raise ConfigError(f"option {option}: topic {topic!r} needs an object, as in {shape}")
        if all(isinstance(value, int) for value in brokers.values()):
            brokers = {"": brokers}
        for broker, queues in brokers.items():
            if not isinstance(queues, dict):
                raise ConfigError(
                    f"option {option}: broker {broker!r} of {topic!r} needs an object, as in "
                    f"{shape}"
                )
            for queue_id, offset in queues.items():
                queue = MessageQueue(topic, broker, _queue_id(option, topic, queue_id))
                is_number = isinstance(offset, int) and not isinstance(offset, bool)
                if not is_number or not least <= offset < 1 << 63:
                    raise ConfigError(
                        f"option {option}: {offset!r} of queue {queue_id} of {topic!r} is not a "
                        f"number from {least} on, below 2^63"
                    )
                offsets[queue] = offset
    return offsets


def parse_assignment(option: str, text: str) -> tuple[MessageQueue, ...]:
    """Read queues that a user has written: ``{"topic": {"broker": [0, 1]}}``."""
    shape = '{"topic": {"broker": [0, 1]}}'
    queues = []
    for topic, brokers in _object(option, text, shape).items():
        of_brokers = {"": brokers} if isinstance(brokers, list) else brokers
        if not isinstance(of_brokers, dict) or not of_brokers:
            raise ConfigError(f"option {option}: topic {topic!r} needs queues, as in {shape}")
        for broker, ids in of_brokers.items():
            if not isinstance(ids, list) or not ids:
                raise ConfigError(f"option {option}: topic {topic!r} needs queues, as in {shape}")
            queues += [MessageQueue(topic, broker, _queue_id(option, topic, each)) for each in ids]
    if not queues:
        raise ConfigError(f"option {option} names no queue; it looks like {shape}")
    return tuple(sorted(set(queues)))


def with_brokers(
    option: str, queues: Iterable[MessageQueue], known: Iterable[MessageQueue]
) -> dict[MessageQueue, MessageQueue]:
    """Return the queues as written → with the name of the one broker that a topic has."""
    brokers: dict[str, set[str]] = {}
    for each in known:
        brokers.setdefault(each.topic, set()).add(each.broker_name)
    named = {}
    for queue in queues:
        names = sorted(brokers.get(queue.topic, ()))
        if queue.broker_name or not names:
            named[queue] = queue
        elif len(names) == 1:
            named[queue] = MessageQueue(queue.topic, names[0], queue.queue_id)
        else:
            raise ConfigError(
                f"option {option}: topic {queue.topic!r} is on {len(names)} brokers "
                f"({', '.join(names)}), so say which: "
                f'{{"{queue.topic}": {{"{names[0]}": …}}}}'
            )
    return named


def _object(option: str, text: str, shape: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option {option} is not JSON ({error}); it looks like {shape}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"option {option} is not an object; it looks like {shape}")
    return value


def _queue_id(option: str, topic: str, value: Any) -> int:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"option {option}: {value!r} of {topic!r} is not the number of a queue")
    return value
