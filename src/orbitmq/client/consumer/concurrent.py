"""Concurrent consumption: handles messages in any order, several at a time.

With a fast handler, one worker takes a pulled chunk as a whole, which keeps the cost per message
low. With a slow handler, the messages must be spread over all workers. So the handler's pace
decides: chunks are cut into runs that take about `RUN_S`. A worker that becomes slow in the middle
of a run gives the rest of the run to other workers.

A queue that is being given up is stopped at a line: behind the last message that a handler has
begun. Messages before the line are still handled. So one committed offset describes all progress
for the next owner of the queue.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from orbitmq._native import ReceivedMessage
from orbitmq.client.consumer.handlers import Failure, Handler, HandlerTable, NoHandler, failures
from orbitmq.client.consumer.process_queue import ProcessQueue, Run
from orbitmq.client.consumer.rates import ConsumeRates
from orbitmq.client.consumer.workers import Workers, is_told_to_end
from orbitmq.protocol.names import RETRY_PREFIX

__all__ = ["ConcurrentService", "Pace", "Stuck"]

_log = logging.getLogger(__name__)

RUN_S = 0.002
"""Target duration of one run."""
FIRST_RUN = 8
"""Maximum number of messages in a run while the handler's pace is unknown."""
WEIGHT = 0.25
"""Weight of the latest run in the average."""


class Pace:
    """Tracks the average time that a handler takes for one message."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    @property
    def is_known(self) -> bool:
        """True if at least one run was measured."""
        return self._seconds is not None

    @property
    def run_length(self) -> int | None:
        """Number of messages that fit into one run; None while the pace is unknown."""
        return None if self._seconds is None else max(int(RUN_S / self._seconds), 1)

    def note(self, seconds: float, messages: int) -> None:
        """Add the measurement of one run."""
        latest = seconds / messages
        before = self._seconds
        self._seconds = latest if before is None else before + WEIGHT * (latest - before)


class Stuck(NamedTuple):
    """Messages of a handler call that has not returned."""

    run: Run
    done: int
    """Number of handler calls of the run that returned before this call."""
    messages: list[ReceivedMessage]


class ConcurrentService:
    """Calls handlers with messages and reports the failed messages to `on_failed`."""

    def __init__(
        self,
        handlers: HandlerTable,
        workers: Workers,
        on_failed: Callable[[Run, list[Failure]], None],
        *,
        concurrency: int,
        awaits: bool,
        rates: ConsumeRates,
    ) -> None:
        self._concurrency = concurrency
        self._rates = rates
        self._handlers = handlers
        self._workers = workers
        self._on_failed = on_failed
        self._awaits = awaits
        self._paces: dict[str, Pace] = {}
        self._waiting: dict[ProcessQueue, Run] = {}
        self._lock = threading.Lock()
        self._active: dict[Run, list[Failure]] = {}
        """Runs that workers are handling, with the failures of each run so far."""

    def take(self, queue: ProcessQueue, messages: list[ReceivedMessage], size: int) -> None:
        """Cut a pulled chunk into runs and submit them to the workers."""
        if queue.queue.topic.startswith(RETRY_PREFIX):
            length: int | None = 1  # a retry queue holds messages of any topic
        else:
            handler = self._handlers.find(messages[0].topic)
            if handler is not None and handler.batch > 1:
                self._take_for_batches(queue, messages, size, handler.batch)
                return
            pace = self._pace(messages[0].topic)
            # The handler's pace is unknown, and the handler may be slow: use all workers.
            length = pace.run_length if pace.is_known else self._first_length(len(messages))
        for run in queue.add(messages, size, length):
            self.submit(run)

    def _first_length(self, count: int) -> int:
        """Return the length of the first runs, which spreads `count` messages over all workers.

        At most `FIRST_RUN`, so that the workers begin not far from each other in the queue.
        """
        return min(-(-count // self._concurrency), FIRST_RUN)

    def _take_for_batches(
        self, queue: ProcessQueue, messages: list[ReceivedMessage], size: int, batch: int
    ) -> None:
        """Submit a chunk as batches; append it to the last batch while no worker has begun it."""
        with self._lock:
            waiting = self._waiting.get(queue)
            if waiting is not None and len(waiting.messages) + len(messages) <= batch:
                queue.extend(waiting, messages, size)
                return
            runs = queue.add(messages, size, batch)
            if len(runs[-1].messages) < batch:
                self._waiting[queue] = runs[-1]
        for run in runs:
            self.submit(run)

    def submit(self, run: Run) -> None:
        """Submit a run to the workers."""
        if self._awaits:
            self._workers.submit(lambda: self._handle_awaiting(run))
        else:
            self._workers.submit(lambda: self._handle(run))

    def _pace(self, topic: str) -> Pace:
        pace = self._paces.get(topic)
        if pace is None:
            pace = self._paces[topic] = Pace()
        return pace

    def _begin(self, run: Run) -> tuple[Handler, Any, list[Failure]] | None:
        """Return the handler, the arguments of its calls, and the list that collects failures.

        Returns None if no handler has to be called: the queue was stopped before the run, or the
        topic has no handler.
        """
        queue, messages = run.queue, run.messages
        if self._waiting.get(queue) is run:
            with self._lock:
                if self._waiting.get(queue) is run:
                    del self._waiting[queue]
                messages = run.messages
        if queue.is_stopped and run.first_offset >= queue.stop_line:
            return None
        handler = self._handlers.find(messages[0].topic)
        if handler is None:
            error = NoHandler(f"nobody here handles topic {messages[0].topic}")
            self._on_failed(run, [Failure(message, error) for message in messages])
            return None
        run.batch = batch = handler.batch
        run.began_at = time.monotonic()
        failed: list[Failure] = []
        with self._lock:
            if queue.is_stopped and run.first_offset >= queue.stop_line:
                return None
            self._active[run] = failed
        if batch == 1:
            return handler, messages, failed
        units = [messages[at : at + batch] for at in range(0, len(messages), batch)]
        return handler, units, failed

    def stop(self, queue: ProcessQueue) -> None:
        """Stop a queue: no handler may begin a message behind the last one begun by now."""
        with self._lock:
            if queue.is_stopped:
                return
            queue.is_stopped = True
            # Computed after setting `is_stopped`: a worker that has not seen the flag yet has
            # counted the message it begins.
            line = queue.begun_to
            for run in self._active:
                if run.queue is queue:
                    begun = run.messages[: (run.done + 1) * run.batch]
                    line = max(line, begun[-1].queue_offset + 1)
            queue.stop_line = line

    def stuck_since(self, moment: float) -> list[Stuck]:
        """Return the messages of handler calls in runs that began before `moment`.

        The start of the run stands for the start of the call, because the calls before the last one
        take almost no time.
        """
        found = []
        for run in list(self._active):
            if run.is_given_up or run.queue.is_dropped:
                continue
            if run.began_at is not None and run.began_at < moment:
                done = run.done
                messages = run.messages[done * run.batch : (done + 1) * run.batch]
                if messages:
                    found.append(Stuck(run, done, messages))
        return found

    def give_up(self, stuck: Stuck) -> None:
        """Finish messages that were sent back to the broker while their handler still runs.

        The messages that the worker had done before are settled. The messages that the worker has
        not begun go to other workers.
        """
        run, at = stuck.run, stuck.done * stuck.run.batch
        with self._lock:
            if run not in self._active or run.is_given_up or run.done != stuck.done:
                return  # the handler has returned meanwhile
            run.is_given_up = True
            # A copy: the handler may still fail, and that failure must not be settled a second
            # time.
            failed, given_up, rest = list(self._active[run]), run, []
            if at + len(stuck.messages) < len(run.messages):
                rest = run.queue.split(run, at + len(stuck.messages), run.batch)
            if at:
                (given_up,) = run.queue.split(run, at)
        run.queue.finish(given_up)
        if at:
            self._settle(run, failed)
        for piece in rest:
            self.submit(piece)

    # The two methods below are equal except for an await. Both avoid calls per message other than
    # the handler's, so that the overhead stays small for fast handlers.

    def _handle(self, run: Run) -> None:
        begun = self._begin(run)
        if begun is None:
            return
        handler, units, failed = begun
        function, queue = handler.function, run.queue
        clock = time.perf_counter
        start = before = clock()
        done = 0
        for unit in units:
            if queue.is_stopped and _offset_of(unit) >= queue.stop_line:
                break
            try:
                function(unit)
            except BaseException as error:  # including errors that would end the thread
                failed.extend(failures(unit, error))
            run.done = done = done + 1
            now = clock()
            taken, before = now - before, now
            if taken > RUN_S:
                self._share(run, handler, done, taken)
                if done * handler.batch >= len(run.messages):
                    break
        self._end(run, handler, done, failed, before - start)

    async def _handle_awaiting(self, run: Run) -> None:
        begun = self._begin(run)
        if begun is None:
            return
        handler, units, failed = begun
        function, queue = handler.function, run.queue
        clock = time.perf_counter
        start = before = clock()
        done = 0
        for unit in units:
            if queue.is_stopped and _offset_of(unit) >= queue.stop_line:
                break
            try:
                await function(unit)
            except (Exception, asyncio.CancelledError) as error:
                if is_told_to_end(error):
                    raise
                failed.extend(failures(unit, error))
            run.done = done = done + 1
            now = clock()
            taken, before = now - before, now
            if taken > RUN_S:
                self._share(run, handler, done, taken)
                if done * handler.batch >= len(run.messages):
                    break
        self._end(run, handler, done, failed, before - start)

    def _share(self, run: Run, handler: Handler, done: int, seconds: float) -> None:
        """Give the rest of a slow run to other workers."""
        at = done * handler.batch
        length = max(int(RUN_S / seconds), 1) * handler.batch
        with self._lock:
            if run.is_given_up or at >= len(run.messages):
                return
            pieces = run.queue.split(run, at, length)
        self._pace(handler.topic).note(seconds, handler.batch)
        for piece in pieces:
            self.submit(piece)

    def _end(
        self,
        run: Run,
        handler: Handler,
        done: int,
        failed: list[Failure],
        seconds: float,
    ) -> None:
        queue = run.queue
        with self._lock:
            self._active.pop(run, None)
            if queue.is_dropped or run.is_given_up or not done:
                return
            at = done * handler.batch
            last = run.messages[min(at, len(run.messages)) - 1].queue_offset
            queue.begun_to = max(queue.begun_to, last + 1)
        if at < len(run.messages):
            queue.split(run, at)  # these messages stay unhandled, because the queue was stopped
        count = len(run.messages)
        self._pace(handler.topic).note(max(seconds, 1e-9), count)
        topic = queue.queue.topic
        self._rates.consumed(topic, count, len(failed), done, seconds)
        self._settle(run, failed)

    def _settle(self, run: Run, failed: list[Failure]) -> None:
        if failed:
            self._on_failed(run, failed)
        else:
            run.queue.finish(run)


def _offset_of(unit: Any) -> int:
    """Return the queue offset of the argument of a handler call: a message, or a list's first."""
    offset: int = unit[0].queue_offset if isinstance(unit, list) else unit.queue_offset
    return offset
