"""Rate-limited warnings, for events that a peer can cause at any rate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

__all__ = ["RareLog"]

EVERY_S = 10.0


class RareLog:
    """Logs at most one event per period, with the number of skipped events."""

    def __init__(
        self, log: logging.Logger, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock_s = clock_s
        self._next_s = 0.0
        self._left_out = 0

    def warning(self, text: str, *args: object) -> None:
        """Log an event unless the last log line is younger than the period."""
        now = self._clock_s()
        if now < self._next_s:
            self._left_out += 1
            return
        self._next_s = now + EVERY_S
        if self._left_out:
            text += " (%d more like it in the last while)"
            args = (*args, self._left_out)
        self._left_out = 0
        self._log.warning(text, *args)
