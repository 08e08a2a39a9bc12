"""Delivering delayed messages when their time has come.

A message with delay level L waits in queue L-1 of the schedule topic; the tags code of its unit is
the time it is due. All messages of a level have the same delay, so each queue is in order of due
time and one timer per level, set for the queue's head, is enough. A level whose queue is empty has
no timer until a message arrives.

What has been delivered is remembered per level, as the next offset of its queue, and written to
``config/delayOffset.json`` every few seconds: after a crash the last deliveries are repeated, none
is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orbitmq._native import NewMessage, Record, Store, decode_records
from orbitmq.broker.putting import put_or_drop
from orbitmq.errors import OrbitError
from orbitmq.protocol.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, Property

__all__ = ["DelayService", "delivered"]

_log = logging.getLogger(__name__)

RETRY_MS = 100
BATCH = 200
"""Messages of one level delivered before others get a turn."""


class DelayService:
    """Moves messages from the schedule topic to where they belong."""

    def __init__(
        self,
        store: Store,
        levels_ms: Sequence[int],
        put: Callable[[NewMessage], object],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._levels_ms = levels_ms
        self._put = put
        self._clock = clock
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._offsets: dict[int, int] = {}
        self._is_running = False

    def load(self, value: Mapping[str, Any]) -> None:
        """Take the offsets of a file, as far as they can be true."""
        for text, offset in (value.get("offsetTable") or {}).items():
            level = int(text)
            low = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
            high = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
            self._offsets[level] = max(low, min(int(offset), high))

    def as_json(self) -> dict[str, Any]:
        """Return the form of the file and of the wire."""
        return {"offsetTable": dict(sorted(self._offsets.items()))}

    def progress(self) -> dict[int, tuple[int, int]]:
        """Return, by level, the next offset to deliver and the end of its queue."""
        return {
            level: (offset, self._store.max_offset(SCHEDULE_TOPIC, level - 1))
            for level, offset in sorted(self._offsets.items())
        }

    def start(self) -> None:
        """Begin to deliver."""
        self._is_running = True
        for level in range(1, len(self._levels_ms) + 1):
            self._set_timer(level, 0)

    def stop(self) -> None:
        """Deliver no more."""
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def arrived(self, level: int) -> None:
        """Tell that a message was put into a level's queue."""
        if self._is_running and level not in self._timers:
            self._set_timer(level, 0)

    def _set_timer(self, level: int, delay_ms: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[level] = loop.call_later(delay_ms / 1000, self._run, level)

    def _run(self, level: int) -> None:
        self._timers.pop(level, None)
        try:
            wait_ms = self._deliver(level)
        except OrbitError as error:
            _log.warning("delay level %d is tried again: %s", level, error)
            wait_ms = RETRY_MS
        if wait_ms is not None and self._is_running:
            self._set_timer(level, wait_ms)

    def _deliver(self, level: int) -> float | None:
        """Deliver what is due; returns how long to wait for the next, None for none."""
        queue_id = level - 1
        offset = self._offsets.get(level, 0)
        for _ in range(BATCH):
            unit = self._store.unit_at(SCHEDULE_TOPIC, queue_id, offset)
            low = self._store.min_offset(SCHEDULE_TOPIC, queue_id)
            if unit is None or offset < low:
                high = self._store.max_offset(SCHEDULE_TOPIC, queue_id)
                if low <= offset <= high:
                    return None
                offset = max(low, min(offset, high))
                self._offsets[level] = offset
                continue
            physical_offset, _, due_ms = unit
            now = self._clock()
            # A level made shorter, or a clock set back: nothing is due later than its whole delay.
            if due_ms > now and due_ms <= now + self._levels_ms[level - 1]:
                return due_ms - now
            data = self._store.record_at(physical_offset)
            if data is not None:
                (record,) = decode_records(data, check_crc=False)
                message = delivered(record)
                if message.topic == TRANS_HALF_TOPIC:
                    _log.error("a delayed half message was dropped: %s", record.offset_id)
                else:
                    put_or_drop(self._put, message, record)
            offset += 1
            self._offsets[level] = offset
        return 0


def delivered(record: Record) -> NewMessage:
    """Return what a message becomes when its delay is over; its properties stay as they are."""
    properties = record.properties
    return NewMessage(
        properties.get(Property.REAL_TOPIC, ""),
        record.stored_body,
        queue_id=int(properties.get(Property.REAL_QUEUE_ID, "0")),
        properties=properties,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
    )
