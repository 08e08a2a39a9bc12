"""Ordered consumption: handles the messages of a queue one after the other.

One worker at a time handles a queue. The worker leaves the queue in these cases:

- The queue is empty or stopped.
- The worker has handled the queue for a minute; other queues need workers, too.
- The broker's lock on the queue may have expired.
- A handler fails. Then the messages are put back and the queue waits, so that no later message is
  handled before them.

Handled messages are committed at once, unless the handler decides itself (``auto_commit=False``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.handlers import Handler, OrderlyStatus, RetryLater, log_failure
from orbitmq.client.consumer.orderly_queue import OrderlyQueue
from orbitmq.client.consumer.rates import ConsumeRates
from orbitmq.client.consumer.workers import Workers, is_told_to_end
from orbitmq.errors import FAILURES

__all__ = ["OrderlyService", "suspend_ms"]

_log = logging.getLogger(__name__)

TIME_SLICE_S = 60
RESUME_S = 0.01
LOCK_RETRY_S = 3.0
MIN_SUSPEND_MS, MAX_SUSPEND_MS = 10, 30_000


def suspend_ms(error: BaseException, default_ms: int) -> int:
    """Return the time in milliseconds for which a queue waits after an error."""
    asked = error.suspend_ms if isinstance(error, RetryLater) else None
    return min(max(default_ms if asked is None else asked, MIN_SUSPEND_MS), MAX_SUSPEND_MS)


class OrderlyService:
    """Calls handlers with the messages of ordered queues.

    `relock` sends a lock request to the broker and returns True if this member has the lock.
    `settle` decides about failed messages. It returns None if they are not retried, else the
    messages to put back into the queue. Both are called on the loop.
    """

    def __init__(
        self,
        find_handler: Callable[[OrderlyQueue], Handler | None],
        workers: Workers,
        loop: asyncio.AbstractEventLoop,
        *,
        relock: Callable[[OrderlyQueue], Awaitable[bool]],
        settle: Callable[
            [OrderlyQueue, list[ReceivedMessage], BaseException],
            Awaitable[list[ReceivedMessage] | None],
        ],
        spawn: Callable[[Any], Any],
        suspend_ms: int,
        awaits: bool,
        rates: ConsumeRates,
    ) -> None:
        self._find_handler = find_handler
        self._workers = workers
        self._loop = loop
        self._relock = relock
        self._settle = settle
        self._spawn = spawn
        self._suspend_ms = suspend_ms
        self._awaits = awaits
        self._rates = rates

    def take(self, queue: OrderlyQueue, messages: list[ReceivedMessage], size: int) -> None:
        """Add a pulled chunk to its queue, and submit the queue if no worker handles it."""
        if queue.add(messages, size):
            self._submit(queue)

    def _submit(self, queue: OrderlyQueue) -> None:
        if self._awaits:
            self._workers.submit(lambda: self._handle_awaiting(queue))
        else:
            self._workers.submit(lambda: self._handle(queue))

    def _on_loop(self, work: Callable[[], Any]) -> None:
        """Start a coroutine on the loop; any thread may call this."""
        self._loop.call_soon_threadsafe(lambda: self._spawn(work()))

    def _may_go_on(self, queue: OrderlyQueue, began: float, now: float) -> bool:
        """Return True if the worker may take the next messages; else it must leave the queue."""
        if queue.is_stopped:
            queue.release()
        elif not queue.is_ours(int(now * 1000)):
            self._on_loop(lambda: self._resume_when_ours(queue))
        elif now - began > TIME_SLICE_S:
            self._on_loop(lambda: self._resume(queue, RESUME_S))
        else:
            return True
        return False

    # The two methods below are equal except for an await, as in `concurrent`.

    def _handle(self, queue: OrderlyQueue) -> None:
        handler = self._find_handler(queue)
        if handler is None:
            queue.release()  # unsubscribed; the next rebalance gives the queue up
            return
        batch, function = handler.batch, handler.function
        began = now = time.monotonic()
        while self._may_go_on(queue, began, now):
            taken = queue.take(batch)
            if not taken:
                return
            try:
                outcome = function(taken if batch > 1 else taken[0])
            except BaseException as error:  # including errors that would end the thread
                self._note(queue, taken, now, failed=len(taken))
                self._fail(queue, handler, taken, error)
                return
            now = self._note(queue, taken, now)
            if handler.auto_commit:
                queue.commit()
            elif not self._decided(queue, outcome):
                return

    async def _handle_awaiting(self, queue: OrderlyQueue) -> None:
        handler = self._find_handler(queue)
        if handler is None:
            queue.release()  # unsubscribed; the next rebalance gives the queue up
            return
        batch, function = handler.batch, handler.function
        began = now = time.monotonic()
        while self._may_go_on(queue, began, now):
            taken = queue.take(batch)
            if not taken:
                return
            try:
                outcome = await function(taken if batch > 1 else taken[0])
            except (Exception, asyncio.CancelledError) as error:
                if is_told_to_end(error):
                    raise
                self._note(queue, taken, now, failed=len(taken))
                self._fail(queue, handler, taken, error)
                return
            now = self._note(queue, taken, now)
            if handler.auto_commit:
                queue.commit()
            elif not self._decided(queue, outcome):
                return

    def _note(
        self, queue: OrderlyQueue, taken: list[ReceivedMessage], began: float, failed: int = 0
    ) -> float:
        """Count a call of a handler and return the current time."""
        now = time.monotonic()
        self._rates.consumed(queue.queue.topic, len(taken), failed, 1, now - began)
        return now

    def _decided(self, queue: OrderlyQueue, outcome: Any) -> bool:
        """Carry out a handler's decision; returns True if the worker may continue."""
        if outcome is OrderlyStatus.ROLLBACK:
            queue.roll_back()
            self._on_loop(lambda: self._resume(queue, self._suspend_ms / 1000))
            return False
        if outcome is OrderlyStatus.COMMIT:
            queue.commit()
        else:
            queue.keep()
        return True

    def _fail(
        self,
        queue: OrderlyQueue,
        handler: Handler,
        taken: list[ReceivedMessage],
        error: BaseException,
    ) -> None:
        log_failure(_log, taken, error)
        self._on_loop(lambda: self._settled(queue, handler, taken, error))

    # ---- Methods for the event loop

    async def _settled(
        self,
        queue: OrderlyQueue,
        handler: Handler,
        taken: list[ReceivedMessage],
        error: BaseException,
    ) -> None:
        try:
            back = None if queue.is_dropped else await self._settle(queue, taken, error)
        except FAILURES:
            # Caught, because no other code submits this queue to a worker again.
            _log.exception(
                "settling failed message %s raised an error; this consumer retries the message",
                ", ".join(message.message_id for message in taken),
            )
            back = taken
        if back is None:
            if handler.auto_commit:
                queue.commit()
            else:
                queue.keep()
            await self._resume(queue, 0)
        else:
            queue.put_back(back)
            await self._resume(queue, suspend_ms(error, self._suspend_ms) / 1000)

    async def _resume_when_ours(self, queue: OrderlyQueue) -> None:
        try:
            ours = await self._relock(queue)
        except FAILURES:
            _log.exception("locking %s failed; next try in %.0f s", queue.queue, LOCK_RETRY_S)
            ours = False
        await self._resume(queue, RESUME_S if ours else LOCK_RETRY_S)

    async def _resume(self, queue: OrderlyQueue, delay_s: float) -> None:
        """Release the queue from its worker, and submit the queue again after `delay_s`."""
        queue.is_suspended = True
        queue.release()
        await asyncio.sleep(delay_s)
        queue.is_suspended = False
        if not queue.is_stopped and queue.claim():
            self._submit(queue)
