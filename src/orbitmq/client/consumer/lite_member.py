"""Group member behind the iterating consumers `Consumer` and `AsyncConsumer`.

The queues of the member are its share of the subscribed topics, or the queues given to `assign`.
Messages are pulled in advance of the reader, up to the cache limits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack

from orbitmq.client.consumer.base import MemberOwner
from orbitmq.client.consumer.buffer import ReadBuffer
from orbitmq.client.consumer.coordinator import now_ms
from orbitmq.client.consumer.fetcher import BUSY_DELAY_S, FetchingMember
from orbitmq.client.consumer.offsets import max_offset, min_offset, search_offset
from orbitmq.client.consumer.process_queue import ProcessQueue, QueueCache
from orbitmq.client.consumer.pull_flow import BULK_BYTES, LITE_PULL, PullRequest, messages_of, pull
from orbitmq.client.consumer.queue_watch import QueueWatch, Tell
from orbitmq.client.consumer.settings import (
    ConsumerOptions,
    ConsumerSettings,
    Nameservers,
    sort_options,
)
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import BrokerBusy, ClientClosed, ClientError, ConfigError, OrbitError
from orbitmq.message import PullStatus
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.flags import PullFlag
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.routes import route_or_diagnose

__all__ = ["BaseConsumer", "LiteMember", "epoch_ms", "settle"]

_log = logging.getLogger(__name__)

_FLAGS = PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | LITE_PULL


class LiteMember(FetchingMember[ProcessQueue]):
    """Member of a group that puts pulled messages into a read buffer."""

    consume_type = "CONSUME_ACTIVELY"
    is_stream = True
    expires_idle_queues = False

    def __init__(
        self,
        client: ClientSettings,
        settings: ConsumerSettings,
        inbox: ReadBuffer,
        *,
        auto_commit: bool,
    ) -> None:
        super().__init__(client, settings)
        self.inbox = inbox
        self.auto_commit = auto_commit
        self.assigned: dict[MessageQueue, Subscription] | None = None
        self.watch = QueueWatch(self.instance)
        self.paused: set[MessageQueue] = set()
        self._resumed = asyncio.Event()

    def describe(self) -> dict[str, Any]:
        """Return this consumer's part of the heartbeat."""
        return super().describe() | {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}

    async def _finish_work(self) -> None:
        self._pull_no_more()
        self.inbox.close()

    # ---- Subscription or assignment

    async def subscribe(self, topic: str, tags: str | None = None, sql: str | None = None) -> None:
        """Subscribe to a topic; raises `ConfigError` if queues were assigned."""
        if self.assigned is not None:
            raise ConfigError("a consumer either subscribes to topics or is assigned queues")
        await super().subscribe(topic, tags, sql)

    async def assign(self, queues: Iterable[MessageQueue], tags: str | None = None) -> None:
        """Consume exactly these queues; raises `ConfigError` if topics were subscribed to."""
        if self.subscriptions.topics:
            raise ConfigError("a consumer either subscribes to topics or is assigned queues")
        self.assigned = {
            queue: subscribe(queue.topic, tags, None, 0)
            for queue in (self.own_queue(queue) for queue in queues)
        }
        if self.instance.is_running:
            for topic in {queue.topic for queue in self.assigned}:
                self.instance.routes.watch(topic)
                await self.instance.run(route_or_diagnose(self.instance.routes, topic))
            await self.beat()  # brokers need the group's heartbeat before its first pull
            await self.rebalance()

    def own_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with the broker's topic name, which includes the namespace."""
        topic = wrap(self.namespace, queue.topic)
        return (
            queue
            if topic == queue.topic
            else MessageQueue(topic, queue.broker_name, queue.queue_id)
        )

    async def rebalance(self) -> None:
        """Take up new queues of the share or assignment, and give up all others."""
        if self.assigned is None:
            await super().rebalance()
            return
        async with self._rebalancing:
            for topic in {queue.topic for queue in [*self.assigned, *self.queues]}:
                share = [queue for queue in self.assigned if queue.topic == topic]
                await self._take_share(topic, share)

    def _is_wanted(self, queue: MessageQueue) -> bool:
        return queue in self.assigned if self.assigned is not None else super()._is_wanted(queue)

    def subscription_of(self, queue: MessageQueue) -> Subscription | None:
        """Return the subscription that applies to a queue, or None without a subscription."""
        if self.assigned is not None:
            return self.assigned.get(queue)
        return super().subscription_of(queue)

    def _open_queue(self, queue: MessageQueue, offset: int) -> QueueCache:
        cache = ProcessQueue(queue, offset, self.settings.limits(ordered=False))
        self._begin_to_pull(cache)
        return cache

    async def _let_go(self, cache: QueueCache) -> bool:
        self._pull_no_more(cache)
        return True

    # ---- Pulls

    async def _pull_forever(self, cache: ProcessQueue) -> None:
        while not cache.is_stopped:
            if cache.queue in self.paused:
                await self._while_paused(cache)
            elif cache.is_full:
                await self._room(cache)
            else:
                await self._pull_once(cache)

    async def _while_paused(self, cache: ProcessQueue) -> None:
        while cache.queue in self.paused:
            self._resumed.clear()
            await self._resumed.wait()

    async def _pull_once(self, cache: ProcessQueue) -> None:
        queue = cache.queue
        subscription = self.subscription_of(queue)
        if subscription is None:
            await asyncio.sleep(self.settings.error_delay_ms / 1000)
            return
        cache.last_pull_ms = now_ms()
        request = PullRequest(
            self.group,
            queue,
            subscription,
            cache.next_offset,
            min(self.settings.pull_batch_size, cache.limits.messages),
            min(BULK_BYTES, cache.limits.size_bytes),
            flags=_FLAGS,
            suspend_ms=self.settings.suspend_pull_ms,
            timeout_ms=self.settings.pull_timeout_ms,
            broker_id=cache.broker_id,
            sub_version=0 if subscription.is_tags else None,
        )
        try:
            pulled = await self.instance.run(pull(self.instance.routes, request))
            messages = messages_of(
                pulled,
                self.user_queue(queue),
                subscription,
                topic=self.user_topic(queue.topic),
                after=cache.max_offset,
            )
        except OrbitError as error:
            cache.broker_id = 0
            if isinstance(error, BrokerBusy):
                await asyncio.sleep(BUSY_DELAY_S)
                return
            level = logging.WARNING if cache.failed(error) else logging.DEBUG
            _log.log(level, "pull of %s failed: %s", queue, error)
            await asyncio.sleep(self.settings.error_delay_ms / 1000)
            return
        # The queue may have been paused while the broker held this pull; keep the messages until
        # the queue is resumed.
        await self._while_paused(cache)
        if cache.is_stopped:
            return
        cache.last_error = None
        cache.broker_id = pulled.broker_id
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            _log.warning(
                "%s has no message at offset %d; pulls continue at offset %d",
                queue,
                cache.next_offset,
                pulled.next_offset,
            )
            cache.moved(pulled.next_offset)
            self.offsets.table.forget(queue)  # `advance` would ignore a lower new offset
            return
        cache.next_offset = pulled.next_offset
        if messages:
            (run,) = cache.add(messages, len(pulled.body))
            self.inbox.put(run)
        else:
            cache.found_nothing(pulled.next_offset)

    # ---- Requests of the reader

    def _cache(self, queue: MessageQueue) -> ProcessQueue:
        cache = self.queues.get(self.own_queue(queue))
        if not isinstance(cache, ProcessQueue):
            raise ClientError(f"{queue} is not among the queues of this consumer")
        return cache

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at another offset of a queue."""
        cache = self._cache(queue)
        first = await self.instance.run(min_offset(self.instance.routes, cache.queue))
        end = await self.instance.run(max_offset(self.instance.routes, cache.queue))
        if not first <= offset <= end:
            raise ClientError(f"{queue} has offsets from {first} to {end}, not {offset}")
        await self._let_go(cache)
        cache.drop()
        self.inbox.forget(cache)
        self.offsets.table.forget(cache.queue)
        fresh = self._open_queue(cache.queue, offset)
        # The new offset is the group's progress, even if the consumer stops before the next
        # message.
        fresh.found_nothing(offset)
        self.queues[cache.queue] = fresh

    async def end_of(self, queue: MessageQueue, *, first: bool) -> int:
        """Return the offset of a queue's first message, or the offset behind its last message."""
        ask = min_offset if first else max_offset
        return await self.instance.run(ask(self.instance.routes, self.own_queue(queue)))

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the message stored nearest to a time."""
        own = self.own_queue(queue)
        return await self.instance.run(search_offset(self.instance.routes, own, time_ms))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling from these queues; messages of a running pull are kept until `resume`."""
        self.paused.update(self.own_queue(queue) for queue in queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Resume pulling from these queues."""
        self.paused.difference_update(self.own_queue(queue) for queue in queues)
        self._resumed.set()

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of a topic."""
        route = await self.instance.run(
            route_or_diagnose(self.instance.routes, wrap(self.namespace, topic))
        )
        return [
            MessageQueue(topic, queue.broker_name, queue.queue_id)
            for queue in route.subscribe_queues
        ]

    # ---- Offsets

    def _known(self, queue: MessageQueue, stored: int) -> None:
        if self.auto_commit:
            super()._known(queue, stored)

    def _collect(self, cache: QueueCache) -> None:
        if self.auto_commit:
            super()._collect(cache)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit these offsets; without `offsets`, commit the reader's progress in all queues."""
        if offsets is None:
            for cache in self.queues.values():
                super()._collect(cache)
            queues = list(self.queues)
        else:
            queues = []
            for queue, offset in offsets.items():
                own = self.own_queue(queue)
                self.offsets.table.put(own, offset)
                queues.append(own)
        await self.offsets.persist(queues, wait=True)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of a queue, None before the first commit."""
        own = self.own_queue(queue)
        known = self.offsets.table.get(own)
        if known is None:
            known = await self.offsets.read(own)
        return known if known >= 0 else None

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the first message of a queue that is not done yet."""
        cache = self._cache(queue)
        return cache.commit_offset if cache.commit_offset >= 0 else cache.next_offset


# ---- Base class of the iterating consumers, for threads and for asyncio


class BaseConsumer(MemberOwner[LiteMember]):
    """Common base of `Consumer` and `AsyncConsumer`."""

    def __init__(
        self,
        nameservers: Nameservers = None,
        *topics: str,
        group: str,
        tags: str | None = None,
        sql: str | None = None,
        auto_commit: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.client_settings, self.settings = sort_options(nameservers, group, options)
        self.auto_commit = auto_commit
        self._wanted = dict.fromkeys(topics, (tags, sql))
        for topic in topics:
            subscribe(topic, tags, sql, 0)  # raises `ConfigError` for an invalid subscription
        self._assigned: tuple[list[MessageQueue], str | None] | None = None
        self._told: dict[str, Tell] = {}
        self._inbox: ReadBuffer | None = None

    @property
    def assignment(self) -> list[MessageQueue]:
        """Queues that this consumer reads now. ::

        for queue in consumer.assignment:
            print(queue, consumer.position(queue))
        """
        member = self._running
        return [member.user_queue(queue) for queue in list(member.queues)]

    @property
    def _reading(self) -> ReadBuffer:
        if self._member is None or self._inbox is None:
            raise ClientClosed(f"{self!r} is not running: call start() first")
        return self._inbox

    async def _join(self, inbox: ReadBuffer) -> LiteMember:
        member = LiteMember(
            self.client_settings, self.settings, inbox, auto_commit=self.auto_commit
        )
        for topic, (tags, sql) in self._wanted.items():
            await member.subscribe(topic, tags, sql)
        await member.start()
        if self._assigned is not None:
            await member.assign(*self._assigned)
        for topic, tell in self._told.items():
            await member.watch.add(topic, tell)
        return member

    def _tell(self, topic: str, function: Tell) -> Tell:
        """Register a function for changes of a topic's queues, also after a restart."""
        tell = self._caller(function)
        self._told[topic] = tell
        return tell

    def _caller(self, function: Tell) -> Tell:
        """Return a function for the loop that calls the user's function."""
        return function

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the first message of a queue that is not done yet. ::

        consumer.position(queue)
        """
        return self._running.position(queue)


def epoch_ms(moment: datetime | int) -> int:
    """Return a time in milliseconds since the epoch."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment


def settle(inbox: ReadBuffer | None, last_is_done: bool) -> None:
    """Mark all returned messages as done; the last message or list only if `last_is_done`."""
    if inbox is not None:
        inbox.finish_last(include=last_is_done)
        if last_is_done:
            inbox.finish_given()
