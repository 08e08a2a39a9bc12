"""Automatic batching: sends that come shortly after each other leave as one request.

Each message waits up to the linger for company; a batch leaves earlier when it is full. Everything
happens on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from orbitmq.client.state.batching import Gathered, Lingering, Part, results_of_each
from orbitmq.message import Message, MessageQueue, SendResult

__all__ = ["Batcher", "Waiter"]

Waiter = asyncio.Future[SendResult]
SendTogether = Callable[[Gathered[Waiter]], Awaitable[SendResult]]


class Batcher:
    """Collects messages and hands them on as batches."""

    def __init__(
        self, send: SendTogether, linger_ms: float, max_bytes: int, max_messages: int
    ) -> None:
        self._send = send
        self._linger_s = linger_ms / 1000
        self._lingering: Lingering[Waiter] = Lingering(max_bytes, max_messages)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, message: Message, part: Part, queue: MessageQueue | None = None) -> Waiter:
        """Send a message with others; the future is what becomes of it."""
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

    def flush(self) -> None:
        """Send everything that waits for company."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for gathered in self._lingering.take_all():
            self._leave(gathered)

    async def close(self) -> None:
        """Send what waits, and wait until it is sent."""
        self.flush()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _leave(self, gathered: Gathered[Waiter]) -> None:
        task = self._loop.create_task(self._send_batch(gathered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_batch(self, gathered: Gathered[Waiter]) -> None:
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
