"""Which client may consume which queue in order. In memory only: a restart frees all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orbitmq.protocol.bodies import MessageQueue

__all__ = ["QueueLocks"]

MAX_LIVE_MS = 60_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    last_update_ms: int


class QueueLocks:
    """Locks by group and queue; one that is not renewed within a minute is free."""

    def __init__(self, max_live_ms: int = MAX_LIVE_MS) -> None:
        self.max_live_ms = max_live_ms
        self._locks: dict[tuple[str, MessageQueue], _Lock] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        """Lock what is free or already the client's; returns what it holds now."""
        held = []
        for queue in queues:
            lock = self._locks.get((group, queue))
            expired = lock is None or now_ms - lock.last_update_ms > self.max_live_ms
            if lock is None or expired or lock.client_id == client_id:
                self._locks[group, queue] = _Lock(client_id, now_ms)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free what the client holds."""
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is not None and lock.client_id == client_id:
                del self._locks[group, queue]
