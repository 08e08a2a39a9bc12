"""Group member behind the push consumers: pulls queues and calls handlers with the messages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from orbitmq.client.consumer.concurrent import ConcurrentService
from orbitmq.client.consumer.coordinator import now_ms
from orbitmq.client.consumer.fetcher import BUSY_DELAY_S
from orbitmq.client.consumer.handlers import Handler, HandlerTable
from orbitmq.client.consumer.hooks import ConsumeHooks, ConsumeTrace
from orbitmq.client.consumer.orderly import OrderlyService
from orbitmq.client.consumer.orderly_queue import OrderlyQueue
from orbitmq.client.consumer.process_queue import ProcessQueue, QueueCache
from orbitmq.client.consumer.pull_flow import BULK_BYTES, Pulled, PullRequest, messages_of, pull
from orbitmq.client.consumer.queue_locks import OrderedMember, clock_ms
from orbitmq.client.consumer.rates import ConsumeRates
from orbitmq.client.consumer.retry import FailedMessageHandler
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.client.consumer.workers import Workers
from orbitmq.client.hooks import ConsumeHook
from orbitmq.client.settings import ClientSettings
from orbitmq.client.trace import Tracer
from orbitmq.errors import FAILURES, BrokerBusy, BrokerRefused, ConnectionLost, OrbitError
from orbitmq.message import PullStatus
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.protocol.names import RETRY_PREFIX, TRACE_TOPIC, retry_topic

__all__ = ["PushMember"]

_log = logging.getLogger(__name__)

SUSPENDED_S = 1.0
RELEASE_S = 1.0
_WHO_ARE_YOU = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)
"""Response codes of a broker that does not have this member's latest subscriptions."""


class PushMember(OrderedMember):
    """Member of a group that calls handlers with messages."""

    def __init__(
        self,
        client: ClientSettings,
        settings: ConsumerSettings,
        handlers: HandlerTable,
        workers: Workers,
        *,
        awaits: bool,
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        super().__init__(client, settings)
        self.handlers = handlers
        self.workers = workers
        self.rates = ConsumeRates()
        self._settling = FailedMessageHandler(self)
        self.concurrent = ConcurrentService(
            handlers,
            workers,
            self._settling.failed,
            concurrency=settings.concurrency,
            awaits=awaits,
            rates=self.rates,
        )
        self._settling.serve(self.concurrent)
        self.orderly = OrderlyService(
            lambda queue: self._handler_of(queue.queue),
            workers,
            self._loop,
            relock=self._relock,
            settle=self._settling.settle_ordered,
            spawn=self.instance.spawn,
            suspend_ms=settings.suspend_ms,
            awaits=awaits,
            rates=self.rates,
        )
        self._awaits = awaits
        self._hooks = hooks
        self._tracer: Tracer | None = None
        if not settings.broadcast:
            self.subscriptions.put(subscribe(retry_topic(self.group), None, None, now_ms()))

    async def start(self) -> None:
        """Join the group; start to renew locks and to send back messages of stuck handlers."""
        await super().start()
        self._put_hooks_around_handlers()
        if not self.settings.broadcast:
            self.instance.every(self.settings.lock_s, self._renew_locks, first_s=1)
            self.instance.every(
                min(60, self.settings.consume_timeout_s), self._settling.give_up_stuck_messages
            )

    def _put_hooks_around_handlers(self) -> None:
        hooks = list(self._hooks)
        group, trace = self.settings.group, self.settings.trace
        if trace:
            topic = trace if isinstance(trace, str) else TRACE_TOPIC
            self._tracer = Tracer(self.instance, group, "CONSUME", topic)
            hooks.append(ConsumeTrace(self._tracer))
        if hooks:
            calls = ConsumeHooks(hooks, group, self.instance.client_id)
            self.handlers.wrap(calls.around_awaiting if self._awaits else calls.around)

    async def add_handler(self, handler: Handler, tags: str | None, sql: str | None) -> None:
        """Add a handler and subscribe to its topic; a rejected filter changes nothing."""
        subscription = await self._checked(handler.topic, tags, sql)
        self.handlers.put(handler)
        await self._want(subscription)

    def _handler_of(self, queue: MessageQueue) -> Handler | None:
        return self.handlers.find(self.user_topic(queue.topic))

    # ---- Queues

    def _is_ordered(self, queue: MessageQueue) -> bool:
        handler = self._handler_of(queue)
        return handler is not None and handler.is_ordered

    async def _lend(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        if not queues or self.settings.broadcast:
            return queues
        return await self._borrow(queues, [queue for queue in queues if self._is_ordered(queue)])

    def _open_queue(self, queue: MessageQueue, offset: int) -> QueueCache:
        ordered = self._is_ordered(queue)
        limits = self.settings.limits(ordered=ordered)
        cache: QueueCache
        if ordered:
            cache = OrderlyQueue(queue, offset, limits)
            cache.needs_lock = not self.settings.broadcast
            cache.granted(clock_ms())
        else:
            cache = ProcessQueue(queue, offset, limits)
        self._begin_to_pull(cache)
        return cache

    def _stop_at_line(self, cache: QueueCache) -> None:
        is_shared = not self.settings.broadcast and self._is_wanted(cache.queue)
        if isinstance(cache, ProcessQueue) and is_shared:
            self.concurrent.stop(cache)
        else:
            super()._stop_at_line(cache)

    async def _let_go(self, cache: QueueCache) -> bool:
        self._pull_no_more(cache)
        now = self._loop.time()
        deadline = now + RELEASE_S
        if isinstance(cache, OrderlyQueue):
            while cache.is_busy:
                if self._loop.time() > deadline:
                    return False
                await asyncio.sleep(0.01)
        elif isinstance(cache, ProcessQueue) and not self.settings.broadcast:
            # The next owner of the queue must not get messages that handlers have at this moment.
            stopped_at = now if cache.stopped_at is None else cache.stopped_at
            limit = stopped_at + self.settings.stop_timeout_s
            while cache.is_at_work and not cache.is_dropped and self._loop.time() < limit:
                if self._loop.time() > deadline:
                    return False
                await asyncio.sleep(0.01)
        return True

    async def _finish_work(self) -> None:
        self._pull_no_more()
        try:
            if not await self.workers.drain(self.settings.stop_timeout_s):
                _log.warning(
                    "handlers are still running after %.0f s; their messages will be delivered "
                    "again",
                    self.settings.stop_timeout_s,
                )
        finally:
            self.workers.close()
        await self._settling.finish(self.settings.stop_timeout_s)
        self.handlers.wrap(None)
        if self._tracer is not None:
            await self._tracer.close()

    # ---- Pulls

    async def _pull_forever(self, cache: QueueCache) -> None:
        while not cache.is_stopped:
            cache.last_pull_ms = now_ms()  # a queue that has to wait must not count as stale
            if self.is_suspended:
                await asyncio.sleep(SUSPENDED_S)
            elif cache.is_full:
                await self._room(cache)
            elif not (self.settings.broadcast or await self._is_still_ours(cache)):
                continue  # `_is_still_ours` has waited
            elif isinstance(cache, OrderlyQueue) and not cache.is_ours(clock_ms()):
                await self._relock(cache)
                if not cache.is_ours(clock_ms()):
                    await asyncio.sleep(self.settings.error_delay_ms / 1000)
            else:
                await self._pull_once(cache)

    async def _pull_once(self, cache: QueueCache) -> None:
        subscription = self.subscription_of(cache.queue)
        if subscription is None:
            await asyncio.sleep(self.settings.error_delay_ms / 1000)
            return
        cache.last_pull_ms = now_ms()
        commit = 0 if self.settings.broadcast else cache.commit_offset
        request = PullRequest(
            self.group,
            cache.queue,
            subscription,
            cache.next_offset,
            min(self.settings.pull_batch_size, cache.limits.messages),
            min(BULK_BYTES, cache.limits.size_bytes),
            flags=PullFlag.SUSPEND | (PullFlag.COMMIT_OFFSET if commit > 0 else 0),
            commit_offset=commit,
            suspend_ms=self.settings.suspend_pull_ms,
            timeout_ms=self.settings.pull_timeout_ms,
            broker_id=cache.broker_id,
            sub_version=self.told_version(cache.queue.topic),
        )
        began = time.perf_counter()  # the loop's clock may be too coarse for short pulls
        try:
            pulled = await self.instance.run(pull(self.instance.routes, request))
            cache.last_error = None
            self._take(cache, pulled, request, began)
        except OrbitError as error:
            await self._pull_failed(cache, error)
            return
        except FAILURES:
            # Pulls must continue while this member has the queue, even after an invalid response.
            _log.exception("pull of %s failed; next try after a pause", cache.queue)
            await asyncio.sleep(self.settings.error_delay_ms / 1000)
            return
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            await self._moved(cache, pulled.next_offset)
        elif self.settings.pull_interval_ms:
            await asyncio.sleep(self.settings.pull_interval_ms / 1000)

    def _take(self, cache: QueueCache, pulled: Pulled, request: PullRequest, began: float) -> None:
        """Pass the messages of a pull to the service that calls handlers."""
        queue = cache.queue
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        messages = messages_of(
            pulled,
            self.user_queue(queue),
            request.subscription,
            topic=None if is_retry else self.user_topic(queue.topic),
            namespace=self.namespace,
            after=cache.max_offset,
        )
        if cache.is_stopped:
            return
        cache.broker_id = pulled.broker_id
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            return
        cache.next_offset = pulled.next_offset
        if messages:
            self.rates.pulled(queue.topic, len(messages), time.perf_counter() - began)
        if not messages:
            cache.found_nothing(pulled.next_offset)
        elif isinstance(cache, OrderlyQueue):
            self.orderly.take(cache, messages, len(pulled.body))
        elif isinstance(cache, ProcessQueue):
            self.concurrent.take(cache, messages, len(pulled.body))

    async def _pull_failed(self, cache: QueueCache, error: OrbitError) -> None:
        if cache.is_stopped:
            return
        cache.broker_id = 0
        if isinstance(error, BrokerBusy):
            await asyncio.sleep(BUSY_DELAY_S)
            return
        level = logging.WARNING if cache.failed(error) else logging.DEBUG
        _log.log(level, "pull of %s failed: %s", cache.queue, error)
        if isinstance(error, ConnectionLost):
            self.instance.check(cache.queue.broker_name)
        elif isinstance(error, BrokerRefused) and error.code in _WHO_ARE_YOU:
            self.beat_soon()
        await asyncio.sleep(self.settings.error_delay_ms / 1000)

    async def _moved(self, cache: QueueCache, offset: int) -> None:
        """Drop the queue and take it up again at `offset`, because the requested offset is gone."""
        _log.warning(
            "%s has no message at offset %d; taking the queue up again at offset %d",
            cache.queue,
            cache.next_offset,
            offset,
        )
        cache.drop()
        self.offsets.table.put(cache.queue, offset)
        await self.offsets.persist([cache.queue], wait=True)
        if self.queues.get(cache.queue) is cache:
            del self.queues[cache.queue]
        self.rebalance_soon()
