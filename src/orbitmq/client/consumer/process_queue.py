"""The messages of one queue that were pulled and are not done yet.

Messages come in chunks (one per pull) and are worked on in *runs*, pieces of a chunk that one
worker takes in one go. The queue keeps the first offset of every run that is not finished in a
heap; the smallest of them is what may be committed: everything before it is done. So a chunk costs
a few operations, however many messages it has, and a run that must be cut up (because its handler
turned out to be slow, or some of its messages failed) costs one more entry per piece.

Pulling happens on the event loop, finishing on any thread: what both touch is guarded by the lock.
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
"""Stands for "no offset yet"."""


@dataclass(slots=True)
class CacheLimits:
    """How much of one queue may be held here."""

    messages: int
    size_bytes: int
    span: int | None = None
    """How far the offsets held may lie apart; None for any distance."""


class Run:
    """Messages that one worker takes in one go."""

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
        """When a worker began with it, by the monotonic clock."""
        self.batch = 1
        """How many of the messages the handler gets at a time."""
        self.done = 0
        """How many times it has come back from them."""
        self.is_given_up = False
        """Whether somebody else has taken care of it, because it took too long."""


class QueueCache:
    """What is held of one queue: how much, and whether more may come."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: CacheLimits) -> None:
        self.queue = queue
        self.next_offset = next_offset
        """Where the next pull begins."""
        self.limits = limits
        self.broker_id = 0
        """Which replica the broker has asked to pull from."""
        self.is_dropped = False
        """Whether the queue belongs to somebody else now: results do not count any more."""
        self.is_stopped = False
        """Whether no message may be begun any more, but those before `stop_line`."""
        self.stop_line = NOTHING
        """Offset behind the last message that was begun when the queue was stopped. Whatever lies
        before it is handled yet: the next owner begins at one offset, and would repeat it."""
        self.stopped_at: float | None = None
        """When it was first tried to give the queue up, by the loop's clock."""
        self.is_lost = False
        """Whether the broker has lent the queue to somebody else meanwhile."""
        self.on_room: Callable[[], None] | None = None
        """Called once, on any thread, when there is room again for a pull that waits for it."""
        self.last_pull_ms = 0
        self.last_error: str | None = None
        """What the latest pull failed with, None if it did not."""
        self.lock = threading.Lock()
        self._count = 0
        self._size_bytes = 0
        self._max_offset = NOTHING
        self._done_to = NOTHING

    def drop(self) -> None:
        """Let go of the queue: nothing that is still worked on counts."""
        self.is_dropped = self.is_stopped = True
        self.stop_line = NOTHING

    @property
    def max_offset(self) -> int:
        """The highest offset ever held, -1 for none."""
        return self._max_offset

    @property
    def min_offset(self) -> int:
        """The smallest offset held, -1 for none."""
        raise NotImplementedError

    @property
    def commit_offset(self) -> int:
        """The offset up to which everything is done, -1 if nothing is known."""
        return self._done_to

    @property
    def count(self) -> int:
        """How many messages are held."""
        return self._count

    @property
    def size_bytes(self) -> int:
        """How many bytes they take."""
        return self._size_bytes

    @property
    def is_full(self) -> bool:
        """Whether a pull has to wait until more is done."""
        limits = self.limits
        if self._count > limits.messages or self._size_bytes > limits.size_bytes:
            return True
        if limits.span is None or not self._count:
            return False
        return self._max_offset - self.min_offset > limits.span

    def found_nothing(self, next_offset: int) -> None:
        """Note that there is nothing for us before an offset."""
        with self.lock:
            if not self._count:
                self._done_to = max(self._done_to, next_offset)

    def moved(self, offset: int) -> None:
        """Go on at the nearest offset a queue has; it does not have the one it was asked for."""
        with self.lock:
            self.next_offset = offset
            self._max_offset = min(self._max_offset, offset - 1)
            if not self._count:
                self._done_to = offset

    def failed(self, error: Exception) -> bool:
        """Note that a pull failed; returns whether that is news."""
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
    """A queue whose messages may be worked on in any order, several at a time."""

    def __init__(self, queue: MessageQueue, next_offset: int, limits: CacheLimits) -> None:
        super().__init__(queue, next_offset, limits)
        self._unfinished: list[int] = []
        self.begun_to = 0
        """Offset behind the highest message that a handler has come back from."""
        self._finished_early: set[int] = set()

    def add(
        self, messages: list[ReceivedMessage], size_bytes: int, run_length: int | None = None
    ) -> list[Run]:
        """Take in a pulled chunk; return it cut into runs of at most `run_length` messages."""
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
        """The smallest offset that is not done, -1 for none."""
        with self.lock:
            return self._unfinished[0] if self._unfinished else NOTHING

    @property
    def is_at_work(self) -> bool:
        """Whether a message before the line at which the queue was stopped is not done."""
        return NOTHING < self.min_offset < self.stop_line

    def extend(self, run: Run, messages: Sequence[ReceivedMessage], size_bytes: int) -> None:
        """Take in a pulled chunk as part of a run that nobody has begun with."""
        with self.lock:
            self._note(messages, size_bytes)
        run.messages = [*run.messages, *messages]
        run.size_bytes += size_bytes

    def finish(self, run: Run, kept: Sequence[ReceivedMessage] = ()) -> list[Run]:
        """Note that the messages of a run are done, or taken care of, all but those `kept`.

        The kept ones live on, each as a run of its own, and are returned as such.
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
                pass  # its place is taken over, or was forgotten when the queue was cleared
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
        """Take the messages from index `at` (not 0) on out of a run, as runs of their own."""
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
