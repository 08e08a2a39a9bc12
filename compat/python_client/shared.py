"""Common helpers of `python_client/`: fixture types, bodies, and waiting."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from orbitmq.admin.admin import Admin

__all__ = [
    "KINDS",
    "Catcher",
    "Java",
    "Listen",
    "ReadAll",
    "Way",
    "await_true",
    "count",
    "pattern",
    "sha1",
]

Way = Callable[[Callable[..., Any], Callable[..., Any]], Callable[..., Any]]
"""Picks one of two twins; the result is called like the first, the blocking one."""
Java = Callable[..., Any]
"""Plays a scenario with Java's client."""
Listen = Callable[..., Any]
"""Starts a push consumer: `listen(topic, function, tags=..., concurrency=...)`."""
ReadAll = Callable[[str, int], list[dict[str, Any]]]
"""Reads all of a topic with Java's client, once it has a number of messages."""

LIMIT_S = 30.0
ONLY = os.environ.get("ORBITMQ_COMPAT_AGAINST")
KINDS = [kind for kind in ("ours", "4.9.7", "5.4.0") if ONLY in (None, kind)]
"""The clusters every test runs against."""


def pattern(size: int) -> bytes:
    """Return the bytes that `Interop.java` makes for a size."""
    blocks = [bytes((i * 31 + shift) & 0xFF for i in range(256)) for shift in range(256)]
    return b"".join(blocks[n * 7 & 0xFF] for n in range(size // 256 + 1))[:size]


def sha1(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


def await_true(what: str, holds: Callable[[], Any], limit_s: float = LIMIT_S) -> None:
    """Wait for the work of another process, which gives no event."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(0.02)


def count(admin: Admin, topic: str) -> int:
    """Return the number of messages in a topic."""
    return sum(ends.count for ends in admin.topic_ends(topic).values())


class Catcher:
    """A handler that keeps its messages, in order of arrival."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._changed = threading.Condition()

    def add(self, message: Any) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait(self, wanted: int, limit_s: float = LIMIT_S) -> list[Any]:
        """Wait until a number of messages has arrived, and return them."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self.messages) >= wanted, limit_s)
            assert enough, f"{len(self.messages)} of {wanted} messages came within {limit_s} s"
            return list(self.messages)
