"""Delivering delayed messages when their time has come.

A message with delay level L waits in queue L-1 of the schedule topic; the tags code of its unit is
the time it is due. All messages of a level have the same delay, so each queue is in order of due
time and one timer per level, set for the queue's head, is enough. A level whose queue is empty has
no timer until a message arrives.

What has been delivered is remembered per level, as the next offset of its queue, and written to
``config/delayOffset.json`` every few seconds, once the delivered messages are on disk: after a
crash or a power cut the last deliveries are repeated, none is lost.

A message that can never be delivered does not hold up its level: it is set aside (`set_aside`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orbitmq._native import NewMessage, Record, Store, decode_records
from orbitmq.broker.write.set_aside import MessagePosition, SetAside
from orbitmq.broker.write.writer import copy_of, real_queue_id
from orbitmq.errors import FAILURES, OrbitError
from orbitmq.protocol.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, Property

__all__ = ["DelayService", "delivered"]

_log = logging.getLogger(__name__)

RETRY_MS = 100
FAULT_RETRY_MS = 10_000
"""Pause of a level after an error that nobody foresaw; as long as Java's."""
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
        self._aside = SetAside("delayed message")
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
            _log.warning(
                "delivery of delay level %d failed, next try in %d ms: %s", level, RETRY_MS, error
            )
            wait_ms = RETRY_MS
        except FAILURES:
            _log.exception(
                "delivery of delay level %d failed, next try in %d ms", level, FAULT_RETRY_MS
            )
            wait_ms = FAULT_RETRY_MS
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
            try:
                self._deliver_one(physical_offset)
            except FAILURES as error:
                place = MessagePosition(SCHEDULE_TOPIC, queue_id, offset, physical_offset)
                if not self._aside.takes(place, error):
                    raise
            offset += 1
            self._offsets[level] = offset
        return 0

    def _deliver_one(self, physical_offset: int) -> None:
        data = self._store.record_at(physical_offset)
        if data is None:
            return  # it has expired
        (record,) = decode_records(data, check_crc=False)
        message = delivered(record)
        if message.topic == TRANS_HALF_TOPIC:
            raise ValueError("it belongs to the topic of half messages, which is never delayed")
        self._put(message)


def delivered(record: Record) -> NewMessage:
    """Return what a message becomes when its delay is over; its properties stay as they are."""
    return copy_of(record, record.get_property(Property.REAL_TOPIC) or "", real_queue_id(record))
