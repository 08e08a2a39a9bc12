"""Push consumers: messages come to functions. One class for threads, one for tasks.

Both are thin: what they share is in `BasePushConsumer`, how they work in `PushMember`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Self, TypeVar, Unpack

from orbitmq.client import background
from orbitmq.client.consumer.base import AsyncWithBlock, WithBlock
from orbitmq.client.consumer.push_base import BasePushConsumer
from orbitmq.client.consumer.settings import ConsumerOptions, Nameservers
from orbitmq.client.consumer.workers import TaskWorkers, ThreadWorkers
from orbitmq.client.hooks import ConsumeHook
from orbitmq.errors import ConfigError

__all__ = ["AsyncPushConsumer", "PushConsumer"]

F = TypeVar("F", bound=Callable[[Any], Any])
A = TypeVar("A", bound=Callable[[Any], Awaitable[Any]])


class PushConsumer(WithBlock, BasePushConsumer):
    """Calls functions with messages, on a pool of threads.

    ::

        consumer = PushConsumer("127.0.0.1:9876", group="billing")

        @consumer.on("orders", tags="created || paid")
        def handle(message):
            print(message.message_id, message.body)

        consumer.run()

    A function that returns has done its work; when it raises, the error is logged with the
    message's id and the message comes again later, up to `max_reconsume_times`; then it becomes a
    dead letter.

    Settings (keyword arguments, all but `group` optional):

    - `consume_from`: where a new group begins: ``"earliest"`` (or ``"first"``), ``"latest"`` (the
      end of every queue), a time, or ``"last"`` (default): RocketMQ's rule, which is the end of a
      queue, but the first message of a queue so young that it is still in memory;
    - `concurrency`: how many threads; `broadcast`: every consumer gets every message;
    - `pull_batch_size`, `max_cached_messages`, `max_cached_bytes`, `max_span`: how much is pulled
      at a time, and held of each queue;
    - `max_reconsume_times`, `suspend_ms`: how often and, in order, how soon messages are retried;
    - `stop_timeout_s`: how long `close` waits for functions that are at work;
    - `max_cached_messages_of_topic`, `max_cached_bytes_of_topic`: how much is held of each topic;
    - `strategy`: how the group's members share the queues;
    - `hooks`: objects that are called around every call of a function, see `ConsumeHook`;
    - `instance_name`: part of the name brokers know it by. It is made up, so a process may have as
      many members of a group as it likes; only those of broadcasts, whose offsets are kept in a
      file of that name, have to be given one each;
    - `namespace`, `access_key`, `secret_key`, `security_token`, `tls`: as for every client.
    """

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        group: str,
        hooks: Iterable[ConsumeHook] = (),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(nameservers, group=group, hooks=hooks, **options)
        self._workers: ThreadWorkers | None = None
        self._generation = 0
        self._stopped = threading.Event()

    def on(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        orderly: bool = False,
        batch: int = 1,
        auto_commit: bool = True,
    ) -> Callable[[F], F]:
        """Have a function get the messages of a topic, all or those that `tags` or `sql` select.

        ::

            @consumer.on("orders", sql="price > 10", batch=32)
            def handle(messages):          # a list, because of batch
                ...

            @consumer.on("steps", orderly=True)
            def step(message):             # the messages of a queue one after the other
                ...

        With ``auto_commit=False`` an ordered function says itself when what it did is committed, or
        comes again: see `OrderlyStatus`. A filter that brokers do not understand is an error of
        `start`, and of this while the consumer is running; then nothing has changed.
        """

        def add(function: F) -> F:
            handler = self._make_handler(topic, function, tags, sql, orderly, batch, auto_commit)
            if self._member is None:
                self._add(handler, tags, sql)
            else:
                background.run(self._add_running(self._member, handler, tags, sql))
            return function

        return add

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no more. ::

        consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            background.run(self._member.unsubscribe(topic))
        self._handlers.remove(topic)

    def start(self) -> Self:
        """Begin to consume, in the background.

        ::

            consumer.start()
            ...
            consumer.close()
        """
        self._begin()
        self._stopped.clear()
        self._generation = background.generation()
        self._workers = ThreadWorkers(self.settings.concurrency, f"orbitmq-{self.settings.group}")
        if not self._has_joined(background.run(self._join(self._workers))):
            self.close()
        return self

    def close(self) -> None:
        """Finish the messages that are being handled, commit what was done, leave the group.

        A handler may call it, too; then it returns at once. ::

            consumer.close()
        """
        member = self._take_member()
        if member is None:
            return
        if self._generation != background.generation():
            background.keep_parent_objects(member)  # a forked child has only a picture of it
            return
        if self._workers is not None and self._workers.is_worker:
            future = asyncio.run_coroutine_threadsafe(member.stop(), background.loop())
            future.add_done_callback(lambda _: self._stopped.set())
            return
        try:
            background.run(member.stop())
        finally:
            self._stopped.set()

    def suspend(self) -> None:
        """Pull no more until `resume`. ::

        consumer.suspend()
        """
        self._running.is_suspended = True

    def resume(self) -> None:
        """Go on after `suspend`. ::

        consumer.resume()
        """
        member = self._running
        member.is_suspended = False
        background.loop().call_soon_threadsafe(member.rebalance_soon)

    def run(self) -> None:
        """Consume until `close` is called, or the process is told to end (SIGINT, SIGTERM).

        ::

            if __name__ == "__main__":
                consumer.run()
        """
        is_told = waits = False

        def end(_number: int, _frame: FrameType | None) -> None:
            nonlocal is_told
            is_told = True
            if waits:
                raise KeyboardInterrupt

        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # From here on: messages are handled before `start` has returned.
            before[signal.SIGTERM] = signal.signal(signal.SIGTERM, end)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                before[signal.SIGINT] = signal.signal(signal.SIGINT, end)
        try:
            if self._member is None:
                self.start()
            waits = True
            # In slices: a wait without an end would not let signals through on every system.
            while not is_told and not self._stopped.wait(1):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            waits = False
            for number, handler in before.items():
                signal.signal(number, handler)
            self.close()


class AsyncPushConsumer(AsyncWithBlock, BasePushConsumer):
    """Awaits coroutine functions with messages, a bounded number at a time.

    ::

        consumer = AsyncPushConsumer("127.0.0.1:9876", group="billing")

        @consumer.on("orders", tags="created || paid")
        async def handle(message):
            await store(message.body)

        asyncio.run(consumer.run())

    It belongs to the loop it is started on. Everything else is as for `PushConsumer`;
    `concurrency` counts tasks.
    """

    _awaits = True
    _stopped: asyncio.Event | None = None

    def on(
        self,
        topic: str,
        *,
        tags: str | None = None,
        sql: str | None = None,
        orderly: bool = False,
        batch: int = 1,
        auto_commit: bool = True,
    ) -> Callable[[A], A]:
        """Have a coroutine function get the messages of a topic, before the start. ::

        @consumer.on("orders", tags="created || paid")
        async def handle(message):
            ...
        """

        def add(function: A) -> A:
            if self._member is not None:
                raise ConfigError("add handlers before the start, or with `await subscribe(...)`")
            handler = self._make_handler(topic, function, tags, sql, orderly, batch, auto_commit)
            self._add(handler, tags, sql)
            return function

        return add

    async def subscribe(
        self,
        topic: str,
        function: Callable[[Any], Awaitable[Any]],
        *,
        tags: str | None = None,
        sql: str | None = None,
        orderly: bool = False,
        batch: int = 1,
        auto_commit: bool = True,
    ) -> None:
        """Have a coroutine function get the messages of a topic, also while running. ::

        await consumer.subscribe("orders", handle, tags="paid")
        """
        handler = self._make_handler(topic, function, tags, sql, orderly, batch, auto_commit)
        if self._member is None:
            self._add(handler, tags, sql)
        else:
            await self._add_running(self._member, handler, tags, sql)

    async def unsubscribe(self, topic: str) -> None:
        """Consume a topic no more. ::

        await consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            await self._member.unsubscribe(topic)
        self._handlers.remove(topic)

    async def start(self) -> Self:
        """Begin to consume on the running loop. ::

        await consumer.start()
        """
        self._begin()
        self._stopped = asyncio.Event()
        if not self._has_joined(await self._join(TaskWorkers(self.settings.concurrency))):
            await self.close()
        return self

    async def close(self) -> None:
        """Finish the messages that are being handled, commit what was done, leave the group. ::

        await consumer.close()
        """
        member = self._take_member()
        if member is None:
            return
        try:
            await member.stop()
        finally:
            if self._stopped is not None:
                self._stopped.set()

    def suspend(self) -> None:
        """Pull no more until `resume`. ::

        consumer.suspend()
        """
        self._running.is_suspended = True

    def resume(self) -> None:
        """Go on after `suspend`. ::

        consumer.resume()
        """
        member = self._running
        member.is_suspended = False
        member.rebalance_soon()

    async def run(self) -> None:
        """Consume until `close` is called, the task is cancelled, or the process is told to end. ::

        asyncio.run(consumer.run())

        That is SIGTERM, unless the program has a handler of its own for it; Ctrl-C cancels the
        task of `asyncio.run`.
        """
        if self._member is None:
            await self.start()
        if self._stopped is None:
            return
        with _sigterm_calls(self._stopped.set):
            try:
                await self._stopped.wait()
            finally:
                await self.close()


@contextlib.contextmanager
def _sigterm_calls(end: Callable[[], None]) -> Iterator[None]:
    """Have SIGTERM end a task instead of the process, if nobody else has taken care of it."""
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    loop = asyncio.get_running_loop()
    if is_ours:
        loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        if is_ours:
            loop.remove_signal_handler(signal.SIGTERM)
