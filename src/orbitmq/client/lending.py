"""The part of a push consumer that has to do with queues in order: brokers lend them to one member.

What a broker has lent is asked for again every so often. A broker that cannot be asked takes
nothing back: what it granted before holds for a while, see `OrderlyQueue`.
"""

from __future__ import annotations

import time

from orbitmq.client.flows.membership import lock_queues, unlock_queues
from orbitmq.client.group import GroupMember
from orbitmq.client.state.orderly_queue import OrderlyQueue
from orbitmq.client.wishes import Flow
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["LendingMember", "clock_ms"]


def clock_ms() -> int:
    """Return the time that locks are measured by; nobody can set it."""
    return int(time.monotonic() * 1000)


class LendingMember(GroupMember):
    """A member of a group that asks brokers for queues in order."""

    async def _lock(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        return await self.instance.run(
            lock_queues(self.instance.routes, self.group, self.instance.client_id, queues)
        )

    def _unlocking(self, queues: list[MessageQueue], *, wait: bool = False) -> Flow[None]:
        return unlock_queues(
            self.instance.routes, self.group, self.instance.client_id, queues, wait=wait
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
        held = [cache.queue for cache in self._ordered_queues()]
        if held:
            await self.instance.run(self._unlocking(held, wait=True))
