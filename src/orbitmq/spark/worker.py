"""Preparing a Python worker of Spark's for the many small tasks it will live for.

After every task a worker has its collector walk through all objects it has, which after importing
Spark, Arrow and pandas takes longer than a small task itself, and a micro-batch has four workers:
two that plan and commit a write, one that reads, one that writes. What was imported stays anyway,
so the collector is told to leave it alone (`gc.freeze`). That is done at the first few calls and
not at the first alone, because a task imports the last modules while it runs; and not at every
call, because garbage that is frozen is never freed.
"""

from __future__ import annotations

import gc

from orbitmq.memory import keep_freed_memory
from orbitmq.spark.early_ends import end_quietly

__all__ = ["tune_worker"]

FREEZES = 3

_calls = 0


def tune_worker() -> None:
    """Have what this process has imported stay out of the collector's way, and freed memory stay.

    To be called whenever Spark calls into this package in a process of its own.
    """
    global _calls
    _calls += 1
    if _calls > FREEZES:
        return
    if _calls == 1:
        keep_freed_memory()
        end_quietly()
    gc.collect()
    gc.freeze()
