"""Ids that producers give their messages, so that a message sent twice can be told from two.

Upper-case hex of the host's IP (4 bytes), the process id (2), a number of the process's own (4),
the milliseconds since the month began in local time (4) and a counter (2). Tools read the time back
out of it, so it has to be Java's.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from datetime import datetime

from orbitmq.client.settings import local_ip

__all__ = ["make_unique_id"]

_prefix = ""
_month_begins_ms = 0
_month_ends_ms = 0
_next_count = itertools.count().__next__


def make_unique_id(now_ms: int | None = None) -> str:
    """Return an id nobody else has."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if not _month_begins_ms <= now < _month_ends_ms:
        _begin_month(now)
    return f"{_prefix}{now - _month_begins_ms:08X}{_next_count() & 0xFFFF:04X}"


def _begin_month(now_ms: int) -> None:
    global _prefix, _month_begins_ms, _month_ends_ms
    today = datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006 - local time is the rule
    first = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_year, next_month = divmod(first.month, 12)
    following = first.replace(year=first.year + next_year, month=next_month + 1)
    if not _prefix:
        ip = bytes(int(part) for part in local_ip().split("."))
        # Java takes the hash of its class loader, which tells two programs in one process apart.
        own = random.SystemRandom().getrandbits(32)
        _prefix = f"{ip.hex().upper()}{os.getpid() & 0xFFFF:04X}{own:08X}"
    _month_begins_ms = int(first.timestamp() * 1000)
    _month_ends_ms = int(following.timestamp() * 1000)


def _after_fork_in_child() -> None:
    global _prefix, _month_ends_ms
    _prefix, _month_ends_ms = "", 0


os.register_at_fork(after_in_child=_after_fork_in_child)
