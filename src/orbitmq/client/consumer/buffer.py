"""Buffer between pulls and a reader: holds pulled messages and tracks which of them are done.

A message counts as done when the reader requests the next one, not when the reader receives it. A
program that crashes in between gets the message again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.process_queue import QueueCache, Run

__all__ = ["ReadBuffer"]


class ReadBuffer:
    """Queue of runs of messages: filled on the loop, emptied by one reader on any thread.

    `arrived` is set when the buffer may have messages. A reader that finds none clears the event.
    """

    def __init__(self, arrived: threading.Event | asyncio.Event) -> None:
        self.arrived = arrived
        self.is_closed = False
        self._runs: deque[Run] = deque()
        self._given: list[Run] = []
        self._current: Run | None = None
        self._rest: Iterator[ReceivedMessage] | None = None
        self.last: ReceivedMessage | None = None
        """Latest message of the current iterator; the reader sets this attribute."""

    # ---- Methods for the event loop

    def put(self, run: Run) -> None:
        """Add a run of pulled messages."""
        self._runs.append(run)
        self.arrived.set()

    def close(self) -> None:
        """Close the buffer, so that readers stop."""
        self.is_closed = True
        self.arrived.set()

    def forget(self, queue: QueueCache) -> None:
        """Discard the rest of the current run if the run belongs to `queue`.

        A reader in the middle of the run continues with another run. The reader must wait for this
        call or be on the same loop.
        """
        run = self._current
        if run is not None and run.queue is queue:
            self._current = self._rest = self.last = None
            run.messages.clear()  # ends the reader's iterator

    # ---- Methods for the reader

    def _next_run(self) -> Run | None:
        while True:
            try:
                run = self._runs.popleft()
            except IndexError:
                return None
            if not run.queue.is_dropped:
                return run

    def take(self) -> Iterator[ReceivedMessage] | None:
        """Return an iterator over the next messages, or None if the buffer is empty.

        The reader sets `last` to each message it gets. If the reader abandoned the previous
        iterator, that iterator is returned again with the remaining messages.
        """
        if self._rest is not None and self._current is not None:
            if not self._current.queue.is_dropped:
                return self._rest
            self._current = self._rest = self.last = None
        self.finish_given()
        run = self._next_run()
        if run is None:
            return None
        self._current, self._rest = run, iter(run.messages)
        return self._rest

    def went_through(self) -> None:
        """Mark all messages of the current iterator as done."""
        run, self._current, self._rest, self.last = self._current, None, None, None
        if run is not None and not run.queue.is_dropped:
            run.queue.finish(run)

    def take_many(self, limit: int) -> list[ReceivedMessage]:
        """Return up to `limit` messages as one list; messages handed out before are now done."""
        self.finish_last(include=True)
        self.finish_given()
        messages: list[ReceivedMessage] = []
        while len(messages) < limit:
            run, self._current, self._rest = self._current, None, None
            if run is None or run.queue.is_dropped:
                run = self._next_run()
            if run is None:
                break
            room = limit - len(messages)
            if len(run.messages) > room:
                (self._current,) = run.queue.split(run, room)
                self._rest = iter(self._current.messages)
            self._given.append(run)
            if not messages and len(run.messages) <= limit:
                messages = list(run.messages)
            else:
                messages.extend(run.messages)
        return messages

    # ---- Messages that are done

    def finish_given(self) -> None:
        """Mark the messages of all returned lists as done."""
        for run in self._given:
            if not run.queue.is_dropped:
                run.queue.finish(run)
        self._given.clear()

    def finish_last(self, *, include: bool) -> None:
        """Mark the messages the iterator has returned as done; the last one only if `include`."""
        run, last = self._current, self.last
        if run is None or last is None:
            return
        self.last = None
        done = next(
            index
            for index, message in enumerate(run.messages)
            if message.queue_offset == last.queue_offset
        ) + (1 if include else 0)
        if run.queue.is_dropped or done == len(run.messages):
            self.went_through()
        elif done:
            (self._current,) = run.queue.split(run, done)
            run.queue.finish(run)
            if not include:
                self._rest = iter(self._current.messages)
