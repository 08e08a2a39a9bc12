"""Descriptors that are kept back from connections.

A process may have only so many files and sockets open. The store keeps none of its files open, but
it opens one whenever it grows, and so do the tables that are saved. If connections took the last
descriptor, acknowledged work would fail. So servers leave some alone.

The kernel always gives the lowest free number to a new descriptor. A number beyond the allowed ones
therefore says that as many descriptors as that are in use, without counting them.
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
