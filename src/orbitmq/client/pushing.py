"""How a push consumer works: it pulls its queues, gives messages to handlers, settles the rest."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from orbitmq._native import ReceivedMessage
from orbitmq.client.concurrent import ConcurrentService
from orbitmq.client.consume_trace import trace_awaiting, trace_calls
from orbitmq.client.flows.membership import lock_queues, unlock_queues
from orbitmq.client.flows.pull import Pulled, PullRequest, messages_of, pull
from orbitmq.client.flows.send_back import send_back, send_copy
from orbitmq.client.group import GroupMember, now_ms
from orbitmq.client.handlers import Failure, Handler, HandlerTable
from orbitmq.client.orderly import OrderlyService
from orbitmq.client.settings import ClientSettings
from orbitmq.client.state.consumer_settings import ConsumerSettings
from orbitmq.client.state.orderly_queue import OrderlyQueue
from orbitmq.client.state.process_queue import ProcessQueue, QueueCache, Run
from orbitmq.client.state.subscription import subscribe
from orbitmq.client.trace import Tracer
from orbitmq.client.workers import Workers
from orbitmq.errors import BrokerBusy, BrokerRefused, ConnectionLost, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.protocol.names import RETRY_PREFIX, TRACE_TOPIC, retry_topic

__all__ = ["PushMember"]

_log = logging.getLogger(__name__)

BUSY_DELAY_S = 0.02
SUSPENDED_S = 1.0
LOCAL_RETRY_S = 5.0
RELEASE_S = 1.0
FOREVER = 2**31 - 1
STUCK_DELAY_LEVEL = 3
_WHO_ARE_YOU = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)
"""What a broker answers that has not heard our latest heartbeat."""


class PushMember(GroupMember):
    """A member of a group whose messages go to handlers."""

    def __init__(
        self,
        client: ClientSettings,
        settings: ConsumerSettings,
        handlers: HandlerTable,
        workers: Workers,
        *,
        awaits: bool,
    ) -> None:
        super().__init__(client, settings)
        self.handlers = handlers
        self.workers = workers
        self.concurrent = ConcurrentService(
            handlers,
            workers,
            self._failed_anywhere,
            concurrency=settings.concurrency,
            awaits=awaits,
        )
        self.orderly = OrderlyService(
            lambda queue: self._handler_of(queue.queue),
            workers,
            self._loop,
            relock=self._relock,
            settle=self._settle_ordered,
            spawn=self.instance.spawn,
            suspend_ms=settings.suspend_ms,
            awaits=awaits,
        )
        self._pulls: dict[QueueCache, asyncio.Task[Any]] = {}
        self._settling: set[asyncio.Task[Any]] = set()
        self._awaits = awaits
        self._tracer: Tracer | None = None
        if not settings.broadcast:
            self.subscriptions.put(subscribe(retry_topic(self.group), None, None, now_ms()))

    async def start(self) -> None:
        """Join the group."""
        await super().start()
        if self.settings.trace:
            self._trace()
        if not self.settings.broadcast:
            self.instance.every(self.settings.lock_s, self._renew_locks, first_s=1)
            self.instance.every(
                min(60, self.settings.consume_timeout_s), self._give_up_stuck_messages
            )

    def _trace(self) -> None:
        topic = self.settings.trace if isinstance(self.settings.trace, str) else TRACE_TOPIC
        tracer = Tracer(self.instance, self.settings.group, "CONSUME", topic)
        trace = trace_awaiting if self._awaits else trace_calls
        self.handlers.wrap(lambda function: trace(tracer, function))
        self._tracer = tracer

    def _handler_of(self, queue: MessageQueue) -> Handler | None:
        return self.handlers.find(self.user_topic(queue.topic))

    # ---- queues

    def _is_ordered(self, queue: MessageQueue) -> bool:
        handler = self._handler_of(queue)
        return handler is not None and handler.is_ordered

    async def _lend(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        ordered = [queue for queue in queues if self._is_ordered(queue)]
        if not ordered or self.settings.broadcast:
            return queues
        granted = await self._lock(ordered)
        return [queue for queue in queues if queue in granted or queue not in ordered]

    def _open_queue(self, queue: MessageQueue, offset: int) -> QueueCache:
        ordered = self._is_ordered(queue)
        limits = self.settings.limits(ordered=ordered)
        cache: QueueCache
        if ordered:
            cache = OrderlyQueue(queue, offset, limits)
            cache.needs_lock = not self.settings.broadcast
            cache.granted(_clock_ms())
        else:
            cache = ProcessQueue(queue, offset, limits)
        cache.last_pull_ms = now_ms()
        task = self.instance.spawn(self._pull_forever(cache))
        self._pulls[cache] = task
        task.add_done_callback(lambda _: self._pulls.pop(cache, None))
        return cache

    async def _let_go(self, cache: QueueCache) -> bool:
        pulling = self._pulls.get(cache)
        if pulling is not None:
            pulling.cancel()
        if not isinstance(cache, OrderlyQueue):
            return True
        deadline = self._loop.time() + RELEASE_S
        while cache.is_busy:
            if self._loop.time() > deadline:
                return False
            await asyncio.sleep(0.01)
        if cache.needs_lock:
            await self.instance.run(self._unlocking([cache.queue]))
        return True

    async def _finish_work(self) -> None:
        for task in list(self._pulls.values()):
            task.cancel()
        if not await self.workers.drain(self.settings.stop_timeout_s):
            _log.warning(
                "handlers are still at work after %.0f s; their messages will come again",
                self.settings.stop_timeout_s,
            )
        self.workers.close()
        # What the last handlers left behind has been handed to the loop by now.
        await asyncio.sleep(0)
        if self._settling:
            await asyncio.wait(self._settling, timeout=self.settings.stop_timeout_s)
        if self._tracer is not None:
            self.handlers.wrap(None)
            await self._tracer.close()

    # ---- pulling

    async def _pull_forever(self, cache: QueueCache) -> None:
        while not cache.is_stopped:
            if self.is_suspended:
                await asyncio.sleep(SUSPENDED_S)
            elif cache.is_full:
                await self._room(cache)
            elif isinstance(cache, OrderlyQueue) and not cache.is_ours(_clock_ms()):
                await self._relock(cache)
                if not cache.is_ours(_clock_ms()):
                    await asyncio.sleep(self.settings.error_delay_ms / 1000)
            else:
                await self._pull_once(cache)

    async def _room(self, cache: QueueCache) -> None:
        """Wait until there is room for more, however long that takes."""
        loop = self._loop
        room: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            loop.call_soon_threadsafe(_set, room)

        cache.on_room = tell
        if cache.is_full:
            await room
        cache.on_room = None
        cache.last_pull_ms = now_ms()

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
            self.settings.pull_batch_size,
            flags=PullFlag.SUSPEND | (PullFlag.COMMIT_OFFSET if commit > 0 else 0),
            commit_offset=commit,
            suspend_ms=self.settings.suspend_pull_ms,
            timeout_ms=self.settings.pull_timeout_ms,
            broker_id=cache.broker_id,
            sub_version=self.told_version(cache.queue.topic),
        )
        try:
            pulled = await self.instance.run(pull(self.instance.routes, request))
            cache.last_error = None
            self._take(cache, pulled, request)
        except OrbitError as error:
            await self._pull_failed(cache, error)
            return
        if pulled.status == "moved":
            await self._moved(cache, pulled.next_offset)
        elif self.settings.pull_interval_ms:
            await asyncio.sleep(self.settings.pull_interval_ms / 1000)

    def _take(self, cache: QueueCache, pulled: Pulled, request: PullRequest) -> None:
        """Hand over what a pull has brought."""
        queue = cache.queue
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        messages = messages_of(
            pulled,
            queue,
            request.subscription,
            topic=None if is_retry else self.user_topic(queue.topic),
            namespace=self.namespace,
            after=cache.max_offset,
        )
        if cache.is_stopped:
            return
        cache.broker_id = pulled.broker_id
        if pulled.status == "moved":
            return
        cache.next_offset = pulled.next_offset
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
        if isinstance(error, ConnectionLost) or (
            isinstance(error, BrokerRefused) and error.code in _WHO_ARE_YOU
        ):
            self.beat_soon()
        await asyncio.sleep(self.settings.error_delay_ms / 1000)

    async def _moved(self, cache: QueueCache, offset: int) -> None:
        """Take a queue up anew where it is now: what we asked for is not there any more."""
        _log.warning("%s has no offset %d, going on at %d", cache.queue, cache.next_offset, offset)
        cache.drop()
        self.offsets.table.put(cache.queue, offset)
        await self.offsets.persist([cache.queue], wait=True)
        if self.queues.get(cache.queue) is cache:
            del self.queues[cache.queue]
        self.rebalance_soon()

    # ---- messages that failed

    def _failed_anywhere(self, run: Run, failed: list[Failure]) -> None:
        """Called by workers."""
        for failure in failed:
            _log.warning(
                "the handler of %s failed on message %s, which was tried %d times before",
                failure.message.topic,
                failure.message.message_id,
                failure.message.reconsume_times,
                exc_info=failure.error,
            )
        self._loop.call_soon_threadsafe(lambda: self._begin_to_settle(run, failed))

    def _begin_to_settle(self, run: Run, failed: list[Failure]) -> None:
        task = self.instance.spawn(self._settle(run, failed))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(self, run: Run, failed: list[Failure]) -> None:
        """Send failed messages back; those that cannot be sent are tried again here."""
        if self.settings.broadcast:
            run.queue.finish(run)
            return
        kept = []
        for failure in failed:
            try:
                await self._send_back(failure.message, failure.delay_level)
            except OrbitError as error:
                message = failure.message
                _log.warning("message %s stays here: %s", message.message_id, error)
                kept.append(message.with_reconsume_times(message.reconsume_times + 1))
        runs = run.queue.finish(run, kept)
        if not self.instance.routes.route(retry_topic(self.group)):
            self.rebalance_soon()  # the topic of retries is there now
        if runs:
            self._loop.call_later(LOCAL_RETRY_S, self._retry_here, runs)

    def _retry_here(self, runs: list[Run]) -> None:
        for run in runs:
            if not run.queue.is_stopped:
                self.concurrent.submit(run)

    async def _give_up_stuck_messages(self) -> None:
        """Send back what handlers do not come back from, so that its queue can go on."""
        overdue = time.monotonic() - self.settings.consume_timeout_s
        for run in self.concurrent.stuck_since(overdue):
            (message,) = run.messages
            _log.warning(
                "the handler of %s has had message %s for more than %.0f s: it will be retried",
                message.topic,
                message.message_id,
                self.settings.consume_timeout_s,
            )
            try:
                await self._send_back(message, STUCK_DELAY_LEVEL)
            except OrbitError as error:
                _log.warning("message %s stays here: %s", message.message_id, error)
                continue
            self.concurrent.give_up(run)

    async def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        queue: MessageQueue = message.queue
        await self.instance.run(
            send_back(
                self.instance.routes,
                self.group,
                message,
                queue.broker_name,
                delay_level=delay_level,
                max_reconsume_times=self.settings.send_back_limit,
            )
        )

    async def _settle_ordered(
        self, _queue: OrderlyQueue, taken: list[ReceivedMessage], _error: Exception
    ) -> list[ReceivedMessage] | None:
        """Hand messages that were tried too often to the dead letters, have the others again."""
        limit = self.settings.max_reconsume_times
        if self.settings.broadcast:
            limit = FOREVER if limit < 0 else limit
            if all(message.reconsume_times >= limit for message in taken):
                return None
        elif limit >= 0 and all(message.reconsume_times >= limit for message in taken):
            try:
                for message in taken:
                    await self.instance.run(
                        send_copy(
                            self.instance.routes,
                            self.group,
                            message,
                            reconsume_times=message.reconsume_times,
                            max_reconsume_times=limit,
                        )
                    )
                return None
            except OrbitError as error:
                _log.warning("message %s stays here: %s", taken[0].message_id, error)
        return [message.with_reconsume_times(message.reconsume_times + 1) for message in taken]

    # ---- locks

    async def _lock(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        return await self.instance.run(
            lock_queues(self.instance.routes, self.group, self.instance.client_id, queues)
        )

    def _unlocking(self, queues: list[MessageQueue], *, wait: bool = False) -> Any:
        return unlock_queues(
            self.instance.routes, self.group, self.instance.client_id, queues, wait=wait
        )

    async def _relock(self, cache: OrderlyQueue) -> bool:
        if not cache.needs_lock:
            return True
        if cache.queue in await self._lock([cache.queue]):
            cache.granted(_clock_ms())
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
                cache.granted(_clock_ms())
            elif self.instance.routes.master(cache.queue.broker_name) is not None:
                cache.refused()

    async def _give_back(self) -> None:
        held = [cache.queue for cache in self._ordered_queues()]
        if held:
            await self.instance.run(self._unlocking(held, wait=True))


def _clock_ms() -> int:
    return int(time.monotonic() * 1000)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
