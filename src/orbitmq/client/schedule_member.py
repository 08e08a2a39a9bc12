"""A member of a group that calls a function for each of its queues, again and again.

The function pulls, or does not; it says how far the group has come in the queue, and when it wants
to be called again. A queue has one call at a time, and is given up between two of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from orbitmq.client.consumer.coordinator import ConsumerCoordinator
from orbitmq.client.consumer.process_queue import ProcessQueue, QueueCache
from orbitmq.client.consumer.pull_base import PullHow, PullResult, pull_once
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import FAILURES
from orbitmq.message import MessageQueue

__all__ = ["BaseTurn", "ScheduleMember"]

_log = logging.getLogger(__name__)

DEFAULT_DELAY_S = 0.2
RELEASE_S = 1.0


class BaseTurn:
    """What a function is called with: a queue, and where the group is in it."""

    def __init__(self, member: ScheduleMember, cache: QueueCache, offset: int) -> None:
        self._member = member
        self._cache = cache
        self.queue = member.user_queue(cache.queue)
        """The queue whose turn it is."""
        self.offset = offset
        """The first offset in it that is not committed."""
        self.next_in_s = DEFAULT_DELAY_S
        """When the next call for this queue is due, to be set by the function."""

    def commit(self, offset: int) -> None:
        """Note how far the group has come; brokers are told every few seconds and at the end.

        It does not count any more when the queue has been given to another member meanwhile. ::

            turn.commit(result.next_offset)
        """
        self.offset = offset
        if not self._cache.is_dropped:
            self._member.positions[self._cache.queue] = offset
            self._member.offsets.table.put(self._cache.queue, offset)

    async def _pull(self, how: PullHow) -> PullResult:
        member = self._member
        own = self._cache.queue
        return await pull_once(member.instance, member.group, self.queue, own, self.offset, how)


class ScheduleMember(ConsumerCoordinator):
    """A member whose queues have their turns."""

    consume_type = "CONSUME_ACTIVELY"
    is_stream = True
    expires_idle_queues = False

    def __init__(
        self,
        client: ClientSettings,
        settings: ConsumerSettings,
        turns: type[BaseTurn],
        call: Callable[[str, Any], Awaitable[None]],
    ) -> None:
        super().__init__(client, settings)
        self.positions: dict[MessageQueue, int] = {}
        self._turns = turns
        self._call = call
        self._tasks: dict[QueueCache, asyncio.Task[None]] = {}
        self._called: set[QueueCache] = set()

    def _open_queue(self, queue: MessageQueue, offset: int) -> QueueCache:
        cache = ProcessQueue(queue, offset, self.settings.limits(ordered=False))
        self.positions[queue] = offset
        task = self.instance.spawn(self._take_turns(cache))
        self._tasks[cache] = task
        task.add_done_callback(lambda _: self._tasks.pop(cache, None))
        return cache

    async def _take_turns(self, cache: QueueCache) -> None:
        while not cache.is_stopped:
            turn = self._turns(self, cache, self.positions[cache.queue])
            self._called.add(cache)
            try:
                await self._call(turn.queue.topic, turn)
                delay_s = max(turn.next_in_s, 0)
            except FAILURES:
                _log.exception("the turn of %s failed", turn.queue)
                delay_s = self.settings.error_delay_ms / 1000
            finally:
                self._called.discard(cache)
            if not cache.is_stopped:
                await asyncio.sleep(delay_s)

    async def _let_go(self, cache: QueueCache) -> bool:
        return await self._end([cache], RELEASE_S)

    async def _finish_work(self) -> None:
        if not await self._end(list(self._tasks), self.settings.stop_timeout_s):
            _log.warning(
                "turns still go on after %.0f s; what they do does not count",
                self.settings.stop_timeout_s,
            )

    async def _end(self, caches: list[QueueCache], timeout_s: float) -> bool:
        """Have no more turns of queues; returns whether the last ones have ended in time."""
        tasks = {task for cache in caches if (task := self._tasks.get(cache)) is not None}
        for cache in caches:
            if cache not in self._called and (task := self._tasks.get(cache)) is not None:
                task.cancel()  # it only waits
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=timeout_s)
        return not late

    def _collect(self, cache: QueueCache) -> None:
        """Leave it to the function to say how far a queue is."""
