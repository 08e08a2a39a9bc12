"""The part of a push consumer that has to do with locks: a queue is lent to one member at a time.

A queue in order is worked on only while its lock is sure. What a broker has lent is asked for again
every so often. A broker that cannot be asked takes nothing back: what it granted before holds for a
while, see `OrderlyQueue`.

Queues without an order are borrowed, too, so that a member takes one up only when the member before
it has finished and committed what it had begun. Java's members do not ask for such locks; nor does
a lock that nobody renews any more keep a queue from the members that are there (`_stale_locks`).

A broker that restarts has forgotten its locks. Its queues are asked for again before they are
pulled, and nobody takes up others from it until all members have had time to do so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable

from orbitmq.client.consumer.fetcher import FetchingMember
from orbitmq.client.consumer.membership import Locks, lock_queues, unlock_queues
from orbitmq.client.consumer.orderly_queue import OrderlyQueue
from orbitmq.client.consumer.process_queue import QueueCache
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.presence import SETTLE_S
from orbitmq.client.settings import ClientSettings
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["OrderedMember", "clock_ms"]

_log = logging.getLogger(__name__)

GONE_S = 120.0
"""Time for which a member that is gone is remembered: its locks are over then."""


def clock_ms() -> int:
    """Return the time that locks are measured by; nobody can set it."""
    return int(time.monotonic() * 1000)


class OrderedMember(FetchingMember[QueueCache]):
    """A member of a group that asks brokers for queues."""

    def __init__(self, client: ClientSettings, settings: ConsumerSettings) -> None:
        super().__init__(client, settings)
        self._lent: set[MessageQueue] = set()
        # A queue that is asked for while it is given back would stay ours after our end, and
        # nobody else could have it for a minute.
        self._lending = asyncio.Lock()
        self._tenures: dict[MessageQueue, tuple[str, int]] = {}
        self._members: set[str] = set()
        self._gone_since: dict[str, float] = {}
        self._refused_since: dict[MessageQueue, float] = {}

    def _is_ordered(self, _queue: MessageQueue) -> bool:
        """Return True if the messages of a queue are handled in order."""
        return False

    # ---- locks

    async def _lock(self, queues: Collection[MessageQueue]) -> Locks:
        async with self._lending:
            if self.is_closing or not queues:
                return Locks(set(), set(), set())
            # Of before the answer: a broker that is lost meanwhile has forgotten what it granted.
            tenures = {queue: self._tenure_of(queue) for queue in queues}
            locks = await self.instance.run(
                lock_queues(
                    self.instance.routes,
                    self.group,
                    self.instance.client_id,
                    queues,
                    unordered=[queue for queue in queues if not self._is_ordered(queue)],
                )
            )
            self._lent |= locks.granted
            for queue in locks.granted | locks.not_lent:
                self._tenures[queue] = tenures[queue]
            return locks

    async def _unlock(self, queues: Iterable[MessageQueue]) -> None:
        async with self._lending:
            held = list(queues)
            self._lent.difference_update(held)
            await self._unlock_of(self.instance.client_id, held)

    async def _unlock_of(self, client_id: str, queues: Iterable[MessageQueue]) -> None:
        routes = self.instance.routes
        await self.instance.run(unlock_queues(routes, self.group, client_id, queues, wait=True))

    def _tenure_of(self, queue: MessageQueue) -> tuple[str, int]:
        return self.instance.presence.tenure(self.instance.routes.master(queue.broker_name) or "")

    async def _return(self, cache: QueueCache) -> None:
        if cache.queue in self._lent:
            await self._unlock([cache.queue])

    async def _give_back(self) -> None:
        await self._unlock(self._lent)

    # ---- queues that are not held yet

    async def _borrow(
        self, queues: list[MessageQueue], ordered: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """Return those of the queues that may be taken up, because nobody else works on them."""
        routes, presence = self.instance.routes, self.instance.presence
        wanted, free = [], set()
        for queue in queues:
            address = routes.master(queue.broker_name)
            if address is None:
                free.add(queue)  # slaves lend nothing
            elif presence.is_settled(address):
                wanted.append(queue)
        locks = await self._lock(wanted)
        granted, refused = locks.granted, locks.refused.difference(ordered)
        if refused and (gone := self._members_that_are_gone()):
            _log.info("group %s: takes over queues from %s", self.group, ", ".join(gone))
            for member in gone:
                await self._unlock_of(member, refused)
            again = await self._lock(refused)
            granted, refused = granted | again.granted, again.refused
        free |= locks.not_lent | self._stale_locks(queues, refused)
        taken = granted | free.difference(ordered)
        if not taken.issuperset(queues):
            self._is_short = True
        return [queue for queue in queues if queue in taken]

    def _members_are(self, members: list[str]) -> None:
        now, present = self._loop.time(), set(members)
        for member in self._members - present:
            self._gone_since.setdefault(member, now)
        self._members = present
        self._gone_since = {
            member: since
            for member, since in self._gone_since.items()
            if member not in present and now - since < GONE_S
        }

    def _members_that_are_gone(self) -> list[str]:
        """Return the members that have been gone for too long to come back with a lock."""
        latest = self._loop.time() - SETTLE_S
        return [member for member, since in self._gone_since.items() if since <= latest]

    def _stale_locks(
        self, asked: Iterable[MessageQueue], refused: set[MessageQueue]
    ) -> set[MessageQueue]:
        """Return the queues that were refused although no other member has been there for long."""
        now = self._loop.time()
        is_alone = self._members == {self.instance.client_id}
        for queue in asked:
            if queue in refused and is_alone:
                self._refused_since.setdefault(queue, now)
            else:
                self._refused_since.pop(queue, None)
        return {queue for queue in refused if now - self._refused_since.get(queue, now) >= SETTLE_S}

    # ---- queues that are held

    async def _is_still_ours(self, cache: QueueCache) -> bool:
        """Return True if a queue may be pulled; waits a while if its broker is away.

        A broker that was away is asked for all of its queues again.
        """
        queue = cache.queue
        address = self.instance.routes.master(queue.broker_name)
        if address is None:
            return True  # a slave serves it
        presence = self.instance.presence
        if presence.is_away(address):
            if cache.broker_id:
                return True  # it is pulled from a slave meanwhile
            await presence.wait(address, self.settings.error_delay_ms / 1000)
            return False
        if self._tenures.get(queue) == presence.tenure(address):
            return True
        held = [
            other
            for other in self.queues
            if other.broker_name == queue.broker_name
            and self._tenures.get(other) != presence.tenure(address)
        ]
        locks = await self._lock(held)
        if locks.granted:
            _log.info(
                "group %s: broker %s has lent %d queues again",
                self.group,
                queue.broker_name,
                len(locks.granted),
            )
        self._refused(locks.refused)
        if queue in locks.granted | locks.not_lent:
            return not cache.is_stopped
        await asyncio.sleep(self.settings.error_delay_ms / 1000)
        return False

    def _refused(self, queues: Iterable[MessageQueue]) -> None:
        """Give up queues that somebody else has by now."""
        for queue in queues:
            cache = self.queues.get(queue)
            if isinstance(cache, OrderlyQueue):
                cache.refused()  # it is asked for again before anything is done with it
                self._tenures[queue] = self._tenure_of(queue)
            elif cache is not None and not cache.is_lost:
                _log.warning("%s was lent to another member: this one gives it up", queue)
                cache.is_lost = True
                cache.drop()
                self.rebalance_soon()

    async def _relock(self, cache: OrderlyQueue) -> bool:
        if not cache.needs_lock:
            return True
        if cache.queue in (await self._lock([cache.queue])).granted:
            cache.granted(clock_ms())
            return True
        cache.refused()
        return False

    async def _renew_locks(self) -> None:
        presence = self.instance.presence
        held = {
            queue: cache
            for queue, cache in self.queues.items()
            if not cache.is_dropped
            and (queue in self._lent or (isinstance(cache, OrderlyQueue) and cache.needs_lock))
            and not presence.is_away(self.instance.routes.master(queue.broker_name) or "")
        }
        locks = await self._lock(list(held))
        for queue in locks.granted:
            if isinstance(cache := held[queue], OrderlyQueue):
                cache.granted(clock_ms())
        self._refused(locks.refused)
        for queue in locks.not_lent:
            if isinstance(cache := held[queue], OrderlyQueue):
                cache.refused()
