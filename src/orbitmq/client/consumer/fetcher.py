"""Base of group members that pull messages before they are needed.

Each queue has a task that pulls messages. The task waits while the queue's cache is full.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from orbitmq.client.consumer.coordinator import ConsumerCoordinator, now_ms
from orbitmq.client.consumer.process_queue import QueueCache
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.settings import ClientSettings

__all__ = ["BUSY_DELAY_S", "FetchingMember"]

BUSY_DELAY_S = 0.02
"""Pause before the next pull from a broker that answered that it is busy."""

C = TypeVar("C", bound=QueueCache)


class FetchingMember(ConsumerCoordinator, Generic[C]):
    """Member of a group that runs a pull task for each of its queues."""

    def __init__(self, client: ClientSettings, settings: ConsumerSettings) -> None:
        super().__init__(client, settings)
        self._pulls: dict[QueueCache, asyncio.Task[Any]] = {}

    async def _pull_forever(self, cache: C) -> None:
        """Pull from a queue until the queue is stopped."""
        raise NotImplementedError

    def _begin_to_pull(self, cache: C) -> None:
        cache.last_pull_ms = now_ms()
        task = self.instance.spawn(self._pull_forever(cache))
        self._pulls[cache] = task
        task.add_done_callback(lambda _: self._pulls.pop(cache, None))

    def _pull_no_more(self, cache: QueueCache | None = None) -> None:
        """Cancel the pull task of a queue, or the pull tasks of all queues without `cache`."""
        caches = list(self._pulls) if cache is None else [cache]
        for one in caches:
            if (pulling := self._pulls.get(one)) is not None:
                pulling.cancel()

    async def _room(self, cache: C) -> None:
        """Wait, without a time limit, until the cache of a queue has room for another pull."""
        loop = self._loop
        room = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(room.set)

        cache.on_room = tell
        if cache.is_full:
            await room.wait()
        cache.on_room = None
        cache.last_pull_ms = now_ms()
