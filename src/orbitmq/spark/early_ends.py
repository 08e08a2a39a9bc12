"""An end without a traceback for Python workers of Spark's that nobody reads from any more.

A scan ends early when a `limit` has its rows: Spark closes the connection, and the worker that is
writing the next rows fails with `BrokenPipeError`, as it is meant to. Spark's daemon, the parent of
its workers, prints a traceback of that to the stderr of the driver or executor, as if something had
gone wrong. It takes the module `traceback` from among its own names, where a worker, its child, can
put one that prints everything else.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

__all__ = ["end_quietly"]

DAEMON = "pyspark.daemon"


def end_quietly() -> None:
    """Have no traceback printed when this worker is left by its reader; elsewhere do nothing."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == DAEMON and getattr(main, "traceback", None) is traceback:
        names = {**vars(traceback), "print_exc": _print_unless_left}
        setattr(main, "traceback", SimpleNamespace(**names))  # noqa: B010 - it has no such type


def _print_unless_left() -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc()
