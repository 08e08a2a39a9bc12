"""Ids that producers give their messages, so that a message sent twice can be told from two.

Upper-case hex of the host's IP (4 bytes), the process id (2), a number of the process's own (4),
the milliseconds since the month began in local time (4) and a counter (2). Tools read the time back
out of it, so it has to be Java's.
"""

from __future__ import annotations

import os
import random
import time
from datetime import datetime

from orbitmq._native import UniqueIds
from orbitmq.client.settings import local_ip

__all__ = ["make_unique_id", "present_ids"]

_NONE = (UniqueIds(""), 0, 0)
_month = _NONE
"""The ids of this process, and when the present month begins and ends, in milliseconds."""


def make_unique_id(now_ms: int | None = None) -> str:
    """Return an id nobody else has."""
    ids, month_ms = present_ids(now_ms)
    return ids.next(month_ms)


def present_ids(now_ms: int | None = None) -> tuple[UniqueIds, int]:
    """Return where ids come from, and the time they shall tell."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    ids, begins_ms, ends_ms = _month
    if not begins_ms <= now < ends_ms:
        ids, begins_ms, _ = _begin_month(now)
    return ids, now - begins_ms


def _begin_month(now_ms: int) -> tuple[UniqueIds, int, int]:
    global _month
    today = datetime.fromtimestamp(now_ms / 1000)  # noqa: DTZ006 - local time is the rule
    first = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_year, next_month = divmod(first.month, 12)
    following = first.replace(year=first.year + next_year, month=next_month + 1)
    ids = _month[0]
    if _month is _NONE:
        ip = bytes(int(part) for part in local_ip().split("."))
        # Java takes the hash of its class loader, which tells two programs in one process apart.
        own = random.SystemRandom().getrandbits(32)
        ids = UniqueIds(f"{ip.hex().upper()}{os.getpid() & 0xFFFF:04X}{own:08X}")
    _month = (ids, int(first.timestamp() * 1000), int(following.timestamp() * 1000))
    return _month


def _after_fork_in_child() -> None:
    global _month
    _month = _NONE


os.register_at_fork(after_in_child=_after_fork_in_child)
