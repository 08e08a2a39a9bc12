"""Cache of one queue: the messages that were pulled and are not done yet.

Messages arrive in chunks (one per pull) and are handled in *runs*. A run is a piece of a chunk that
one worker handles at a time. A heap holds the first offset of every unfinished run. The smallest of
these offsets may be committed, because everything before it is done. So a chunk costs a few
operations, independent of its number of messages. A run is split if its handler is slow or some of
its messages failed; each piece costs one more heap entry.

Pulls run on the event loop, runs may be finished on any thread. The lock guards their common state.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq._native import ReceivedMessage
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["NOTHING", "CacheLimits", "ProcessQueue", "QueueCache", "Run"]

NOTHING = -1
"""Value that means "no offset yet"."""


@dataclass(slots=True)
class CacheLimits:
    """Limits of the messages of one queue that this consumer holds."""

    messages: int
    size_bytes: int
    span: int | None = None
    """Maximum distance between the held offsets; None for no limit."""


class Run:
    """Messages that one worker handles as a unit."""

    __slots__ = (
        *("batch", "began_at", "done", "first_offset", "is_given_up"),
        *("messages", "queue", "size_bytes"),
    )

    def __init__(
        self, queue: ProcessQueue, messages: list[ReceivedMessage], size_bytes: int
    ) -> None:
        self.queue = queue
        self.messages = messages
        self.first_offset = messages[0].queue_offset
        self.size_bytes = size_bytes
        self.began_at: float | None = None
        """Time at which a worker began the run, by the monotonic clock; None before."""
        self.batch = 1
        """Number of messages per call of the handler."""
        self.done = 0
        """Number of handler calls that have returned."""
        self.is_given_up = False
        """True if the run took too long and its messages were sent back to the broker."""


class QueueCache:
    """Base of queue caches: tracks the size of the cache, and when the next pull may start."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: CacheLimits) -> None:
        self.queue = queue
        self.next_offset = next_offset
        """Offset of the next pull."""
        self.limits = limits
        self.broker_id = 0
        """Id of the replica that the broker suggests for the next pull."""
        self.is_dropped = False
        """True if this member has released the queue: results of handlers no longer count."""
        self.is_stopped = False
        """True if handlers may only begin messages before `stop_line`."""
        self.stop_line = NOTHING
        """Offset behind the last message that was begun when the queue was stopped. All messages
        before the line are still handled. The next owner begins at one offset, and would otherwise
        repeat messages."""
        self.stopped_at: float | None = None
        """Time of the first attempt to give the queue up, by the loop's clock; None before."""
        self.is_lost = False
        """True if the broker has granted the queue's lock to another member meanwhile."""
        self.on_room: Callable[[], None] | None = None
        """Called once, on any thread, when the cache has room again for a waiting pull."""
        self.last_pull_ms = 0
        self.last_error: str | None = None
        """Error text of the latest pull, None if the pull succeeded."""
        self.lock = threading.Lock()
        self._count = 0
        self._size_bytes = 0
        self._max_offset = NOTHING
        self._done_to = NOTHING

    def drop(self) -> None:
        """Drop the queue: results of handlers that are still running do not count."""
        self.is_dropped = self.is_stopped = True
        self.stop_line = NOTHING

    @property
    def max_offset(self) -> int:
        """Highest offset that the cache has ever held, -1 for none."""
        return self._max_offset

    @property
    def min_offset(self) -> int:
        """Smallest offset in the cache, -1 for none."""
        raise NotImplementedError

    @property
    def commit_offset(self) -> int:
        """Offset up to which all messages are done, -1 if it is unknown."""
        return self._done_to

    @property
    def count(self) -> int:
        """Number of messages in the cache."""
        return self._count

    @property
    def size_bytes(self) -> int:
        """Number of bytes in the cache."""
        return self._size_bytes

    @property
    def is_full(self) -> bool:
        """True if the next pull has to wait until more messages are done."""
        limits = self.limits
        if self._count > limits.messages or self._size_bytes > limits.size_bytes:
            return True
        if limits.span is None or not self._count:
            return False
        return self._max_offset - self.min_offset > limits.span

    def found_nothing(self, next_offset: int) -> None:
        """Note that the queue has no messages for this member before `next_offset`."""
        with self.lock:
            if not self._count:
                self._done_to = max(self._done_to, next_offset)

    def moved(self, offset: int) -> None:
        """Continue at the nearest existing offset, because the queue lacks the requested one."""
        with self.lock:
            self.next_offset = offset
            self._max_offset = min(self._max_offset, offset - 1)
            if not self._count:
                self._done_to = offset

    def failed(self, error: Exception) -> bool:
        """Note that a pull failed; returns False if the previous pull failed with the same text."""
        text = str(error)
        is_news, self.last_error = text != self.last_error, text
        return is_news

    def _note(self, messages: Sequence[ReceivedMessage], size_bytes: int) -> None:
        self._count += len(messages)
        self._size_bytes += size_bytes
        self._max_offset = max(self._max_offset, messages[-1].queue_offset)

    def _tell_room(self) -> None:
        on_room = self.on_room
        if on_room is not None and not self.is_full:
            self.on_room = None
            on_room()


class ProcessQueue(QueueCache):
    """Cache of a queue whose messages may be handled in any order, several at a time."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: CacheLimits) -> None:
        super().__init__(queue, next_offset, limits)
        self._unfinished: list[int] = []
        self.begun_to = 0
        """Offset behind the highest message that a handler has finished."""
        self._finished_early: set[int] = set()

    def add(
        self, messages: list[ReceivedMessage], size_bytes: int, run_length: int | None = None
    ) -> list[Run]:
        """Add a pulled chunk; returns it cut into runs of at most `run_length` messages."""
        if not messages:
            return []
        runs = _cut(self, messages, size_bytes, run_length)
        with self.lock:
            self._note(messages, size_bytes)
            for run in runs:
                heapq.heappush(self._unfinished, run.first_offset)
        return runs

    @property
    def min_offset(self) -> int:
        """Smallest offset that is not done, -1 if all messages are done."""
        with self.lock:
            return self._unfinished[0] if self._unfinished else NOTHING

    @property
    def is_at_work(self) -> bool:
        """True if a message before `stop_line` is not done."""
        return NOTHING < self.min_offset < self.stop_line

    def extend(self, run: Run, messages: Sequence[ReceivedMessage], size_bytes: int) -> None:
        """Append a pulled chunk to a run that no worker has begun."""
        with self.lock:
            self._note(messages, size_bytes)
        run.messages = [*run.messages, *messages]
        run.size_bytes += size_bytes

    def finish(self, run: Run, kept: Sequence[ReceivedMessage] = ()) -> list[Run]:
        """Mark the messages of a run as done or sent back, except those in `kept`.

        Each kept message becomes a run of its own; these runs are returned.
        """
        runs = [Run(self, [message], message.stored_size) for message in kept]
        with self.lock:
            self._count += len(runs) - len(run.messages)
            self._size_bytes += sum(piece.size_bytes for piece in runs) - run.size_bytes
            unfinished, early = self._unfinished, self._finished_early
            inherits = bool(runs) and runs[0].first_offset == run.first_offset
            for piece in runs[1:] if inherits else runs:
                heapq.heappush(unfinished, piece.first_offset)
            if inherits or not unfinished:
                pass  # the first kept message takes over the run's entry, or the heap is empty
            elif unfinished[0] == run.first_offset:
                heapq.heappop(unfinished)
                while unfinished and unfinished[0] in early:
                    early.remove(heapq.heappop(unfinished))
                self._done_to = unfinished[0] if unfinished else self._max_offset + 1
            else:
                early.add(run.first_offset)
        self._tell_room()
        return runs

    def split(self, run: Run, at: int, run_length: int | None = None) -> list[Run]:
        """Move the messages from index `at` (not 0) on out of a run into new runs."""
        rest = run.messages[at:]
        size_bytes = sum(message.stored_size for message in rest)
        runs = _cut(self, rest, size_bytes, run_length)
        run.messages = run.messages[:at]
        run.size_bytes -= size_bytes
        with self.lock:
            for piece in runs:
                heapq.heappush(self._unfinished, piece.first_offset)
        return runs


def _cut(
    queue: ProcessQueue,
    messages: list[ReceivedMessage],
    size_bytes: int,
    run_length: int | None,
) -> list[Run]:
    if run_length is None or run_length >= len(messages):
        return [Run(queue, messages, size_bytes)]
    share = size_bytes // len(messages)
    runs = [
        Run(queue, messages[at : at + run_length], share * len(messages[at : at + run_length]))
        for at in range(0, len(messages), run_length)
    ]
    runs[0].size_bytes += size_bytes - share * len(messages)
    return runs
