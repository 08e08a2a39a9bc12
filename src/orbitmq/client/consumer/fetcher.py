"""A member of a group that pulls its queues ahead of whoever gets the messages.

Each queue has a task that pulls it, and rests while as much is held as may be.
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
"""How soon a broker that was busy is asked again."""

C = TypeVar("C", bound=QueueCache)


class FetchingMember(ConsumerCoordinator, Generic[C]):
    """A member of a group with a task for each of its queues."""

    def __init__(self, client: ClientSettings, settings: ConsumerSettings) -> None:
        super().__init__(client, settings)
        self._pulls: dict[QueueCache, asyncio.Task[Any]] = {}

    async def _pull_forever(self, cache: C) -> None:
        """Pull a queue until it is stopped."""
        raise NotImplementedError

    def _begin_to_pull(self, cache: C) -> None:
        cache.last_pull_ms = now_ms()
        task = self.instance.spawn(self._pull_forever(cache))
        self._pulls[cache] = task
        task.add_done_callback(lambda _: self._pulls.pop(cache, None))

    def _pull_no_more(self, cache: QueueCache | None = None) -> None:
        """Stop pulling a queue, or all of them."""
        caches = list(self._pulls) if cache is None else [cache]
        for one in caches:
            if (pulling := self._pulls.get(one)) is not None:
                pulling.cancel()

    async def _room(self, cache: C) -> None:
        """Wait until there is room for more, however long that takes."""
        loop = self._loop
        room = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(room.set)

        cache.on_room = tell
        if cache.is_full:
            await room.wait()
        cache.on_room = None
        cache.last_pull_ms = now_ms()
