"""How far a group has come, as one member knows it, and where a queue without a past begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.names import RETRY_PREFIX

__all__ = ["OffsetTable", "StartAt", "StartRule"]


class OffsetTable:
    """Offsets by queue; what is committed next time."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset known here, None for none."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Move forward; an offset before the one known is ignored, and so is -1."""
        if offset >= 0 and offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def put(self, queue: MessageQueue, offset: int) -> None:
        """Move to an offset, also back."""
        self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """Know nothing of a queue any more."""
        self._offsets.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return what is known of a topic's queues; of all queues for an empty name."""
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if not topic or queue.topic == topic
        }


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where a queue begins: an offset, one of its ends, or a time."""

    kind: Literal["offset", "max", "time"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class StartRule:
    """Where a group begins in queues it has never committed an offset for.

    RocketMQ's own quirks, kept because mixed groups must agree: retry topics begin at 0, but at
    their end when the rule is a time; and a broker that is asked for the offset of a new group
    answers 0, as if that had been committed, while the first message of the queue is still there
    and in memory. So ``last`` reads young queues from their first message on. ``end`` and a time do
    not: see `orbitmq.client.flows.offsets.begin_new_group`. Where that finds the group known,
    ``end`` is ``last``.
    """

    where: Literal["first", "last", "end", "time"] = "last"
    time_ms: int = 0

    @classmethod
    def of(cls, consume_from: str | int | datetime) -> StartRule:
        """Parse ``"earliest"``, ``"latest"``, ``"last"``, a `datetime` or epoch milliseconds."""
        if isinstance(consume_from, datetime):
            return cls("time", int(consume_from.timestamp() * 1000))
        if isinstance(consume_from, int):
            return cls("time", consume_from)
        if consume_from in ("earliest", "first"):
            return cls("first")
        if consume_from == "last":
            return cls("last")
        if consume_from in ("latest", "end"):
            return cls("end")
        raise ConfigError(
            "consume_from is 'earliest', 'latest', 'last' (RocketMQ's rule), a datetime or epoch "
            f"milliseconds, not {consume_from!r}"
        )

    @property
    def is_exact(self) -> bool:
        """Whether young queues, too, begin where the rule says, and not at their first message."""
        return self.where in ("end", "time")

    @property
    def java_name(self) -> str:
        """What heartbeats call it."""
        names = {
            "first": "CONSUME_FROM_FIRST_OFFSET",
            "last": "CONSUME_FROM_LAST_OFFSET",
            "end": "CONSUME_FROM_LAST_OFFSET",
            "time": "CONSUME_FROM_TIMESTAMP",
        }
        return names[self.where]

    def start(self, topic: str, stored: int) -> StartAt:
        """Return where to begin; `stored` is what the group has committed, -1 for nothing."""
        if stored >= 0:
            return StartAt("offset", stored)
        is_retry = topic.startswith(RETRY_PREFIX)
        if self.where == "first" or (self.where in ("last", "end") and is_retry):
            return StartAt("offset", 0)
        if self.where in ("last", "end") or is_retry:
            return StartAt("max")
        return StartAt("time", self.time_ms)
