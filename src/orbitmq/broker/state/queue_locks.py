"""Locks of queues that one client at a time consumes. In memory only: a restart frees all.

As in Java, a client may lock a queue that does not exist. Such locks are only granted while there
are few locks, and all locks that nobody renews are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from orbitmq.protocol.bodies import MessageQueue

__all__ = ["QueueLocks"]

MAX_LIVE_MS = 60_000
MAX_UNFOUNDED = 10_000
"""With this many locks, queues that do not exist are not locked any more."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    last_update_ms: int
    is_ordered: bool


class QueueLocks:
    """Locks by group and queue; one that is not renewed within a minute is free.

    `is_founded` tells if a group and a queue exist, `is_member` if a group has a client. A lock
    without an order, which only OrbitMQ's clients ask for, is free once its client is no member any
    more. One with an order is not: a client that has lost its connection works on for a while.
    """

    def __init__(
        self,
        max_live_ms: int = MAX_LIVE_MS,
        is_founded: Callable[[str, MessageQueue], bool] = lambda _group, _queue: True,
        is_member: Callable[[str, str], bool] = lambda _group, _client_id: True,
    ) -> None:
        self.max_live_ms = max_live_ms
        self._is_founded = is_founded
        self._is_member = is_member
        self._locks: dict[tuple[str, MessageQueue], _Lock] = {}
        self._returned: dict[tuple[str, MessageQueue], _Lock] = {}
        """The latest locks without an order that were given back."""

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        now_ms: int,
        unordered: Collection[MessageQueue] = (),
    ) -> list[MessageQueue]:
        """Lock what is free or already the client's; returns what it holds now."""
        held = []
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is None and not self._may_add(group, queue):
                continue
            if lock is None or lock.client_id == client_id or self._is_free(group, lock, now_ms):
                self._locks[group, queue] = _Lock(client_id, now_ms, queue not in unordered)
                held.append(queue)
        return held

    def _is_free(self, group: str, lock: _Lock, now_ms: int) -> bool:
        is_expired = now_ms - lock.last_update_ms > self.max_live_ms
        return is_expired or not (lock.is_ordered or self._is_member(group, lock.client_id))

    def is_anothers(self, group: str, client_id: str, queue: MessageQueue, now_ms: int) -> bool:
        """Return True if another member has a queue that is consumed in any order."""
        lock = self._locks.get((group, queue))
        if lock is None or lock.is_ordered or lock.client_id == client_id:
            return False
        return not self._is_free(group, lock, now_ms)

    def _may_add(self, group: str, queue: MessageQueue) -> bool:
        return len(self._locks) < MAX_UNFOUNDED or self._is_founded(group, queue)

    def __len__(self) -> int:
        return len(self._locks)

    def drop_expired(self, now_ms: int) -> None:
        """Forget the locks that are free because nobody has renewed them."""
        oldest_ms = now_ms - self.max_live_ms
        self._locks = _younger(self._locks, oldest_ms)
        self._returned = _younger(self._returned, oldest_ms)

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free what the client holds."""
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is not None and lock.client_id == client_id:
                del self._locks[group, queue]
                if not lock.is_ordered:
                    self._returned[group, queue] = lock

    def was_anothers(self, group: str, client_id: str, queue: MessageQueue) -> bool:
        """Return True if another member has, or had a moment ago, a queue that is in any order."""
        lock = self._locks.get((group, queue)) or self._returned.get((group, queue))
        return lock is not None and not lock.is_ordered and lock.client_id != client_id


def _younger(
    locks: dict[tuple[str, MessageQueue], _Lock], oldest_ms: int
) -> dict[tuple[str, MessageQueue], _Lock]:
    return {place: lock for place, lock in locks.items() if lock.last_update_ms >= oldest_ms}
