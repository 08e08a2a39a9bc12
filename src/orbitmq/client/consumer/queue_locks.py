"""Queue locks of a push consumer: a broker grants the lock of a queue to one member at a time.

An ordered queue is handled only while its lock is certainly valid. Locks are renewed periodically.
While a broker is unreachable, the locks that it granted before remain valid for a while, see
`OrderlyQueue`.

Unordered queues are locked, too. So a member takes up a queue only after the previous owner has
finished its running handlers and committed the offset. Java's members do not request locks for
unordered queues. A lock that no member renews any more does not keep a queue from the present
members (`_stale_locks`).

A broker loses its locks when it restarts. Members lock their queues again before they pull from
them. No member takes up other queues of this broker until all members have had time to do so.
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
"""Time for which a member that left is remembered; after that its locks have expired."""


def clock_ms() -> int:
    """Return the time by which locks are measured; changes of the system clock do not affect it."""
    return int(time.monotonic() * 1000)


class OrderedMember(FetchingMember[QueueCache]):
    """Member of a group that locks its queues at the brokers."""

    def __init__(self, client: ClientSettings, settings: ConsumerSettings) -> None:
        super().__init__(client, settings)
        self._lent: set[MessageQueue] = set()
        # Serializes lock and unlock requests. A queue that is locked while it is being unlocked
        # would stay locked after this member's end, and no other member could have it for a minute.
        self._lending = asyncio.Lock()
        self._tenures: dict[MessageQueue, tuple[str, int]] = {}
        self._members: set[str] = set()
        self._gone_since: dict[str, float] = {}
        self._refused_since: dict[MessageQueue, float] = {}

    def _is_ordered(self, _queue: MessageQueue) -> bool:
        """Return True if the messages of a queue are handled in order."""
        return False

    # ---- Lock and unlock requests

    async def _lock(self, queues: Collection[MessageQueue]) -> Locks:
        async with self._lending:
            if self.is_closing or not queues:
                return Locks(set(), set(), set())
            # Read before the request: a broker whose connection is lost meanwhile may have
            # restarted, and then has lost the locks that it granted.
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

    # ---- Queues to take up

    async def _borrow(
        self, queues: list[MessageQueue], ordered: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """Return the queues that may be taken up, because no other member consumes them."""
        routes, presence = self.instance.routes, self.instance.presence
        wanted, free = [], set()
        for queue in queues:
            address = routes.master(queue.broker_name)
            if address is None:
                free.add(queue)  # slaves grant no locks
            elif presence.is_settled(address):
                wanted.append(queue)
        locks = await self._lock(wanted)
        granted, refused = locks.granted, locks.refused.difference(ordered)
        if refused and (gone := self._members_that_are_gone()):
            _log.info(
                "group %s: taking over queues of members that have left: %s",
                self.group,
                ", ".join(gone),
            )
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
        """Return the members that left so long ago that they cannot come back with a lock."""
        latest = self._loop.time() - SETTLE_S
        return [member for member, since in self._gone_since.items() if since <= latest]

    def _stale_locks(
        self, asked: Iterable[MessageQueue], refused: set[MessageQueue]
    ) -> set[MessageQueue]:
        """Return the queues whose lock was refused for long although this member is alone."""
        now = self._loop.time()
        is_alone = self._members == {self.instance.client_id}
        for queue in asked:
            if queue in refused and is_alone:
                self._refused_since.setdefault(queue, now)
            else:
                self._refused_since.pop(queue, None)
        return {queue for queue in refused if now - self._refused_since.get(queue, now) >= SETTLE_S}

    # ---- Queues of this member

    async def _is_still_ours(self, cache: QueueCache) -> bool:
        """Return True if a queue may be pulled; waits a while if its broker is unreachable.

        After the connection to a broker was lost, this member locks all its queues there again.
        """
        queue = cache.queue
        address = self.instance.routes.master(queue.broker_name)
        if address is None:
            return True  # the queue is pulled from a slave
        presence = self.instance.presence
        if presence.is_away(address):
            if cache.broker_id:
                return True  # the queue is pulled from a slave meanwhile
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
                "group %s: broker %s has granted the locks of %d queues again; pulls continue",
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
        """Handle refused locks of queues: another member has them now.

        Unordered queues are given up. The lock of an ordered queue is requested again before the
        queue is used.
        """
        for queue in queues:
            cache = self.queues.get(queue)
            if isinstance(cache, OrderlyQueue):
                cache.refused()
                self._tenures[queue] = self._tenure_of(queue)
            elif cache is not None and not cache.is_lost:
                _log.warning(
                    "broker granted the lock of %s to another member; giving the queue up", queue
                )
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
