"""Pulled messages on their way to whoever asks for them, and what is known to be done of them.

A reader counts a message as done when it comes back for the next one, not when it gets it: a
program that dies in between gets the message again.
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
    """Runs of messages: put in on the loop, taken out by one reader, on any thread.

    `arrived` is set when there may be something; it is cleared by readers that find nothing.
    """

    def __init__(self, arrived: threading.Event | asyncio.Event) -> None:
        self.arrived = arrived
        self.is_closed = False
        self._runs: deque[Run] = deque()
        self._given: list[Run] = []
        self._current: Run | None = None
        self._rest: Iterator[ReceivedMessage] | None = None
        self.last: ReceivedMessage | None = None
        """The message that was handed out last, one by one."""

    # ---- on the loop

    def put(self, run: Run) -> None:
        """Add what was pulled."""
        self._runs.append(run)
        self.arrived.set()

    def close(self) -> None:
        """Have readers come to an end."""
        self.is_closed = True
        self.arrived.set()

    def forget(self, queue: QueueCache) -> None:
        """Hand out nothing more of a queue; a loop that is in the middle of it goes on elsewhere.

        Only while the reader waits for this, or is on the same loop.
        """
        run = self._current
        if run is not None and run.queue is queue:
            self._current = self._rest = self.last = None
            run.messages.clear()  # ends its iterator

    # ---- the reader's

    def _next_run(self) -> Run | None:
        while True:
            try:
                run = self._runs.popleft()
            except IndexError:
                return None
            if not run.queue.is_dropped:
                return run

    def take(self) -> Iterator[ReceivedMessage] | None:
        """Return the messages to go through next, None if there are none; `last` is the reader's.

        What is left of an iterator that was given up is given again.
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
        """Note that all messages of the iterator are done."""
        run, self._current, self._rest, self.last = self._current, None, None, None
        if run is not None and not run.queue.is_dropped:
            run.queue.finish(run)

    def take_many(self, limit: int) -> list[ReceivedMessage]:
        """Return up to `limit` messages as one list; those of the call before are done."""
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

    # ---- what is done

    def finish_given(self) -> None:
        """Note that the lists handed out are done."""
        for run in self._given:
            if not run.queue.is_dropped:
                run.queue.finish(run)
        self._given.clear()

    def finish_last(self, *, include: bool) -> None:
        """Note that the messages handed out one by one are done, the last one if `include`."""
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
