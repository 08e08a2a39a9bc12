"""Connections without a first request, the oldest first.

When connections have used all descriptors they may use (see `descriptors`), the oldest of these is
closed: an honest peer sends a request soon after it connects, and a silent one loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from orbitmq.remoting.rare_log import RareLog

__all__ = ["Newcomers"]

_log = logging.getLogger(__name__)


class Newcomers:
    """Connections that have not sent a request, and the functions that close them."""

    def __init__(self) -> None:
        self._closers: dict[object, Callable[[], str | None]] = {}
        self._closed = RareLog(_log)

    def add(self, newcomer: object, close: Callable[[], str | None]) -> None:
        """Add a newcomer; `close` returns the peer's address, or None if it has asked meanwhile."""
        self._closers[newcomer] = close

    def discard(self, newcomer: object) -> None:
        """Forget a newcomer that is closed or has sent a request."""
        self._closers.pop(newcomer, None)

    def make_room(self) -> bool:
        """Close the oldest newcomer that has not asked for anything; False if there is none."""
        while self._closers:
            close = self._closers.pop(next(iter(self._closers)))
            if (address := close()) is not None:
                self._closed.warning(
                    "closing %s: it has not asked for anything, and others need its descriptor",
                    address,
                )
                return True
        return False
