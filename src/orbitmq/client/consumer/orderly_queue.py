"""A queue whose messages are worked on one after the other, by one worker at a time.

The broker lends the queue to one member of the group at a time: what it granted holds for 30
seconds here and 60 there, and is asked for again every 20. A worker takes the lowest messages out,
and either commits them or puts them back; nothing else of the queue is touched meanwhile. It may
also keep them, to commit or roll back all it has kept with some later ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.process_queue import NOTHING, CacheLimits, QueueCache
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["LOCK_VALID_MS", "OrderlyQueue"]

LOCK_VALID_MS = 30_000


class OrderlyQueue(QueueCache):
    """A queue in order, with the broker's lock on it."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: CacheLimits) -> None:
        super().__init__(queue, next_offset, limits)
        self.is_busy = False
        """Whether a worker is on it, or about to be."""
        self.is_suspended = False
        """Whether it waits before the next try."""
        self.needs_lock = True
        self._locked_at_ms: int | None = None
        self._messages: deque[ReceivedMessage] = deque()
        self._taken: list[ReceivedMessage] = []
        self._kept: list[ReceivedMessage] = []

    # ---- the lock

    def granted(self, now_ms: int) -> None:
        """Note that the broker lends the queue to us."""
        self._locked_at_ms = now_ms

    def refused(self) -> None:
        """Note that the broker has lent it to somebody else."""
        self._locked_at_ms = None

    @property
    def locked_at_ms(self) -> int:
        """When it was lent to us last, 0 if it is not."""
        return self._locked_at_ms or 0

    def is_ours(self, now_ms: int) -> bool:
        """Whether messages may be worked on now."""
        if not self.needs_lock:
            return True
        return self._locked_at_ms is not None and now_ms - self._locked_at_ms <= LOCK_VALID_MS

    # ---- messages

    def add(self, messages: Sequence[ReceivedMessage], size_bytes: int) -> bool:
        """Take in a pulled chunk; returns whether a worker has to be sent."""
        if not messages:
            return False
        with self.lock:
            self._note(messages, size_bytes)
            self._messages.extend(messages)
            return self._claim()

    def claim(self) -> bool:
        """Whether there is work and nobody on it; the caller has to send a worker then."""
        with self.lock:
            return self._claim()

    def _claim(self) -> bool:
        if self.is_busy or self.is_suspended or not self._messages:
            return False
        self.is_busy = True
        return True

    def release(self) -> None:
        """Let the worker go."""
        with self.lock:
            self.is_busy = False

    def take(self, limit: int) -> list[ReceivedMessage]:
        """Take out the lowest messages; the worker is let go when there is none."""
        with self.lock:
            messages = self._messages
            if limit == 1 and messages:
                self._taken = [messages.popleft()]
            else:
                self._taken = [messages.popleft() for _ in range(min(limit, len(messages)))]
            if not self._taken:
                self.is_busy = False
            return self._taken

    def keep(self) -> None:
        """Note that what was taken has been handled, and is to be committed some other time."""
        with self.lock:
            self._kept += self._taken
            self._taken = []

    def roll_back(self) -> None:
        """Have everything since the last commit come again, first of all."""
        with self.lock:
            back, self._kept, self._taken = self._kept + self._taken, [], []
            self._messages.extendleft(reversed(back))

    def commit(self) -> None:
        """Note that what was taken is done, and what was kept before."""
        with self.lock:
            taken, self._taken = self._taken, []
            if self._kept:
                taken, self._kept = self._kept + taken, []
            if not taken:
                return
            self._count -= len(taken)
            self._size_bytes -= sum(message.stored_size for message in taken)
            self._done_to = taken[-1].queue_offset + 1
        if self.on_room is not None:
            self._tell_room()

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Have what was taken come again, first of all."""
        with self.lock:
            self._taken = []
            self._messages.extendleft(reversed(messages))

    @property
    def uncommitted(self) -> list[ReceivedMessage]:
        """What a worker has taken out and not committed yet."""
        with self.lock:
            return self._kept + self._taken

    @property
    def min_offset(self) -> int:
        """The smallest offset that is not done, -1 for none."""
        with self.lock:
            if self._kept or self._taken:
                return (self._kept or self._taken)[0].queue_offset
            return self._messages[0].queue_offset if self._messages else NOTHING
