"""Responses that wait until the messages they acknowledge are on disk.

Appends end at rising offsets, so the responses form one ordered queue. The store's flushing thread
raises the flushed watermark and makes an eventfd readable. The event loop then releases all
responses whose end offset the watermark has reached. A response that waits longer than the timeout
is released as late.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from orbitmq._native import Store
from orbitmq.broker.state.stats import PutTimes

__all__ = ["FlushAcks"]

_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    end: int
    since: float
    release: Callable[[bool], None]


class FlushAcks:
    """Calls functions back when the log is flushed up to an offset, or when that times out."""

    def __init__(self, store: Store, timeout_ms: int, put_times: PutTimes) -> None:
        self._store = store
        self._put_times = put_times
        self._timeout_s = timeout_ms / 1000
        self._waiting: deque[_Waiting] = deque()
        self._loop = asyncio.get_running_loop()
        self._event = store.flushed_event()
        self._loop.add_reader(self._event, self._flushed)
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest_waited_ms(self) -> float:
        """Milliseconds that the oldest response has waited for the disk; 0 if none waits."""
        if not self._waiting or self._waiting[0].end <= self._store.flushed_offset:
            return 0.0
        return (self._loop.time() - self._waiting[0].since) * 1000

    def when_flushed(self, end: int, release: Callable[[bool], None]) -> None:
        """Call `release(True)` once the log is on disk up to `end`, `release(False)` if late."""
        self._waiting.append(_Waiting(end, self._loop.time(), release))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._expire)

    def _flushed(self) -> None:
        os.read(self._event, 8)
        flushed = self._store.flushed_offset
        now = self._loop.time()
        while self._waiting and self._waiting[0].end <= flushed:
            acknowledged = self._waiting.popleft()
            self._put_times.count((now - acknowledged.since) * 1000)
            acknowledged.release(True)

    def _expire(self) -> None:
        self._timer = None
        begun_by = self._loop.time() - self._timeout_s
        late = 0
        while self._waiting and self._waiting[0].since <= begun_by:
            self._waiting.popleft().release(False)
            self._put_times.count(self._timeout_s * 1000)
            late += 1
        if late:
            _log.error(
                "%d requests waited %.1f s for the flush of the log; they are answered without it",
                late,
                self._timeout_s,
            )
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0].since + self._timeout_s, self._expire)

    def close(self) -> None:
        """Release all waiting responses as late, because the store is closed next."""
        self._loop.remove_reader(self._event)
        os.close(self._event)
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            self._waiting.popleft().release(False)
