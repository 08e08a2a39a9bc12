"""Push consumers call functions with messages: one class for threads, one for asyncio tasks.

Both classes are thin: their common part is `BasePushConsumer`, the work is done by `PushMember`.
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

    A message is done when the function returns. If the function raises, the error is logged with
    the message's id, and the message is delivered again later. After `max_reconsume_times` retries
    it becomes a dead letter.

    Settings (keyword arguments, all but `group` optional):

    - `consume_from`: start of a new group: ``"earliest"`` (or ``"first"``), ``"latest"`` (the end
      of every queue), a time, or ``"last"`` (default). ``"last"`` is RocketMQ's rule: the end of a
      queue, but the first message of a young queue, whose first message is still in memory;
    - `concurrency`: number of threads; `broadcast`: every consumer gets every message;
    - `pull_batch_size`: number of messages per pull;
    - `max_cached_messages`, `max_cached_bytes`, `max_span`: limits of the messages held per queue;
    - `max_cached_messages_of_topic`, `max_cached_bytes_of_topic`: limits of the messages held per
      topic;
    - `max_reconsume_times`: number of retries of a message; `suspend_ms`: pause before the retry of
      an ordered message;
    - `stop_timeout_s`: time for which `close` waits for running functions;
    - `strategy`: rule by which the group's members share the queues;
    - `hooks`: objects that are called around every call of a function, see `ConsumeHook`;
    - `instance_name`: part of the client id. The default is unique, so a process may have any
      number of members of a group. Only several broadcast consumers in one process need a name
      each, because the name is part of the path of their offset file;
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
        """Register a function for a topic: all messages, or those that `tags` or `sql` select.

        ::

            @consumer.on("orders", sql="price > 10", batch=32)
            def handle(messages):          # a list, because of batch
                ...

            @consumer.on("steps", orderly=True)
            def step(message):             # the messages of a queue one after the other
                ...

        With ``auto_commit=False`` an ordered function decides itself when to commit or to repeat
        messages, see `OrderlyStatus`. If a broker cannot parse the filter, `start` raises an error.
        While the consumer is running, the registration raises the error and changes nothing.
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
        """Stop consuming a topic and remove its function. ::

        consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            background.run(self._member.unsubscribe(topic))
        self._handlers.remove(topic)

    def start(self) -> Self:
        """Join the group and start consuming in the background.

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
        """Finish the running functions, commit the offsets of done messages and leave the group.

        If a function that handles messages calls `close`, the call returns at once. ::

            consumer.close()
        """
        member = self._take_member()
        if member is None:
            return
        if self._generation != background.generation():
            background.keep_parent_objects(member)  # a forked child has only a copy of the member
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
        """Stop pulling until `resume` is called. ::

        consumer.suspend()
        """
        self._running.is_suspended = True

    def resume(self) -> None:
        """Start pulling again after `suspend`. ::

        consumer.resume()
        """
        member = self._running
        member.is_suspended = False
        background.loop().call_soon_threadsafe(member.rebalance_soon)

    def run(self) -> None:
        """Consume until `close` is called or the process receives SIGINT or SIGTERM.

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
            # Install the handlers before `start`, because messages are handled before it returns.
            before[signal.SIGTERM] = signal.signal(signal.SIGTERM, end)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                before[signal.SIGINT] = signal.signal(signal.SIGINT, end)
        try:
            if self._member is None:
                self.start()
            waits = True
            # In slices, because an endless wait blocks signals on some systems.
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
    """Awaits coroutine functions with messages, up to `concurrency` at a time.

    ::

        consumer = AsyncPushConsumer("127.0.0.1:9876", group="billing")

        @consumer.on("orders", tags="created || paid")
        async def handle(message):
            await store(message.body)

        asyncio.run(consumer.run())

    The consumer belongs to the event loop on which it is started. Everything else is as in
    `PushConsumer`; `concurrency` is the number of tasks.
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
        """Register a coroutine function for the messages of a topic, before the start. ::

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
        """Register a coroutine function for a topic, also while the consumer is running. ::

        await consumer.subscribe("orders", handle, tags="paid")
        """
        handler = self._make_handler(topic, function, tags, sql, orderly, batch, auto_commit)
        if self._member is None:
            self._add(handler, tags, sql)
        else:
            await self._add_running(self._member, handler, tags, sql)

    async def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic and remove its function. ::

        await consumer.unsubscribe("orders")
        """
        self._wanted.pop(topic, None)
        if self._member is not None:
            await self._member.unsubscribe(topic)
        self._handlers.remove(topic)

    async def start(self) -> Self:
        """Join the group and start consuming on the running loop. ::

        await consumer.start()
        """
        self._begin()
        self._stopped = asyncio.Event()
        if not self._has_joined(await self._join(TaskWorkers(self.settings.concurrency))):
            await self.close()
        return self

    async def close(self) -> None:
        """Finish the running functions, commit the offsets of done messages and leave the group. ::

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
        """Stop pulling until `resume` is called. ::

        consumer.suspend()
        """
        self._running.is_suspended = True

    def resume(self) -> None:
        """Start pulling again after `suspend`. ::

        consumer.resume()
        """
        member = self._running
        member.is_suspended = False
        member.rebalance_soon()

    async def run(self) -> None:
        """Consume until `close` is called, the task is cancelled or the process gets SIGTERM. ::

        asyncio.run(consumer.run())

        SIGTERM has this effect unless the program has its own handler for SIGTERM. Ctrl-C cancels
        the task of `asyncio.run`.
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
    """Make SIGTERM call `end` inside the block, unless the program has its own SIGTERM handler."""
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
