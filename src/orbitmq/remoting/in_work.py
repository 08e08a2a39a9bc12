"""The requests of one connection whose handlers are still running, and the limit on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from orbitmq._native import Command
from orbitmq.errors import FAILURES
from orbitmq.protocol.codes import ResponseCode
from orbitmq.remoting.router import PeerAwaited, answer_error, respond

if TYPE_CHECKING:
    from orbitmq.remoting.limits import ServerLimits

__all__ = ["InWork"]

MAX_REQUESTS = 64
"""Limits the requests in work: the answer to each may have a body of megabytes."""
MAX_WAITS_FOR_PEERS = 1024
"""Limits the requests whose answers wait for other peers."""
REQUEST_BYTES = 4096
"""Memory that a request in work takes in addition to its own bytes."""


class InWork:
    """The tasks that compute answers."""

    __slots__ = ("_limits", "_loop", "is_full", "requests", "waits_for_peers")

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ServerLimits | None) -> None:
        self._loop = loop
        self._limits = limits
        self.requests: set[asyncio.Task[None]] = set()
        self.waits_for_peers: set[asyncio.Task[None]] = set()
        self.is_full = False
        """True if the connection handles no more requests for now."""

    def _count(self) -> None:
        """Set `is_full`: it is read before each request, but changes seldom."""
        self.is_full = (
            len(self.requests) >= MAX_REQUESTS or len(self.waits_for_peers) >= MAX_WAITS_FOR_PEERS
        )

    def start(
        self,
        request: Command,
        awaited: Awaitable[Command | None],
        answer: Callable[[Command, Command], None],
        then: Callable[[], None],
    ) -> None:
        """Await an answer, send it and call `then`; answer SYSTEM_BUSY beyond the limit."""
        size = request.size + REQUEST_BYTES
        if self._limits is not None and not self._limits.in_work.take(self, size):
            if (close := getattr(awaited, "close", None)) is not None:
                close()
            remark = "too many bytes of requests are in work, try again later"
            answer(request, respond(request, ResponseCode.SYSTEM_BUSY, remark))
            return
        tasks = self.waits_for_peers if isinstance(awaited, PeerAwaited) else self.requests
        task = self._loop.create_task(_answer_later(request, awaited, answer))
        tasks.add(task)
        self._count()

        def done(_task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._count()
            if self._limits is not None:
                self._limits.in_work.give_back(self, size)
            then()

        task.add_done_callback(done)

    def cancel(self) -> None:
        """Cancel tasks whose peer is gone; tasks that await another peer end by themselves."""
        for task in self.requests:
            task.cancel()


async def _answer_later(
    request: Command,
    awaited: Awaitable[Command | None],
    answer: Callable[[Command, Command], None],
) -> None:
    try:
        made = await awaited
    except FAILURES as error:
        made = answer_error(request, error)
    if made is not None:
        answer(request, made)
