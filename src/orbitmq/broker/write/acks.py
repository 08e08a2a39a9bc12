"""Responses that wait until what they acknowledge is on disk.

Appends end at rising offsets, so the responses form one ordered queue. The store's flushing thread
raises the flushed watermark and makes an eventfd readable; the event loop then releases, in one go,
every response whose end the watermark has reached. One that waits too long is released with the
answer for that.
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
    """Calls back when the log is flushed up to an offset, or when that takes too long."""

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
        """How long the first of those that wait for the disk has waited; 0 when there is none."""
        if not self._waiting or self._waiting[0].end <= self._store.flushed_offset:
            return 0.0
        return (self._loop.time() - self._waiting[0].since) * 1000

    def when_flushed(self, end: int, release: Callable[[bool], None]) -> None:
        """Call `release(True)` once everything below `end` is on disk, `release(False)` if late."""
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
            _log.error("%d messages were not flushed within %.1f s", late, self._timeout_s)
        if self._waiting:
            self._timer = self._loop.call_at(self._waiting[0].since + self._timeout_s, self._expire)

    def close(self) -> None:
        """Release all that wait as late: the store is about to be closed."""
        self._loop.remove_reader(self._event)
        os.close(self._event)
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            self._waiting.popleft().release(False)
