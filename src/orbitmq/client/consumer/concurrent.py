"""Handling messages in any order, several at a time.

A pulled chunk goes to one worker as a whole: that is what makes small messages cheap. It would be
wrong for slow handlers, whose messages should be spread over all workers. So the handler's pace
decides: chunks are cut into runs that take about `RUN_S`, and a worker that notices in the middle
of a run that it has become slow gives the rest of it to the others.

A queue that is to be given up is stopped at a line: behind the last message that was begun. What
lies before the line is handled yet, so that the one offset which the next owner gets says it all.
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
"""How long a worker should be busy with one run."""
FIRST_RUN = 8
"""Messages of a run at most while the handler's pace is not known."""
WEIGHT = 0.25
"""How much the latest run counts in the average."""


class Pace:
    """How long a handler takes for one message, on average."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything was noted yet."""
        return self._seconds is not None

    @property
    def run_length(self) -> int | None:
        """How many messages make a run; None for any number."""
        return None if self._seconds is None else max(int(RUN_S / self._seconds), 1)

    def note(self, seconds: float, messages: int) -> None:
        """Take a run into account."""
        latest = seconds / messages
        before = self._seconds
        self._seconds = latest if before is None else before + WEIGHT * (latest - before)


class Stuck(NamedTuple):
    """Messages that a handler has not come back from."""

    run: Run
    done: int
    """What the run had done before them."""
    messages: list[ReceivedMessage]


class ConcurrentService:
    """Gives messages to handlers and says which ones failed."""

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
        """What workers are at, each with what has failed of it so far."""

    def take(self, queue: ProcessQueue, messages: list[ReceivedMessage], size: int) -> None:
        """Have a pulled chunk handled."""
        if queue.queue.topic.startswith(RETRY_PREFIX):
            length: int | None = 1  # a retry queue holds messages of any topic
        else:
            handler = self._handlers.find(messages[0].topic)
            if handler is not None and handler.batch > 1:
                self._take_for_batches(queue, messages, size, handler.batch)
                return
            pace = self._pace(messages[0].topic)
            # A handler nobody knows yet may be slow: all workers begin.
            length = pace.run_length if pace.is_known else self._first_length(len(messages))
        for run in queue.add(messages, size, length):
            self.submit(run)

    def _first_length(self, count: int) -> int:
        """Return the length of runs that all workers begin with, not far from each other."""
        return min(-(-count // self._concurrency), FIRST_RUN)

    def _take_for_batches(
        self, queue: ProcessQueue, messages: list[ReceivedMessage], size: int, batch: int
    ) -> None:
        """Join a chunk to the one before it, as long as nobody has begun with that."""
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
        """Have a run handled."""
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
        """Return the handler, what to give it piece by piece, and where to note what fails.

        None when there is nothing to do.
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
        """Have no message of a queue begun behind the last one that was begun by now."""
        with self._lock:
            if queue.is_stopped:
                return
            queue.is_stopped = True
            # After that, so that a worker which has not seen it yet has counted what it begins.
            line = queue.begun_to
            for run in self._active:
                if run.queue is queue:
                    begun = run.messages[: (run.done + 1) * run.batch]
                    line = max(line, begun[-1].queue_offset + 1)
            queue.stop_line = line

    def stuck_since(self, moment: float) -> list[Stuck]:
        """Return messages that handlers have had since before a moment and have not returned.

        A run is as good as its message in this: all but the last of it take next to no time.
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
        """Note that somebody else has taken care of messages, whatever their handler does yet.

        What their worker had done before is settled; what it had not begun with goes to others.
        """
        run, at = stuck.run, stuck.done * stuck.run.batch
        with self._lock:
            if run not in self._active or run.is_given_up or run.done != stuck.done:
                return  # the handler has come back after all
            run.is_given_up = True
            # A copy: the handler may fail yet, which is not to be settled twice.
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

    # The two functions below are the same but for an await; neither calls anything of ours per
    # message, so that a handler that does little costs little.

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
            except BaseException as error:  # also what would end the thread
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
        """Give what is left of a slow run to others."""
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
            queue.split(run, at)  # they were not begun with, and nobody will now
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
    """Return the offset of what a handler gets at a time: a message, or a list of them."""
    offset: int = unit[0].queue_offset if isinstance(unit, list) else unit.queue_offset
    return offset
