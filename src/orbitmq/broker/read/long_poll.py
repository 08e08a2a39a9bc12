"""Long polling: pulls that found no message and wait for one to arrive.

A held pull runs again in three cases:

- A message that matches its filter arrives in its queue. Tags are compared here. For an SQL filter
  the store is searched, each time from where the last search ended.
- Its time is over.
- Any message has arrived, checked every few seconds: messages that do not match advance its offset.

Arrivals within one turn of the event loop are gathered, so that a burst wakes a pull once and all
its messages are returned together. The number of held pulls per connection is limited, and so are
the bytes of all held pulls. Pulls beyond a limit are answered instead of held, like pulls whose
time is over. Only the parts of a request that its answer needs are kept. The pulls of a closed
connection are dropped at once.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from orbitmq._native import Command, Filter
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.shared_budget import SharedBudget

if TYPE_CHECKING:
    from orbitmq.broker.handlers.pull import PullHeader

__all__ = ["HeldPull", "HeldPulls"]

SCAN_S = 5.0
MAX_HELD_BY_CONNECTION = 10_000
MAX_HELD_BYTES = 128 << 20
PULL_BYTES = 2048
"""Bytes that a held pull takes, without the texts and the tags of its subscription."""
TAG_BYTES = 40
Queue = tuple[str, int]
K = TypeVar("K")


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull request that waits at an offset for a matching message."""

    request: Command
    """The request without body and ext fields."""
    header: PullHeader
    connection: Connection
    queue: Queue
    offset: int
    tag_codes: Sequence[int] | None
    filter: Filter | None = None
    looked_up_to: int = 0
    """Offset at which the next search for a message that the filter matches begins."""
    timer: asyncio.TimerHandle | None = None
    wakes: bool = True
    """False for a pull that always waits its full time (``longPollingEnable=false``)."""

    @property
    def size(self) -> int:
        """Estimated number of bytes that this held pull takes."""
        header = self.header
        texts = (header.consumer_group, header.topic, header.subscription, header.expression_type)
        tags = TAG_BYTES * len(self.tag_codes or ())
        return PULL_BYTES + sum(map(sys.getsizeof, texts)) + tags


class HeldPulls:
    """Table of all held pulls."""

    def __init__(self, max_offset: Callable[[str, int], int]) -> None:
        self._max_offset = max_offset
        self.run: Callable[[HeldPull], None] = lambda _pull: None
        """Function that is called with a pull whose wait is over."""
        self.finds: Callable[[HeldPull], bool] = lambda _pull: True
        """Function that returns True if a pull with an SQL filter would find a message."""
        # Dictionaries keep the order and remove an entry at constant cost, however many pulls wait.
        self._held: dict[Queue, dict[HeldPull, None]] = {}
        self._by_connection: dict[Connection, dict[HeldPull, None]] = {}
        self._bytes: SharedBudget[Connection] = SharedBudget(MAX_HELD_BYTES)
        self._arrived: dict[Queue, set[int]] = {}
        self._scan_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    def hold(self, pull: HeldPull, timeout_ms: int) -> bool:
        """Hold a pull until a message arrives or the timeout; return False if a limit is reached.

        Also returns True for a closed connection, whose pull needs no answer.
        """
        if not pull.connection.is_open:
            return True
        of_connection = self._by_connection.get(pull.connection, {})
        if len(of_connection) >= MAX_HELD_BY_CONNECTION:
            return False
        if not self._bytes.take(pull.connection, pull.size):
            return False
        self._by_connection.setdefault(pull.connection, of_connection)[pull] = None
        self._held.setdefault(pull.queue, {})[pull] = None
        loop = asyncio.get_running_loop()
        pull.timer = loop.call_later(timeout_ms / 1000, self._release, pull)
        if self._scan_timer is None:
            self._scan_timer = loop.call_later(SCAN_S, self._scan)
        return True

    def arrived(self, topic: str, queue_id: int, tags_code: int) -> None:
        """Note a message that has arrived in a queue, to wake the pulls it matches."""
        queue = (topic, queue_id)
        if queue not in self._held:
            return
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._wake)
        self._arrived.setdefault(queue, set()).add(tags_code)

    def is_waited_for(self, topic: str, queue_id: int) -> bool:
        """Return True if a held pull waits at a queue."""
        return (topic, queue_id) in self._held

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for queue, codes in arrived.items():
            newest = self._max_offset(*queue)
            for pull in list(self._held.get(queue, ())):
                if not pull.wakes:
                    continue
                wants = pull.tag_codes is None or not codes.isdisjoint(pull.tag_codes)
                if wants and newest > pull.offset and (pull.filter is None or self.finds(pull)):
                    self._release(pull)

    def _scan(self) -> None:
        self._scan_timer = None
        for queue, held in list(self._held.items()):
            newest = self._max_offset(*queue)
            for pull in list(held):
                if newest > pull.offset:
                    self._release(pull)
        if self._held:
            self._scan_timer = asyncio.get_running_loop().call_later(SCAN_S, self._scan)

    def _release(self, pull: HeldPull) -> None:
        self._drop(pull)
        self.run(pull)

    def _drop(self, pull: HeldPull) -> None:
        _take_out(self._held, pull.queue, pull)
        _take_out(self._by_connection, pull.connection, pull)
        self._bytes.give_back(pull.connection, pull.size)
        if pull.timer is not None:
            pull.timer.cancel()

    def forget(self, connection: Connection) -> None:
        """Drop the pulls of a closed connection."""
        for pull in list(self._by_connection.get(connection, ())):
            self._drop(pull)

    def close(self) -> None:
        """Drop all held pulls, because their connections are closed next."""
        for held in self._held.values():
            for pull in held:
                if pull.timer is not None:
                    pull.timer.cancel()
        self._held.clear()
        self._by_connection.clear()
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None


def _take_out(table: dict[K, dict[HeldPull, None]], key: K, pull: HeldPull) -> None:
    held = table[key]
    del held[pull]
    if not held:
        del table[key]
