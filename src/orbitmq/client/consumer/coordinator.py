"""Base of all members of a consumer group: subscriptions, rebalancing and committed offsets.

All methods run on the loop of the client instance. This class decides which queues the member has
and at which offset each queue begins. It also commits the progress and releases all queues at the
end. Subclasses decide how to consume a queue (`_open_queue`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orbitmq.client.consumer.assignment import changes, share_of_topic
from orbitmq.client.consumer.membership import check_filter
from orbitmq.client.consumer.new_group import NewGroup
from orbitmq.client.consumer.offsets import (
    LocalOffsets,
    OffsetStore,
    RemoteOffsets,
    default_directory,
    start_offset,
)
from orbitmq.client.consumer.process_queue import QueueCache
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscription import SubscriptionTable, subscribe
from orbitmq.client.instance import ClientInstance, Repeating
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import BrokerRefused, OrbitError
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.rpc.namespace import unwrap, wrap
from orbitmq.rpc.routes import fetch_route

__all__ = ["ConsumerCoordinator", "now_ms"]

_log = logging.getLogger(__name__)

MAX_PULL_IDLE_MS = 120_000
"""Time without a pull after which a queue is dropped and taken up again."""

FIRST_LOOK_S, MAX_LOOK_S = 0.1, 3.0
"""First and longest pause before the next rebalance while something is missing: a topic, or a queue
that another member still has."""

KEPT_S = 600.0
"""Maximum time for which a queue is kept because its broker cannot be reached for the commit."""

AWAIT_BROKER_S = 10.0
"""Maximum time for which `stop` waits for an unreachable broker, to commit offsets there."""


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch, as in messages."""
    return time.time_ns() // 1_000_000


class ConsumerCoordinator:
    """Member of a consumer group: joins, rebalances, commits offsets and leaves."""

    consume_type = "CONSUME_PASSIVELY"
    is_stream = False
    expires_idle_queues = True

    def __init__(self, client: ClientSettings, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.namespace = client.namespace
        self.group = wrap(client.namespace, settings.group)
        self.instance = ClientInstance(client, stream=self.is_stream)
        self.subscriptions = SubscriptionTable()
        self._strategy = settings.allocate_strategy
        self.queues: dict[MessageQueue, QueueCache] = {}
        self.offsets: OffsetStore = self._make_offsets()
        self._new_group = NewGroup(self.instance, self.group, settings.start_rule)
        self.is_suspended = False
        self.is_closing = False
        self.started_at_ms = 0
        self._loop = asyncio.get_running_loop()
        self._rebalancing = asyncio.Lock()
        self._rebalance_timer: Repeating | None = None
        self._beat_at = 0.0
        self._told: dict[str, int] = {}
        self._look_again_s = FIRST_LOOK_S
        self._is_short = False
        """True if something is missing, so that the next rebalance must not wait for its period."""
        self.instance.brokers_in_use = lambda: {queue.broker_name for queue in self.queues}

    def _make_offsets(self) -> OffsetStore:
        if not self.settings.broadcast:
            return RemoteOffsets(self.instance, self.group)
        directory = Path(self.settings.offset_directory or default_directory())
        return LocalOffsets(directory, self.instance.client_id, self.group)

    # ---- Start and stop

    async def start(self) -> None:
        """Join the group and start the periodic commits and rebalances."""
        self.started_at_ms = now_ms()
        await self.offsets.load()
        self.instance.add_consumer(self.group, self.describe, self.rebalance_soon)
        await self.instance.start()
        try:
            await self._find_topics(self.subscriptions.topics)
            for subscription in self.subscriptions:
                await self._check_filter(subscription)
            # A member that every broker rejects would wait for messages forever.
            if (refusal := await self.beat()) is not None:
                raise refusal
        except BaseException:
            await self.instance.stop()
            raise
        _log.info("%s joins group %s", self.instance.client_id, self.group)
        period = self.instance.settings.offset_persist_s
        self.instance.every(period, self.persist)
        self._rebalance_timer = self.instance.every(
            self.settings.rebalance_s, self.rebalance, first_s=0
        )

    async def _find_topics(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.instance.routes.watch(topic)
            # An unreachable nameserver is an error here: later refreshes would only hide a wrong
            # address.
            route = await self.instance.run(fetch_route(self.instance.routes, topic))
            if route is not None and not self.settings.broadcast:
                self._new_group.expect(topic)
            if route is None and not topic.startswith("%"):
                _log.warning(
                    "topic %s does not exist yet; its messages will be consumed once it does",
                    topic,
                )

    async def _check_filter(self, subscription: Subscription) -> None:
        """Have a broker validate a filter expression, so that an invalid one fails at once."""
        flow = check_filter(self.instance.routes, self.group, self.instance.client_id, subscription)
        await self.instance.run(flow)

    async def stop(self) -> None:
        """Finish the work, commit all progress and leave the group."""
        self.is_closing = True
        for cache in self.queues.values():
            self._stop_at_line(cache)
        try:
            await self._finish_work()
        finally:
            # Also if the caller was cancelled while it waited: a member that only sends heartbeats
            # would keep its queues from all other members.
            await self._leave()

    async def _leave(self) -> None:
        try:
            await self._settle_all()
            await self._give_back()
        finally:
            _log.info("%s leaves group %s", self.instance.client_id, self.group)
            for queue in self.queues.values():
                queue.drop()
            await self.instance.stop()
            self.queues.clear()

    async def _settle_all(self) -> None:
        """Commit the offsets of all queues; waits a while for brokers that are unreachable."""
        await self.persist(wait=True)
        limit_s = min(AWAIT_BROKER_S, self.settings.stop_timeout_s)
        await asyncio.gather(
            *(self._settle_late(cache, limit_s) for cache in list(self.queues.values()))
        )

    async def _settle_late(self, cache: QueueCache, limit_s: float) -> None:
        """Commit the offset of a queue; if the broker is unreachable, wait until it is back."""
        if cache.is_lost or await self._settle(cache):
            return
        address = self.instance.routes.master(cache.queue.broker_name)
        if address is None:
            return
        self.instance.look_for(address)
        if not (await self.instance.presence.wait(address, limit_s) and await self._settle(cache)):
            _log.warning(
                "%s: offset %s is not committed, because broker %s is unreachable; messages after "
                "the last commit will be delivered again",
                cache.queue,
                self.offsets.table.get(cache.queue),
                cache.queue.broker_name,
            )

    async def _settle(self, cache: QueueCache) -> bool:
        idle_s = max(now_ms() - cache.last_pull_ms, 0) / 1000
        return await self.offsets.settle(cache.queue, idle_s)

    def _stop_at_line(self, cache: QueueCache) -> None:
        """Stop a queue: begin only messages that must be handled before the queue is given up."""
        cache.is_stopped = True

    async def _finish_work(self) -> None:
        """Wait for the messages that are being handled."""

    async def _give_back(self) -> None:
        """Release all queue locks at the brokers."""

    # ---- Heartbeats and subscriptions

    def describe(self) -> dict[str, Any]:
        """Return this consumer's part of the heartbeat."""
        return {
            "consumeFromWhere": self.settings.start_rule.java_name,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.settings.message_model,
            "subscriptionDataSet": [each.as_json() for each in self.subscriptions],
            "unitMode": self.instance.settings.unit_mode,
        }

    async def beat(self) -> BrokerRefused | None:
        """Send the heartbeat to all brokers and note the versions of the subscriptions in it.

        Returns the error of a broker if every broker rejected the heartbeat for lack of access.
        """
        versions = {each.topic: each.sub_version for each in self.subscriptions}
        refusal = await self.instance.heartbeat()
        self._told.update(versions)
        return refusal

    def told_version(self, topic: str) -> int:
        """Return the version of a subscription in the latest heartbeat, 0 if it was not sent."""
        return self._told.get(topic, 0)

    def beat_soon(self) -> None:
        """Send a heartbeat in the background, but not more than one per second."""
        if self._loop.time() - self._beat_at >= 1:
            self._beat_at = self._loop.time()
            self.instance.spawn(self.beat())

    async def subscribe(self, topic: str, tags: str | None = None, sql: str | None = None) -> None:
        """Subscribe to a topic; also while the member is running."""
        await self._want(await self._checked(topic, tags, sql))

    async def _checked(self, topic: str, tags: str | None, sql: str | None) -> Subscription:
        """Return a new subscription; if the instance is running, a broker validates it first."""
        subscription = subscribe(wrap(self.namespace, topic), tags, sql, now_ms())
        if self.instance.is_running:
            try:
                await self._find_topics([subscription.topic])
                await self._check_filter(subscription)
            except BaseException:
                if subscription.topic not in self.subscriptions:
                    self.instance.routes.unwatch(subscription.topic)
                raise
        return subscription

    async def _want(self, subscription: Subscription) -> None:
        self.subscriptions.put(subscription)
        if self.instance.is_running:
            await self.beat()
            self.rebalance_soon()

    async def unsubscribe(self, topic: str) -> None:
        """Remove the subscription to a topic and give up the topic's queues."""
        wrapped = wrap(self.namespace, topic)
        self.subscriptions.remove(wrapped)
        self.instance.routes.unwatch(wrapped)
        if self.instance.is_running:
            await self.rebalance()
            await self.beat()

    def user_topic(self, topic: str) -> str:
        """Return a topic's name without the namespace, as the user writes it."""
        return unwrap(self.namespace, topic)

    def user_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the user's topic name, which has no namespace."""
        if not self.namespace:
            return queue
        return MessageQueue(self.user_topic(queue.topic), queue.broker_name, queue.queue_id)

    # ---- Rebalancing

    def rebalance_soon(self) -> None:
        """Start a rebalance now, instead of waiting for the end of the period."""
        if self._rebalance_timer is not None and not self.is_closing:
            self._rebalance_timer.soon()

    async def rebalance(self) -> None:
        """Take up the queues that this member's share gained, give up the queues that it lost."""
        if self.is_suspended or self.is_closing:
            return
        async with self._rebalancing:
            changed = self._is_short = False
            await self._look_for_missing_topics()
            for topic in self.subscriptions.topics:
                share = await self._share_of(topic)
                if share is not None and await self._take_share(topic, share):
                    changed = True
                    self.subscriptions.touch(topic, now_ms())
            unwanted = [each for each in self.queues.values() if not self._is_wanted(each.queue)]
            changed = await self._release_all(unwanted) or changed
            self.assignment_changed()
            if changed and not self.is_closing:
                await self.beat()
            self._look_again()

    async def _share_of(self, topic: str) -> list[MessageQueue] | None:
        return await self.instance.run(
            share_of_topic(
                self.instance.routes,
                topic,
                self.group,
                self.instance.client_id,
                None if self.settings.broadcast else self._strategy,
                lost=self._on_their_way_back(topic),
                is_settled=self.instance.presence.is_settled,
                on_members=self._members_are,
            )
        )

    def _on_their_way_back(self, topic: str) -> list[MessageQueue]:
        """Return the queues of restarting brokers, which are missing from the topic's route.

        They are shared like all others. Otherwise members that fetch the route at different times
        would share different sets of queues.
        """
        routes, presence = self.instance.routes, self.instance.presence
        queues: list[MessageQueue] = []
        for broker_name, lost in routes.lost_queues(topic).items():
            address = routes.master(broker_name)
            if address is not None and not presence.is_settled(address):
                queues += lost
        return queues

    def _members_are(self, members: list[str]) -> None:
        """Handle the current list of the group's members."""

    async def _look_for_missing_topics(self) -> None:
        """Fetch the routes of missing topics, such as the retry topic of a new group."""
        routes = self.instance.routes
        missing = [topic for topic in self.subscriptions.topics if self._is_missing(topic)]
        for topic in missing:
            try:
                await self.instance.run(fetch_route(routes, topic))
            except OrbitError as error:
                _log.debug("no route to %s: %s", topic, error)
        if any(self._is_missing(topic) for topic in missing):
            self._is_short = True

    def _look_again(self) -> None:
        """Schedule another rebalance if something is missing; the pauses grow."""
        if not self._is_short:
            self._look_again_s = FIRST_LOOK_S
        elif not self.is_closing:
            # A topic that is just being created must not wait for a whole period, nor must a queue
            # that another member is about to release.
            self._loop.call_later(self._look_again_s, self.rebalance_soon)
            longest_s = min(MAX_LOOK_S, self.settings.rebalance_s)
            self._look_again_s = min(2 * self._look_again_s, longest_s)

    def _is_missing(self, topic: str) -> bool:
        route = self.instance.routes.route(topic)
        if any(
            not self.instance.presence.is_away(address)
            for queue in self._on_their_way_back(topic)
            if (address := self.instance.routes.master(queue.broker_name)) is not None
        ):
            return True  # the broker is back and will soon be in the route again
        if route is None or not topic.startswith(RETRY_PREFIX):
            return route is None
        # Each broker creates the group's retry topic at the first heartbeat of the group.
        others = (self.instance.routes.route(other) for other in self.subscriptions.topics)
        return any(other is not None and other.brokers.keys() - route.brokers for other in others)

    def _is_wanted(self, queue: MessageQueue) -> bool:
        return queue.topic in self.subscriptions

    def assignment_changed(self) -> None:
        """Recompute the cache limits of all queues, after the number of queues has changed."""
        of_topic = Counter(queue.topic for queue in self.queues)
        for queue, cache in self.queues.items():
            cache.limits = self.settings.limits(
                ordered=cache.limits.span is None,
                queues=len(self.queues),
                of_topic=of_topic[queue.topic],
            )

    async def _take_share(self, topic: str, share: list[MessageQueue]) -> bool:
        held = [queue for queue in self.queues if queue.topic == topic]
        stale = {queue for queue in held if self._is_stale(self.queues[queue])}
        steps = changes(held, share, stale)
        changed = await self._release_all([self.queues[queue] for queue in steps.dropped])
        added = await self._lend([queue for queue in steps.added if queue not in self.queues])
        offsets = await asyncio.gather(*(self._first_offset(queue) for queue in added))
        opened = []
        for queue, offset in zip(added, offsets, strict=True):
            if offset is not None and not self.is_closing:
                self.queues[queue] = self._open_queue(queue, offset)
                opened.append(f"{queue.broker_name}:{queue.queue_id} from {offset}")
        self.assignment_changed()  # before the first pull of a new queue
        if opened:
            _log.info("group %s: took up queues of %s: %s", self.group, topic, ", ".join(opened))
        return changed or bool(opened)

    def _is_stale(self, cache: QueueCache) -> bool:
        if cache.is_stopped:
            return True  # an earlier attempt to give the queue up did not succeed
        idle_ms = now_ms() - cache.last_pull_ms
        return (
            self.expires_idle_queues
            and idle_ms > max(MAX_PULL_IDLE_MS, 4 * self.settings.pull_timeout_ms)
            and not cache.is_full
        )

    async def _first_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset at which a queue begins; None if it cannot be determined now."""
        if not self.settings.broadcast:
            self.offsets.table.forget(queue)
        try:
            await self._new_group.begin(queue.topic)
            stored = await self.offsets.read(queue)
            self._known(queue, stored)
            offset = await self.instance.run(
                start_offset(self.instance.routes, queue, self.settings.start_rule, stored)
            )
        except OrbitError as error:
            _log.warning(
                "%s cannot be taken up, because its start offset is unknown: %s; next try in the "
                "following rebalance",
                queue,
                error,
            )
            return None
        return offset if offset >= 0 else None

    def _known(self, queue: MessageQueue, stored: int) -> None:
        """Note the stored offset, so that it is committed again.

        Brokers reset only queues that they have an offset of.
        """
        self.offsets.table.advance(queue, stored)

    async def _lend(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Return the queues that may be taken up now; subclasses lock queues here."""
        return queues

    def _open_queue(self, queue: MessageQueue, offset: int) -> QueueCache:
        """Start consuming a queue at an offset and return the queue's cache."""
        raise NotImplementedError

    async def _release_all(self, caches: list[QueueCache]) -> bool:
        """Give up queues; returns True if at least one of them has been released."""
        gone = await asyncio.gather(*(self._release(cache) for cache in caches))
        names = [
            f"{cache.queue.topic} {cache.queue.broker_name}:{cache.queue.queue_id}"
            for cache, is_gone in zip(caches, gone, strict=True)
            if is_gone
        ]
        if names:
            _log.info("group %s: gave up queues: %s", self.group, ", ".join(names))
        if not all(gone):
            self._is_short = True
        return any(gone)

    async def _release(self, cache: QueueCache) -> bool:
        """Give up a queue; returns True if the queue has been released.

        The offset is committed before the release, because the next owner begins there.
        """
        queue = cache.queue
        if cache.stopped_at is None:
            cache.stopped_at = self._loop.time()
        self._stop_at_line(cache)
        if not await self._let_go(cache):
            return False  # tried again soon; until then the results of the worker still count
        if not cache.is_lost:
            self._collect(cache)
            is_late = self._loop.time() - cache.stopped_at > KEPT_S
            if self._is_wanted(queue) and not await self._settle(cache) and not is_late:
                return False  # tried again until the broker is back, for at most `KEPT_S`
        cache.drop()
        self.offsets.released(queue)
        if self.queues.get(queue) is cache:
            del self.queues[queue]
        if not cache.is_lost:
            await self._return(cache)
        return True

    async def _return(self, _cache: QueueCache) -> None:
        """Release the lock of a queue at the broker."""

    async def _let_go(self, _cache: QueueCache) -> bool:
        """Stop consuming a queue; returns False if its handlers are still running."""
        return True

    def subscription_of(self, queue: MessageQueue) -> Subscription | None:
        """Return the subscription to a queue's topic, or None without a subscription."""
        return self.subscriptions.get(queue.topic)

    # ---- Offsets

    def _collect(self, cache: QueueCache) -> None:
        """Copy the progress of a queue into the offset table."""
        if not cache.is_dropped:
            self.offsets.table.advance(cache.queue, cache.commit_offset)

    async def persist(self, *, wait: bool = False) -> None:
        """Commit the offsets of all queues; with `wait`, wait for the brokers' responses."""
        for cache in self.queues.values():
            self._collect(cache)
        held = [queue for queue, cache in self.queues.items() if not cache.is_lost]
        await self.offsets.persist(held, wait=wait)
