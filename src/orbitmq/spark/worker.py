"""Tunes a Python worker of Spark for many small tasks.

After every task, a worker runs the garbage collector over all its objects. With Spark, Arrow and
pandas imported, this takes longer than a small task itself. A micro-batch has four workers: two
that plan and commit a write, one that reads, one that writes. Imported objects stay anyway, so
`gc.freeze` excludes them from collection. The freeze runs at the first few calls, not only at the
first one, because a task imports the last modules while it runs. It does not run at every call,
because frozen garbage is never freed.
"""

from __future__ import annotations

import gc

from orbitmq.memory import keep_freed_memory
from orbitmq.spark.early_ends import end_quietly

__all__ = ["tune_worker"]

FREEZES = 3

_calls = 0


def tune_worker() -> None:
    """Exclude imported objects from garbage collection, and keep freed memory in the process.

    Call this whenever Spark calls this package in a separate process.
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
