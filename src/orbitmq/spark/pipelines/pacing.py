"""Sending rows when they are due, not as fast as they come.

Each task sends its share of the rows, in the order of their store times, through the sink. Before
each handful it waits: until the row's time has come (the original gaps, made shorter or longer by
the speed), and until the rate allows more. All tasks count from one moment, which the driver chose,
so they keep in step; there must not be more of them than run at once, or some would start late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Pace", "due_slices"]

SLICE_S = 0.05
"""Rows due within this time go together."""


@dataclass(frozen=True)
class Pace:
    """When rows are due. Times are seconds since the epoch on clocks that agree."""

    start_s: float
    """When the first row is due."""
    first_ms: int = 0
    """Its store time."""
    speed: float | None = None
    """How many times faster than they were stored; None: the gaps do not matter."""
    rate: float | None = None
    """How many rows a second this task may send."""

    def due_s(self, stored_ms: int, sent: int, begun_s: float) -> float:
        """Return when a row may go that comes after `sent` others of a task begun at `begun_s`.

        A task that began late makes up for the gaps it missed, but never by breaking the rate.
        """
        due = self.start_s
        if self.speed is not None:
            due += (stored_ms - self.first_ms) / 1000 / self.speed
        if self.rate is not None:
            due = max(due, begun_s + sent / self.rate)
        return due


def due_slices(
    batches: Iterator[pa.RecordBatch],
    pace: Pace,
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Cut batches into rows that are due together, and hand each over when it is due.

    The store time is the column ``storeTimestamp``.
    """
    import pyarrow as pa

    sent = 0
    begun = max(pace.start_s, now())
    for batch in batches:
        stored = batch.column("storeTimestamp").cast(pa.int64()).to_pylist()
        begin = 0
        while begin < batch.num_rows:
            due = pace.due_s(stored[begin] // 1000, sent, begun)
            end = begin + 1
            limit = max(due, now()) + SLICE_S
            while end < batch.num_rows:
                if pace.due_s(stored[end] // 1000, sent + end - begin, begun) > limit:
                    break
                end += 1
            wait = due - now()
            if wait > 0:
                sleep(wait)
            yield batch.slice(begin, end - begin)
            sent += end - begin
            begin = end
