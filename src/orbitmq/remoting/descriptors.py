"""File descriptors that are reserved for files.

The kernel limits the number of open files and sockets of a process. The store keeps no file open,
but it opens one whenever it grows, and so does every save of a table. If connections used the last
descriptor, acknowledged work would fail. So servers keep a reserve.

The kernel assigns the lowest free number to a new descriptor. So a number above the limit for
connections proves that at least that many descriptors are in use, without counting them.
"""

from __future__ import annotations

import os
import resource
import socket

__all__ = ["connections_have_all"]

RESERVED = 128


def connections_have_all(listening: socket.socket) -> bool:
    """Return True if the next connection would use up a descriptor reserved for files."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return False
    try:
        lowest = os.dup(listening.fileno())
    except OSError:
        return True
    os.close(lowest)
    return lowest >= soft - min(RESERVED, soft // 4)
