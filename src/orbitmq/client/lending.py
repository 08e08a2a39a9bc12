"""The part of a push consumer that has to do with queues in order: brokers lend them to one member.

What a broker has lent is asked for again every so often. A broker that cannot be asked takes
nothing back: what it granted before holds for a while, see `OrderlyQueue`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from orbitmq.client.flows.membership import lock_queues, unlock_queues
from orbitmq.client.pulling import PullingMember
from orbitmq.client.settings import ClientSettings
from orbitmq.client.state.consumer_settings import ConsumerSettings
from orbitmq.client.state.orderly_queue import OrderlyQueue
from orbitmq.client.state.process_queue import QueueCache
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["LendingMember", "clock_ms"]


def clock_ms() -> int:
    """Return the time that locks are measured by; nobody can set it."""
    return int(time.monotonic() * 1000)


class LendingMember(PullingMember[QueueCache]):
    """A member of a group that asks brokers for queues in order."""

    def __init__(self, client: ClientSettings, settings: ConsumerSettings) -> None:
        super().__init__(client, settings)
        self._lent: set[MessageQueue] = set()
        # A queue that is asked for while it is given back would stay ours after our end, and
        # nobody else could have it for a minute.
        self._lending = asyncio.Lock()

    async def _lock(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        async with self._lending:
            if self.is_closing:
                return set()
            granted = await self.instance.run(
                lock_queues(self.instance.routes, self.group, self.instance.client_id, queues)
            )
            self._lent |= granted
            return granted

    async def _unlock(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        async with self._lending:
            held = list(queues)
            self._lent.difference_update(held)
            await self.instance.run(
                unlock_queues(
                    self.instance.routes, self.group, self.instance.client_id, held, wait=wait
                )
            )

    async def _relock(self, cache: OrderlyQueue) -> bool:
        if not cache.needs_lock:
            return True
        if cache.queue in await self._lock([cache.queue]):
            cache.granted(clock_ms())
            return True
        cache.refused()
        return False

    def _ordered_queues(self) -> list[OrderlyQueue]:
        return [
            cache
            for cache in self.queues.values()
            if isinstance(cache, OrderlyQueue) and cache.needs_lock and not cache.is_dropped
        ]

    async def _renew_locks(self) -> None:
        held = self._ordered_queues()
        if not held:
            return
        granted = await self._lock([cache.queue for cache in held])
        for cache in held:
            if cache.queue in granted:
                cache.granted(clock_ms())
            elif self.instance.routes.master(cache.queue.broker_name) is not None:
                cache.refused()

    async def _give_back(self) -> None:
        await self._unlock(self._lent, wait=True)
