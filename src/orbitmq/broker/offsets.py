"""How far each group has consumed each queue."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

__all__ = ["ConsumerOffsets"]

_log = logging.getLogger(__name__)


class ConsumerOffsets:
    """Next offset to consume, by topic, group and queue."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self.is_dirty = False

    @staticmethod
    def _key(topic: str, group: str) -> str:
        return f"{topic}@{group}"

    def get(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return the offset a group has committed."""
        queues = self._table.get(f"{topic}@{group}")
        return None if queues is None else queues.get(queue_id)

    def of_group(self, topic: str, group: str) -> dict[int, int]:
        """Return all offsets a group has committed for a topic."""
        return dict(self._table.get(self._key(topic, group), {}))

    def commit(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Take a group's word for how far it is; it may go back."""
        queues = self._table.setdefault(f"{topic}@{group}", {})
        before = queues.get(queue_id)
        if before is not None and offset < before:
            _log.warning(
                "[NOTIFYME]update consumer offset less than store. group=%s, topic=%s, "
                "queueId=%d, requestOffset=%d, storeOffset=%d",
                group, topic, queue_id, offset, before,
            )  # fmt: skip
        queues[queue_id] = offset
        self.is_dirty = True

    def topics_of(self, group: str) -> list[str]:
        """Return the topics a group has committed offsets for."""
        pairs = (key.rsplit("@", 1) for key in self._table)
        return sorted(topic for topic, owner in pairs if owner == group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets for a topic."""
        pairs = (key.rsplit("@", 1) for key in self._table)
        return sorted(owner for consumed, owner in pairs if consumed == topic)

    def forget_group(self, group: str) -> None:
        """Drop all offsets of a group."""
        for topic in self.topics_of(group):
            del self._table[self._key(topic, group)]
            self.is_dirty = True

    def clone(self, topic: str, source: str, destination: str) -> None:
        """Let one group stand where another stands."""
        if queues := self.of_group(topic, source):
            self._table[self._key(topic, destination)] = queues
            self.is_dirty = True

    def load(self, value: Mapping[str, Any]) -> None:
        """Put what a file or a master says over what is there."""
        for key, queues in (value.get("offsetTable") or {}).items():
            self._table[key] = {int(queue): int(offset) for queue, offset in queues.items()}

    def as_json(self) -> dict[str, Any]:
        """Return the form of the file and of the wire."""
        table = {key: dict(sorted(queues.items())) for key, queues in sorted(self._table.items())}
        return {"offsetTable": table}
