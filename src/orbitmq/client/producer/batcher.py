"""Automatic batching: messages sent shortly after each other leave as one request.

Each message waits up to the linger time for others; a full batch leaves earlier. A `Batcher` runs
on one event loop. A `ThreadsBatcher` passes messages of other threads to it, many at a time. Waking
a loop for each message would cost more than the message.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue

from orbitmq.client.producer.batch import Gathered, LingeringBatches, results_of_each
from orbitmq.errors import ClientClosed, ConfigError
from orbitmq.message import Message, MessageQueue, SendResult

__all__ = ["Batcher", "ThreadsBatcher", "Waiter", "needs_linger"]

MOST_BATCHES_UNDER_WAY = 32
MOST_HANDED_OVER = 20_000
"""Number of messages from other threads that may wait for their answers."""

Waiter = asyncio.Future[SendResult]
_Told = concurrent.futures.Future[SendResult]
SendTogether = Callable[[Gathered[Waiter]], Awaitable[SendResult]]


class Batcher:
    """Collects messages and sends them as batches."""

    def __init__(
        self, send: SendTogether, linger_ms: float, max_bytes: int, max_messages: int
    ) -> None:
        self._send = send
        self._linger_s = linger_ms / 1000
        self._lingering: LingeringBatches[Waiter] = LingeringBatches(max_bytes, max_messages)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsent = 0
        self.holds_up = False
        """True if callers should await `let_through` before they add a message."""

    def add(self, message: Message, part: str, queue: MessageQueue | None = None) -> Waiter:
        """Add a message to a batch; return the future of its result."""
        waiter: Waiter = self._loop.create_future()
        first, full = self._lingering.add(message, part, waiter, queue)
        if full is not None:
            self._leave(full)
        if first and self._timer is None:
            self._timer = (
                self._loop.call_later(self._linger_s, self.flush)
                if self._linger_s > 0
                else self._loop.call_soon(self.flush)
            )
        return waiter

    async def let_through(self) -> None:
        """Let full batches leave, and wait while too many batches wait for their answers.

        So a broker can start with one batch while the next is collected.
        """
        if self._unsent:
            await asyncio.sleep(0)
        while len(self._tasks) >= MOST_BATCHES_UNDER_WAY:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self.holds_up = self._unsent > 0

    def flush(self) -> None:
        """Send all waiting messages now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for gathered in self._lingering.take_all():
            self._leave(gathered)

    async def close(self) -> None:
        """Send the waiting messages, and wait for their answers."""
        self.flush()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self, gathered: Gathered[Waiter]) -> None:
        self._unsent += 1
        self.holds_up = True
        task = self._loop.create_task(self._send_batch(gathered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_batch(self, gathered: Gathered[Waiter]) -> None:
        self._unsent -= 1
        waiters = gathered.waiters
        try:
            results = results_of_each(await self._send(gathered), len(waiters))
        except Exception as error:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            return
        except asyncio.CancelledError:
            for waiter in waiters:
                waiter.cancel()
            raise
        for waiter, result in zip(waiters, results, strict=True):
            if not waiter.done():
                waiter.set_result(result)


class ThreadsBatcher:
    """Batcher for threads other than its loop's. Created on the loop, used by any thread."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._loop = asyncio.get_running_loop()
        # A queue of places, not a semaphore: Python's semaphores keep their lock forever if Ctrl-C
        # comes at the wrong moment, and `close` would wait for the lock.
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(MOST_HANDED_OVER):
            self._room.put(None)
        self._lock = threading.Lock()
        self._handed: list[tuple[Message, str, MessageQueue | None, _Told]] = []
        self._closed = False

    def add(self, message: Message, part: str, queue: MessageQueue | None = None) -> _Told:
        """Add a message to a batch; return the future of its result."""
        told: _Told = concurrent.futures.Future()
        self._room.get()
        with self._lock:
            if self._closed:
                self._room.put(None)
                raise ClientClosed("this producer is closed")
            is_first = not self._handed
            self._handed.append((message, part, queue, told))
        if is_first:
            self._loop.call_soon_threadsafe(self._take_over)
        return told

    def _take_over(self) -> None:
        with self._lock:
            handed, self._handed = self._handed, []
        for message, part, queue, told in handed:
            try:
                waiter = self._batcher.add(message, part, queue)
            except Exception as error:
                # Only the sender of this message gets the error; other messages continue.
                waiter = self._loop.create_future()
                waiter.set_exception(error)
            waiter.add_done_callback(functools.partial(self._tell, told))

    def _tell(self, told: _Told, waiter: Waiter) -> None:
        self._room.put(None)
        if not told.set_running_or_notify_cancel():
            return
        if waiter.cancelled():
            told.set_exception(ClientClosed("the producer was closed before the message was sent"))
        elif (error := waiter.exception()) is not None:
            told.set_exception(error)
        else:
            told.set_result(waiter.result())

    async def close(self) -> None:
        """Refuse further messages, send the waiting ones, and wait for their answers."""
        with self._lock:
            self._closed = True
        self._take_over()
        await self._batcher.close()


def needs_linger() -> ConfigError:
    """Return the error of `enqueue` for a producer without `linger_ms`."""
    return ConfigError(
        "enqueue() sends messages in batches, for which the producer needs a linger_ms, "
        "such as linger_ms=5"
    )
