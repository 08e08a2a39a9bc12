"""Suppresses the traceback of a Spark Python worker whose reader has closed the connection.

A scan ends early when a `limit` has its rows. Spark then closes the connection, and the worker that
is writing the next rows fails with `BrokenPipeError`, as intended. Spark's daemon, the parent of
the workers, prints a traceback of this, as if it were a fault, to the stderr of driver or executor.
The daemon's code looks up the module `traceback` in its global names. A worker, its child, can put
an object there that prints every other error.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

__all__ = ["end_quietly"]

DAEMON = "pyspark.daemon"


def end_quietly() -> None:
    """Print no traceback when this worker's reader disconnects; outside a worker do nothing."""
    main = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == DAEMON and getattr(main, "traceback", None) is traceback:
        names = {**vars(traceback), "print_exc": _print_unless_left}
        setattr(main, "traceback", SimpleNamespace(**names))  # noqa: B010 - it has no such type


def _print_unless_left() -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
        traceback.print_exc()
