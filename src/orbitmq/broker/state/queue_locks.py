"""Locks of queues that one client at a time consumes. In memory only: a restart frees all locks.

As in Java, a client may lock a queue that does not exist. Such locks are granted only while there
are few locks, and all locks that are not renewed are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from orbitmq.protocol.bodies import MessageQueue

__all__ = ["QueueLocks"]

MAX_LIVE_MS = 60_000
MAX_UNFOUNDED = 10_000
"""Number of locks above which queues that do not exist are no longer locked."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    last_update_ms: int
    is_ordered: bool


class QueueLocks:
    """Table of locks by group and queue; a lock that is not renewed within a minute is free.

    `is_founded` returns True if a group and a queue exist, `is_member` if a group has a client. An
    unordered lock, which only OrbitMQ's clients request, is free once its client is no longer a
    member. An ordered lock is not: a client that has lost its connection works on for a while.
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
        """Recently returned unordered locks."""

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        now_ms: int,
        unordered: Collection[MessageQueue] = (),
    ) -> list[MessageQueue]:
        """Lock the queues that are free or already held by the client; return the held ones."""
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
        """Return True if another member holds an unordered lock of a queue."""
        lock = self._locks.get((group, queue))
        if lock is None or lock.is_ordered or lock.client_id == client_id:
            return False
        return not self._is_free(group, lock, now_ms)

    def _may_add(self, group: str, queue: MessageQueue) -> bool:
        return len(self._locks) < MAX_UNFOUNDED or self._is_founded(group, queue)

    def __len__(self) -> int:
        return len(self._locks)

    def drop_expired(self, now_ms: int) -> None:
        """Drop the locks that were not renewed in time."""
        oldest_ms = now_ms - self.max_live_ms
        self._locks = _younger(self._locks, oldest_ms)
        self._returned = _younger(self._returned, oldest_ms)

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Unlock those of `queues` that the client holds."""
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is not None and lock.client_id == client_id:
                del self._locks[group, queue]
                if not lock.is_ordered:
                    self._returned[group, queue] = lock

    def was_anothers(self, group: str, client_id: str, queue: MessageQueue) -> bool:
        """Return True if another member holds, or held recently, an unordered lock of a queue."""
        lock = self._locks.get((group, queue)) or self._returned.get((group, queue))
        return lock is not None and not lock.is_ordered and lock.client_id != client_id


def _younger(
    locks: dict[tuple[str, MessageQueue], _Lock], oldest_ms: int
) -> dict[tuple[str, MessageQueue], _Lock]:
    return {place: lock for place, lock in locks.items() if lock.last_update_ms >= oldest_ms}
