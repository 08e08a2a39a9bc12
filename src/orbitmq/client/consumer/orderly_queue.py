"""Cache of an ordered queue: one worker at a time handles its messages one after the other.

The broker grants the lock of the queue to one member of the group at a time. The lock is valid for
30 seconds in this member and for 60 seconds at the broker, and is renewed every 20 seconds. A
worker takes the messages with the lowest offsets, and either commits them or puts them back.
Meanwhile no other message of the queue is handled. The worker may also keep messages, to commit or
roll back all kept messages together with later ones.
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
    """Cache of an ordered queue, with the state of the broker's lock."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: CacheLimits) -> None:
        super().__init__(queue, next_offset, limits)
        self.is_busy = False
        """True if a worker handles the queue or is about to."""
        self.is_suspended = False
        """True while the queue waits before the next attempt."""
        self.needs_lock = True
        self._locked_at_ms: int | None = None
        self._messages: deque[ReceivedMessage] = deque()
        self._taken: list[ReceivedMessage] = []
        self._kept: list[ReceivedMessage] = []

    # ---- Lock

    def granted(self, now_ms: int) -> None:
        """Note that the broker granted the lock to this member at `now_ms`."""
        self._locked_at_ms = now_ms

    def refused(self) -> None:
        """Note that this member does not have the lock."""
        self._locked_at_ms = None

    @property
    def locked_at_ms(self) -> int:
        """Time at which the lock was granted last, 0 if this member does not have the lock."""
        return self._locked_at_ms or 0

    def is_ours(self, now_ms: int) -> bool:
        """Return True if messages may be handled now: the lock is valid or not needed."""
        if not self.needs_lock:
            return True
        return self._locked_at_ms is not None and now_ms - self._locked_at_ms <= LOCK_VALID_MS

    # ---- Messages

    def add(self, messages: Sequence[ReceivedMessage], size_bytes: int) -> bool:
        """Add a pulled chunk; returns True if the caller has to submit the queue to a worker."""
        if not messages:
            return False
        with self.lock:
            self._note(messages, size_bytes)
            self._messages.extend(messages)
            return self._claim()

    def claim(self) -> bool:
        """Claim the queue for a worker if it has messages and no worker.

        Returns True if the caller has to submit the queue to a worker.
        """
        with self.lock:
            return self._claim()

    def _claim(self) -> bool:
        if self.is_busy or self.is_suspended or not self._messages:
            return False
        self.is_busy = True
        return True

    def release(self) -> None:
        """Note that the worker has left the queue."""
        with self.lock:
            self.is_busy = False

    def take(self, limit: int) -> list[ReceivedMessage]:
        """Take up to `limit` messages with the lowest offsets.

        If the queue is empty, this also releases the queue from its worker.
        """
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
        """Keep the taken messages: they are handled and will be committed later."""
        with self.lock:
            self._kept += self._taken
            self._taken = []

    def roll_back(self) -> None:
        """Put all messages since the last commit back to the front of the queue."""
        with self.lock:
            back, self._kept, self._taken = self._kept + self._taken, [], []
            self._messages.extendleft(reversed(back))

    def commit(self) -> None:
        """Mark the taken messages and the messages kept before as done."""
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
        """Put taken messages back to the front of the queue."""
        with self.lock:
            self._taken = []
            self._messages.extendleft(reversed(messages))

    @property
    def uncommitted(self) -> list[ReceivedMessage]:
        """Messages that a worker has taken and not committed yet."""
        with self.lock:
            return self._kept + self._taken

    @property
    def min_offset(self) -> int:
        """Smallest offset that is not done, -1 if all messages are done."""
        with self.lock:
            if self._kept or self._taken:
                return (self._kept or self._taken)[0].queue_offset
            return self._messages[0].queue_offset if self._messages else NOTHING
