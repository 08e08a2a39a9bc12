"""Reuse of freed memory in processes that handle large blocks.

The C library returns large blocks to the kernel when they are freed, and gets fresh pages for the
next ones; touching a fresh page costs more than filling it. A broker that answers with megabytes,
or a reader that converts them to columns, would spend two thirds of its time on that. So such a
process keeps freed memory, up to a limit, for the next block.
"""

from __future__ import annotations

import contextlib
import ctypes

__all__ = ["keep_freed_memory"]

KEPT_BYTES = 64 << 20

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_FROM_HEAP = 32 << 20
"""The most that glibc takes for this threshold."""


def keep_freed_memory() -> bool:
    """Keep up to `KEPT_BYTES` of freed memory; False where the C library has no such switch."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        taken = mallopt(_M_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)
        return bool(taken and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
    return False
