"""Offsets as JSON: ``{"topic": {"broker": {"0": 12}}}``.

A queue is a topic, a broker and a queue id. Queue ids repeat on each broker, so offsets have three
levels. Spark compares offsets as text, so the written JSON is sorted, queues by their id. In option
texts a user may omit the broker level of a topic on one broker. Such queues have no broker name
until `with_brokers` adds it.

The offsets of a stream also contain how the batch that ends there was planned. Spark writes them to
the checkpoint before the batch runs. So a batch that runs again is divided in the same way, however
many cores there are by then and whatever has expired. No topic can have these names:

- ``"#tasks": 2``: the number of parallel tasks the batch was planned for;
- ``"#least": 32``: the least number of offsets per task before a further task is added;
- ``"#begins": {"topic": …}``: the first offsets of the batch in queues where it does not begin at
  the end of the previous batch. Such queues are new, or their messages had expired.
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
    """First offset that a queue still has, and the offset of its next message."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Range of offsets in a queue, from `start` to before `end`."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def count(self) -> int:
        """Number of offsets in the range; with a filter there may be fewer messages."""
        return self.end - self.start

    def within(self, other: QueueRange) -> QueueRange:
        """Return the offsets that both ranges have in common; the result may be empty."""
        start = min(max(self.start, other.start), self.end)
        return QueueRange(self.queue, start, max(min(self.end, other.end), start))


def as_json(
    offsets: Mapping[MessageQueue, int],
    tasks: int | None = None,
    begins: Mapping[MessageQueue, int] | None = None,
    least: int | None = None,
) -> dict[str, Any]:
    """Return offsets as JSON, in a fixed order, with the plan of the batch that ends there.

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
    """Return the offsets of a result of `as_json`."""
    return {
        MessageQueue(topic, broker, int(queue_id)): int(offset)
        for topic, brokers in value.items()
        if topic not in NO_TOPICS
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def tasks_in(value: Mapping[str, Any]) -> int | None:
    """Return the number of tasks the batch that ends here was planned for, None if not given."""
    tasks = value.get(TASKS)
    return None if tasks is None else int(tasks)


def least_in(value: Mapping[str, Any]) -> int | None:
    """Return the least number of offsets per task of that batch, None if not given."""
    least = value.get(LEAST)
    return None if least is None else int(least)


def begins_in(value: Mapping[str, Any]) -> Offsets:
    """Return the first offsets of this batch where they differ from the previous batch's ends.

    >>> begins_in({"#begins": {"t": {"b": {"0": 3}}}, "t": {"b": {"0": 9}}})
    {MessageQueue(topic='t', broker_name='b', queue_id=0): 3}
    """
    return from_json(value.get(BEGINS) or {})


def parse_offsets(option: str, text: str, *, least: int = EARLIEST) -> Offsets:
    """Return the offsets in a user's option text; `least` is the smallest number allowed."""
    shape = '{"topic": {"broker": {"0": 12}}}'
    offsets: Offsets = {}
    for topic, brokers in _object(option, text, shape).items():
        if topic in NO_TOPICS:
            continue  # the text was copied from a checkpoint or from a query's progress
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
    """Return the queues in a user's option text: ``{"topic": {"broker": [0, 1]}}``."""
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
    """Return a mapping from queues as written to queues with the name of the topic's broker."""
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
