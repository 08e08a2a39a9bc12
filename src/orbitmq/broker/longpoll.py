"""Pulls that found nothing and wait for something to arrive.

A held pull is run again when a message that its filter wants arrives in its queue, when its time is
over, and every few seconds if anything arrived at all: what it does not want moves its offset on.
Arrivals of one turn of the event loop are gathered, so that a burst wakes a pull once and is handed
out together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq._native import Command
from orbitmq.remoting.connection import Connection

__all__ = ["HeldPull", "HeldPulls"]

SCAN_S = 5.0
Queue = tuple[str, int]


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull request that waits at an offset for tags it wants."""

    request: Command
    connection: Connection
    queue: Queue
    offset: int
    tag_codes: Sequence[int] | None
    timer: asyncio.TimerHandle | None = None


class HeldPulls:
    """All pulls that wait."""

    def __init__(self, max_offset: Callable[[str, int], int]) -> None:
        self._max_offset = max_offset
        self.run: Callable[[HeldPull], None] = lambda _pull: None
        """What is done with a pull whose wait is over."""
        self._held: dict[Queue, list[HeldPull]] = {}
        self._arrived: dict[Queue, set[int]] = {}
        self._scan_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    def hold(self, pull: HeldPull, timeout_ms: int) -> None:
        """Keep a pull until something arrives, at most for a time."""
        loop = asyncio.get_running_loop()
        pull.timer = loop.call_later(timeout_ms / 1000, self._expire, pull)
        self._held.setdefault(pull.queue, []).append(pull)
        if self._scan_timer is None:
            self._scan_timer = loop.call_later(SCAN_S, self._scan)

    def arrived(self, topic: str, queue_id: int, tags_code: int) -> None:
        """Tell that a message has arrived in a queue."""
        queue = (topic, queue_id)
        if queue not in self._held:
            return
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._wake)
        self._arrived.setdefault(queue, set()).add(tags_code)

    def is_waited_for(self, topic: str, queue_id: int) -> bool:
        """Whether any pull waits at a queue."""
        return (topic, queue_id) in self._held

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for queue, codes in arrived.items():
            newest = self._max_offset(*queue)
            for pull in list(self._held.get(queue, ())):
                wants = pull.tag_codes is None or not codes.isdisjoint(pull.tag_codes)
                if wants and newest > pull.offset:
                    self._release(pull)

    def _scan(self) -> None:
        self._scan_timer = None
        for queue, held in list(self._held.items()):
            newest = self._max_offset(*queue)
            for pull in list(held):
                if newest > pull.offset or not pull.connection.is_open:
                    self._release(pull)
        if self._held:
            self._scan_timer = asyncio.get_running_loop().call_later(SCAN_S, self._scan)

    def _expire(self, pull: HeldPull) -> None:
        self._release(pull)

    def _release(self, pull: HeldPull) -> None:
        held = self._held.get(pull.queue)
        if held is None or pull not in held:
            return
        held.remove(pull)
        if not held:
            del self._held[pull.queue]
        if pull.timer is not None:
            pull.timer.cancel()
        if pull.connection.is_open:
            self.run(pull)

    def close(self) -> None:
        """Forget all; the connections are about to be closed."""
        for held in self._held.values():
            for pull in held:
                if pull.timer is not None:
                    pull.timer.cancel()
        self._held.clear()
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
