"""`PullSchedule`: pulling by hand, of queues that are shared out among a group's members.

Between the two other ways to pull: `PullConsumer` leaves to the program which queues are its, and
`Consumer` decides itself when to pull. RocketMQ's Java client calls this a schedule service.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar, Unpack

from orbitmq.client import background
from orbitmq.client.consumer.base import AsyncWithBlock, MemberOwner, WithBlock
from orbitmq.client.consumer.handlers import already_handled
from orbitmq.client.consumer.pull_base import PullHow, PullResult
from orbitmq.client.consumer.settings import ConsumerOptions, Nameservers, sort_options
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.client.schedule_member import BaseTurn, ScheduleMember
from orbitmq.errors import ConfigError

__all__ = ["AsyncPullSchedule", "AsyncPullTurn", "PullSchedule", "PullTurn"]

F = TypeVar("F", bound=Callable[[Any], Any])


class PullTurn(BaseTurn):
    """The turn of a queue: what functions of a `PullSchedule` are called with. ::

    @schedule.on("orders")
    def pull(turn):
        result = turn.pull(100)
        turn.commit(result.next_offset)
    """

    def pull(
        self,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        sql: str | None = None,
        block: bool = False,
    ) -> PullResult:
        """Return what the queue has from `offset` on; with `block` wait for it, up to 20 s. ::

        result = turn.pull(100, tags="paid")
        """
        return background.run(self._pull(PullHow(max_messages, tags, sql, block)))


class AsyncPullTurn(BaseTurn):
    """The turn of a queue: what functions of an `AsyncPullSchedule` are called with. ::

    @schedule.on("orders")
    async def pull(turn):
        result = await turn.pull(100)
        turn.commit(result.next_offset)
    """

    async def pull(
        self,
        max_messages: int = 32,
        *,
        tags: str | None = None,
        sql: str | None = None,
        block: bool = False,
    ) -> PullResult:
        """Return what the queue has from `offset` on; with `block` wait for it, up to 20 s. ::

        result = await turn.pull(100, tags="paid")
        """
        return await self._pull(PullHow(max_messages, tags, sql, block))


class _BaseSchedule(MemberOwner[ScheduleMember]):
    _turns: type[BaseTurn]
    _awaits = False

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        group: str,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.client_settings, self.settings = sort_options(nameservers, group, options)
        self._functions: dict[str, Callable[[Any], Any]] = {}

    def on(self, topic: str) -> Callable[[F], F]:
        """Have a function called for each of our queues of a topic, before the start. ::

        @schedule.on("orders")
        def pull(turn):
            result = turn.pull(100)
            store(result.messages)
            turn.commit(result.next_offset)
            turn.next_in_s = 0 if result.messages else 1
        """
        if self._member is not None:
            raise ConfigError("add functions before the start")
        subscribe(topic, None, None, 0)  # says what is wrong with it

        def add(function: F) -> F:
            if inspect.iscoroutinefunction(function) != self._awaits:
                kind = "AsyncPullSchedule" if not self._awaits else "PullSchedule"
                raise ConfigError(f"the function of {topic} is one for {kind}")
            if topic in self._functions:
                raise already_handled(topic, self._functions[topic], is_replaceable=False)
            self._functions[topic] = function
            return function

        return add

    async def _join(self, call: Callable[[str, Any], Awaitable[None]]) -> ScheduleMember:
        if not self._functions:
            raise ConfigError(f"{self!r} has nothing to call: add it with @schedule.on(topic)")
        member = ScheduleMember(self.client_settings, self.settings, self._turns, call)
        for topic in self._functions:
            await member.subscribe(topic)
        await member.start()
        return member


class PullSchedule(WithBlock, _BaseSchedule):
    """Calls functions that pull, each queue's after a while of its own, on a pool of threads.

    ::

        schedule = PullSchedule("127.0.0.1:9876", group="audit")

        @schedule.on("orders")
        def pull(turn):
            result = turn.pull(100)                  # of turn.queue, from turn.offset on
            store(result.messages)
            turn.commit(result.next_offset)
            turn.next_in_s = 0 if result.messages else 1

        with schedule:
            ...

    The group's members share the queues, as those of a `PushConsumer` do. When a function raises,
    the error is logged and the same queue's turn comes again after `error_delay_ms`.
    `concurrency` counts threads; other settings are those of `PushConsumer`.
    """

    _turns = PullTurn
    _pool: ThreadPoolExecutor | None = None
    _generation = 0

    def start(self) -> Self:
        """Join the group and begin with the calls. ::

        schedule.start()
        """
        self._begin()
        self._generation = background.generation()
        self._thread_name = f"orbitmq-{self.settings.group}-{id(self)}"
        pool = ThreadPoolExecutor(self.settings.concurrency, self._thread_name)

        async def call(topic: str, turn: Any) -> None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(pool, self._functions[topic], turn)

        try:
            member = background.run(self._join(call))
        except BaseException:
            pool.shutdown(wait=False)
            raise
        self._pool = pool
        if not self._has_joined(member):
            self.close()
        return self

    def close(self) -> None:
        """Let the calls that are under way end, commit, and leave the group.

        A function may call it, too; then it returns at once. ::

            schedule.close()
        """
        member = self._take_member()
        if member is None:
            return
        pool, self._pool = self._pool, None
        if self._generation != background.generation():
            background.keep_parent_objects(
                (member, pool)
            )  # a forked child has only a picture of it
            return
        if threading.current_thread().name.startswith(self._thread_name):
            asyncio.run_coroutine_threadsafe(member.stop(), background.loop())
        else:
            background.run(member.stop())
        if pool is not None:
            pool.shutdown(wait=False)


class AsyncPullSchedule(AsyncWithBlock, _BaseSchedule):
    """Awaits functions that pull, each queue's after a while of its own.

    ::

        schedule = AsyncPullSchedule("127.0.0.1:9876", group="audit")

        @schedule.on("orders")
        async def pull(turn):
            result = await turn.pull(100, block=True)
            await store(result.messages)
            turn.commit(result.next_offset)
            turn.next_in_s = 0

        async with schedule:
            await asyncio.Event().wait()

    It belongs to the loop it is started on. Everything else is as for `PullSchedule`.
    """

    _turns = AsyncPullTurn
    _awaits = True

    async def start(self) -> Self:
        """Join the group and begin with the calls. ::

        await schedule.start()
        """
        self._begin()

        async def call(topic: str, turn: Any) -> None:
            await self._functions[topic](turn)

        if not self._has_joined(await self._join(call)):
            await self.close()
        return self

    async def close(self) -> None:
        """Let the calls that are under way end, commit, and leave the group. ::

        await schedule.close()
        """
        member = self._take_member()
        if member is not None:
            await member.stop()
