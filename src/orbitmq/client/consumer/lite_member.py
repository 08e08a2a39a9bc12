"""How a consumer works that is asked for messages instead of handing them out.

Its queues are its share of the topics it subscribes to, or those it was given (`assign`). They are
pulled ahead of the reader, as far as the limits let it.
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
    """A member of a group whose messages wait in an inbox."""

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

    # ---- which queues

    async def subscribe(self, topic: str, tags: str | None = None, sql: str | None = None) -> None:
        """Want our share of a topic."""
        if self.assigned is not None:
            raise ConfigError("a consumer either subscribes to topics or is assigned queues")
        await super().subscribe(topic, tags, sql)

    async def assign(self, queues: Iterable[MessageQueue], tags: str | None = None) -> None:
        """Want exactly these queues."""
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
            await self.beat()  # brokers must know the group before it pulls
            await self.rebalance()

    def own_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue as brokers know it."""
        topic = wrap(self.namespace, queue.topic)
        return (
            queue
            if topic == queue.topic
            else MessageQueue(topic, queue.broker_name, queue.queue_id)
        )

    async def rebalance(self) -> None:
        """Take up queues that are ours, give up those that are not."""
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
        """Return what we want of a queue."""
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

    # ---- pulling

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
        # A pull that was held by the broker when the queue was paused may have brought something.
        await self._while_paused(cache)
        if cache.is_stopped:
            return
        cache.last_error = None
        cache.broker_id = pulled.broker_id
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            _log.warning(
                "%s has no offset %d, going on at %d", queue, cache.next_offset, pulled.next_offset
            )
            cache.moved(pulled.next_offset)
            self.offsets.table.forget(queue)  # it may have to go back
            return
        cache.next_offset = pulled.next_offset
        if messages:
            (run,) = cache.add(messages, len(pulled.body))
            self.inbox.put(run)
        else:
            cache.found_nothing(pulled.next_offset)

    # ---- the reader's wishes

    def _cache(self, queue: MessageQueue) -> ProcessQueue:
        cache = self.queues.get(self.own_queue(queue))
        if not isinstance(cache, ProcessQueue):
            raise ClientError(f"{queue} is not among the queues of this consumer")
        return cache

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of a queue."""
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
        # What was sought is where the group stands, even if it stops before the next message.
        fresh.found_nothing(offset)
        self.queues[cache.queue] = fresh

    async def end_of(self, queue: MessageQueue, *, first: bool) -> int:
        """Return one of a queue's ends."""
        ask = min_offset if first else max_offset
        return await self.instance.run(ask(self.instance.routes, self.own_queue(queue)))

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the message stored nearest to a time."""
        own = self.own_queue(queue)
        return await self.instance.run(search_offset(self.instance.routes, own, time_ms))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues no more; what a pull under way brings is kept for later."""
        self.paused.update(self.own_queue(queue) for queue in queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues again."""
        self.paused.difference_update(self.own_queue(queue) for queue in queues)
        self._resumed.set()

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read."""
        route = await self.instance.run(
            route_or_diagnose(self.instance.routes, wrap(self.namespace, topic))
        )
        return [
            MessageQueue(topic, queue.broker_name, queue.queue_id)
            for queue in route.subscribe_queues
        ]

    # ---- offsets

    def _known(self, queue: MessageQueue, stored: int) -> None:
        if self.auto_commit:
            super()._known(queue, stored)

    def _collect(self, cache: QueueCache) -> None:
        if self.auto_commit:
            super()._collect(cache)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit these offsets; without any, how far the reader has come."""
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
        """Return what is committed for a queue, None for nothing."""
        own = self.own_queue(queue)
        known = self.offsets.table.get(own)
        if known is None:
            known = await self.offsets.read(own)
        return known if known >= 0 else None

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message to be handed out and done."""
        cache = self._cache(queue)
        return cache.commit_offset if cache.commit_offset >= 0 else cache.next_offset


# ---- What consumers that are asked have in common, whether threads or tasks ask them


class BaseConsumer(MemberOwner[LiteMember]):
    """What consumers that are asked have in common."""

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
            subscribe(topic, tags, sql, 0)  # says what is wrong with it
        self._assigned: tuple[list[MessageQueue], str | None] | None = None
        self._told: dict[str, Tell] = {}
        self._inbox: ReadBuffer | None = None

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now. ::

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
        """Have a function told of a topic's queues, also in the next life."""
        tell = self._caller(function)
        self._told[topic] = tell
        return tell

    def _caller(self, function: Tell) -> Tell:
        """Return how the loop calls a function of the user's."""
        return function

    def position(self, queue: MessageQueue) -> int:
        """Return the offset from which on messages of a queue are not done yet. ::

        consumer.position(queue)
        """
        return self._running.position(queue)


def epoch_ms(moment: datetime | int) -> int:
    """Return a time as brokers count it."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment


def settle(inbox: ReadBuffer | None, last_is_done: bool) -> None:
    """Note what was handed out as done, the last of it if it is."""
    if inbox is not None:
        inbox.finish_last(include=last_is_done)
        if last_is_done:
            inbox.finish_given()
