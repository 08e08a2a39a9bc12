"""Offsets up to which each group has consumed each queue.

As in Java, a commit is accepted for any topic, group and queue. Offsets of names that do not exist
would accumulate without limit, so only the newest `MAX_UNFOUNDED` of them are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from orbitmq.broker.state.rows import BadRows, good_numbers
from orbitmq.protocol.members import Members

__all__ = ["ConsumerOffsets"]

_log = logging.getLogger(__name__)

MAX_UNFOUNDED = 10_000
"""Number of offsets that are kept of topics, groups and queues that do not exist."""

Place = tuple[str, int]
"""Key of the table (topic and group), and queue id."""


class ConsumerOffsets:
    """Table of the next offset to consume, by topic, group and queue.

    `is_founded` returns True if a topic, a group and a queue exist.
    """

    def __init__(
        self,
        is_founded: Callable[[str, str, int], bool] = lambda _topic, _group, _queue_id: True,
        *,
        max_unfounded: int = MAX_UNFOUNDED,
    ) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self._keys_of: dict[str, set[str]] = {}
        """Keys of the table by topic."""
        self._is_founded = is_founded
        self._max_unfounded = max_unfounded
        self._unfounded: dict[Place, None] = {}
        """Offsets committed for a topic, group or queue that did not exist, the oldest first."""
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
        """Set the offset of a group in a queue; the offset may go back."""
        queues = self._table.get(f"{topic}@{group}")
        before = None if queues is None else queues.get(queue_id)
        if queues is None or before is None:
            self._put(self._key(topic, group), {queue_id: offset})
            self._check(topic, group, queue_id)
            return
        if offset < before:
            _log.warning(
                "[NOTIFYME]update consumer offset less than store. group=%s, topic=%s, "
                "queueId=%d, requestOffset=%d, storeOffset=%d",
                group, topic, queue_id, offset, before,
            )  # fmt: skip
        queues[queue_id] = offset
        self.is_dirty = True

    def _put(self, key: str, offsets: dict[int, int]) -> None:
        self._table.setdefault(key, {}).update(offsets)
        self._keys_of.setdefault(_names(key)[0], set()).add(key)
        self.is_dirty = True

    def _forget(self, key: str) -> None:
        del self._table[key]
        topic, _ = _names(key)
        self._keys_of[topic].discard(key)
        if not self._keys_of[topic]:
            del self._keys_of[topic]
        self.is_dirty = True

    def _check(self, topic: str, group: str, queue_id: int) -> None:
        """Note a new offset of unknown names; drop the oldest noted offset above the limit."""
        if self._is_founded(topic, group, queue_id):
            return
        self._unfounded[self._key(topic, group), queue_id] = None
        if len(self._unfounded) > self._max_unfounded:
            key, oldest = next(iter(self._unfounded))
            del self._unfounded[key, oldest]
            # The topic or the group may have been created since.
            if not self._is_founded(*_names(key), oldest):
                self._drop(key, oldest)

    def _drop(self, key: str, queue_id: int) -> None:
        queues = self._table.get(key)
        if queues is None or queues.pop(queue_id, None) is None:
            return
        self.is_dirty = True
        if not queues:
            self._forget(key)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics a group has committed offsets for."""
        return sorted(topic for topic, owner in map(_names, self._table) if owner == group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets for a topic."""
        return sorted(_names(key)[1] for key in self._keys_of.get(topic, ()))

    def forget_group(self, group: str) -> None:
        """Drop all offsets of a group."""
        for topic in self.topics_of(group):
            self._forget(self._key(topic, group))

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of all groups for a topic that is deleted.

        Java keeps them, so its groups skip the first messages of a topic that is created again.
        """
        for group in self.groups_of(topic):
            self._forget(self._key(topic, group))
            _log.info("dropped the offsets of group %s for topic %s with the topic", group, topic)

    def fit(self, end_of: Callable[[str, int], int], topic: str | None = None) -> None:
        """Lower offsets behind the end of their queue to that end; in all topics, or in one.

        A topic that was created again, or a log that has lost its tail, has lower queue ends.
        Groups would silently skip the new messages at those offsets. An offset before a queue's
        first message is not changed: the response to the next pull moves the group on.
        """
        keys = self._table if topic is None else self._keys_of.get(topic, ())
        for key, queue_id, offset in self._entries(keys):
            name, group = _names(key)
            if offset <= (end := end_of(name, queue_id)):
                continue
            _log.warning(
                "group %s had consumed queue %d of topic %s up to %d, which ends at %d: "
                "the group goes on at %d", group, queue_id, name, offset, end, end,
            )  # fmt: skip
            self._table[key][queue_id] = end
            self.is_dirty = True

    def drop_unfounded(self, is_stored: Callable[[str], bool]) -> None:
        """Drop offsets of topics that have neither a configuration nor a message, after a start.

        Other offsets of unknown names are kept up to the usual limit.
        """
        for key, queue_id, _ in self._entries(self._table):
            topic, group = _names(key)
            if self._is_founded(topic, group, queue_id):
                continue
            if is_stored(topic):
                self._check(topic, group, queue_id)
            else:
                _log.info("dropped the offset of %s: there is no such topic", key)
                self._drop(key, queue_id)

    def _entries(self, keys: Iterable[str]) -> list[tuple[str, int, int]]:
        """List the offsets of keys, without keys that cannot be split into topic and group."""
        return [
            (key, queue_id, offset)
            for key in keys
            if key.count("@") == 1
            for queue_id, offset in self._table[key].items()
        ]

    def clone(self, topic: str, source: str, destination: str) -> None:
        """Copy the offsets of a group for a topic to another group."""
        if queues := self.of_group(topic, source):
            key = self._key(topic, destination)
            self._table.pop(key, None)
            self._put(key, queues)

    def load(self, value: Members) -> BadRows:
        """Update the table with the rows of a file or of a master; return the bad rows."""
        bad: BadRows = {}
        for key, queues in value.table("offsetTable").items():
            if not isinstance(key, str) or not isinstance(queues, dict):
                bad[key] = (queues, "it is not a table of offsets")
                continue
            good, bad_queues = good_numbers(queues)
            if good:
                self._table.pop(key, None)
                self._put(key, good)
            if bad_queues:
                why = "; ".join(why for _, why in bad_queues.values())
                bad[key] = ({queue: offset for queue, (offset, _) in bad_queues.items()}, why)
        return bad

    def as_json(self) -> dict[str, Any]:
        """Return the table in the form of the file and the wire."""
        table = {key: dict(sorted(queues.items())) for key, queues in sorted(self._table.items())}
        return {"offsetTable": table}


def _names(key: str) -> tuple[str, str]:
    topic, _, group = key.rpartition("@")
    return topic, group
