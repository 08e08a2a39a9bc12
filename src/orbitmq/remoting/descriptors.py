"""Descriptors that are kept back from connections.

A process may have only so many files and sockets open. The store keeps none of its files open, but
it opens one whenever it grows, and so do the tables that are saved. If connections took the last
descriptor, acknowledged work would fail. So servers leave some alone.

The kernel always gives the lowest free number to a new socket. A number beyond the allowed ones
therefore says that as many descriptors as that are in use, without counting them.
"""

from __future__ import annotations

import resource
import sys

__all__ = ["connection_limit"]

RESERVED = 128


def connection_limit() -> int:
    """Return the first descriptor number that no connection may have."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return soft - min(RESERVED, soft // 4)
