"""Sending rows when they are due, not as fast as they come.

Each task sends its share of the rows, in the order of their store times, through the sink. Before
each handful it waits: until the row's time has come (the original gaps, made shorter or longer by
the speed), and until the rate allows more. All tasks count from one moment, which the driver chose,
so they keep in step; there must not be more of them than run at once, or some would start late.

The rate is a limit, not an average: each row has a slot, the next one comes a fixed time after it
and never earlier. What a gap in the past, a task that began late or a broker that stalled has left
unused is not made up for. The tasks' slots lie between each other's.
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
    """How many rows a second all tasks together may send."""
    tasks: int = 1
    """How many share the rate."""

    def due_s(self, stored_ms: int) -> float:
        """Return when a row's time has come, as far as the gaps decide."""
        if self.speed is None:
            return self.start_s
        return self.start_s + (stored_ms - self.first_ms) / 1000 / self.speed

    @property
    def slot_s(self) -> float:
        """How long a task waits at least from one row to the next."""
        return 0.0 if self.rate is None else self.tasks / self.rate

    def first_slot_s(self, task: int, now_s: float) -> float:
        """Return when the rate allows the first row of a task."""
        return max(self.start_s, now_s) + task * self.slot_s / self.tasks


def due_slices(
    batches: Iterator[pa.RecordBatch],
    pace: Pace,
    *,
    task: int = 0,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Cut batches into rows that are due together, and hand each over when it is due.

    The store time is the column ``storeTimestamp``. Whoever takes a slice should send it before
    taking the next: the rate counts from when that happens.
    """
    import pyarrow as pa

    allowed = pace.first_slot_s(task, now())
    for batch in batches:
        stored = batch.column("storeTimestamp").cast(pa.int64()).to_pylist()
        begin = 0
        while begin < batch.num_rows:
            due = max(pace.due_s(stored[begin] // 1000), allowed)
            if (wait := due - now()) > 0:
                sleep(wait)
            slot = max(due, now())
            limit = slot + SLICE_S
            end = begin + 1
            while end < batch.num_rows:
                following = max(pace.due_s(stored[end] // 1000), slot + pace.slot_s)
                if following > limit:
                    break
                slot = following
                end += 1
            allowed = slot + pace.slot_s
            yield batch.slice(begin, end - begin)
            begin = end
