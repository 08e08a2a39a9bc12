"""Delivery of delayed messages at their due time.

A message with delay level L waits in queue L-1 of the schedule topic. The tag code of its queue
entry is its due time. All messages of a level have the same delay, so each queue is in order of due
time. Therefore one timer per level, set for the head of the queue, is enough. A level with an empty
queue has no timer until a message arrives.

The progress of a level is the next offset of its queue. It is written to
``config/delayOffset.json`` every few seconds, once the delivered messages are on disk. After a
crash or a power cut the last deliveries are repeated, and none is lost.

A message that can never be delivered does not block its level: it is set aside
(`write/set_aside.py`).
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
"""Pause of a level after an unexpected error; as long as in Java."""
BATCH = 200
"""Number of messages of one level delivered before the event loop serves others."""


class DelayService:
    """Moves messages from the schedule topic to their own topics."""

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
        """Take the offsets of a file, limited to the ranges of the queues."""
        for text, offset in (value.get("offsetTable") or {}).items():
            level = int(text)
            low = self._store.min_offset(SCHEDULE_TOPIC, level - 1)
            high = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
            self._offsets[level] = max(low, min(int(offset), high))

    def as_json(self) -> dict[str, Any]:
        """Return the offsets in the form of the file and the wire."""
        return {"offsetTable": dict(sorted(self._offsets.items()))}

    def progress(self) -> dict[int, tuple[int, int]]:
        """Return, by level, the next offset to deliver and the end of its queue."""
        return {
            level: (offset, self._store.max_offset(SCHEDULE_TOPIC, level - 1))
            for level, offset in sorted(self._offsets.items())
        }

    def start(self) -> None:
        """Start delivering."""
        self._is_running = True
        for level in range(1, len(self._levels_ms) + 1):
            self._set_timer(level, 0)

    def stop(self) -> None:
        """Stop delivering."""
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def arrived(self, level: int) -> None:
        """Start the timer of a level, if needed, after a message was put into its queue."""
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
        """Deliver due messages; return the milliseconds to the next one, None if none waits."""
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
            # If the level was made shorter or the clock set back, a due time can be too far ahead:
            # no message waits longer than the whole delay of its level.
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
            return  # the record has expired with its log file
        (record,) = decode_records(data, check_crc=False)
        message = delivered(record)
        if message.topic == TRANS_HALF_TOPIC:
            raise ValueError("it belongs to the topic of half messages, which is never delayed")
        self._put(message)


def delivered(record: Record) -> NewMessage:
    """Return the message to deliver once the delay of `record` is over, properties unchanged."""
    return copy_of(record, record.get_property(Property.REAL_TOPIC) or "", real_queue_id(record))
