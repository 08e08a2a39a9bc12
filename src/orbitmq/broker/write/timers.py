"""Timer messages: delivery at any time their sender sets, up to weeks ahead.

Theory of operation. A timer message waits in the timer topic, with its own topic, its queue and its
due time as properties. The queues of the timer topic are tiers::

    queue 3   waits a day              A message waits in the highest tier whose wait fits into
    queue 2   waits two hours          its remaining time. It is then put again, into the tier
    queue 1   waits ten minutes        that fits then. Each queue is first in, first out, and
    queue 4   waits half a minute      costs no memory but the offset of its head.
    queue 0   near: less than ten minutes; a heap in memory has one number per message

A message is put again at least once a day, so it never gets older than the log's retention time.
If that time is less than two days, the highest tiers are not used. If more messages are near than
the heap may hold, queue 4 takes them for half a minute each. So memory is bounded, however many
messages are pending.

Crashes. ``config/timers.json`` is written every second in which a message has moved, once all moved
messages are on disk. The file contains the heads of the tiers. For the near queue it contains an
end and a time: messages before that end that were due by that time have been delivered. After a
crash all other messages are read again. Deliveries of the last second are repeated, and none is
lost.

A message that can never be delivered does not block others: it is set aside (`write/set_aside.py`).
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Appended, NewMessage, Record, Store, decode_records
from orbitmq.broker.write.delivery_time import DeliveryTimePolicy, due_of, held_until, released
from orbitmq.broker.write.set_aside import MessagePosition, SetAside
from orbitmq.broker.write.writer import MessageWriter, copy_of
from orbitmq.errors import FAILURES, OrbitError
from orbitmq.protocol.names import TIMER_TOPIC

__all__ = ["TimedWriter", "TimerService"]

_log = logging.getLogger(__name__)

NEAR = 0
MINUTE_MS = 60_000
TIERS_MS = {3: 24 * 60 * MINUTE_MS, 2: 120 * MINUTE_MS, 1: 10 * MINUTE_MS}
"""Waiting time of each tier's queue, the longest first."""
OVERFLOW, OVERFLOW_MS = 4, 30_000
NEAR_MS = TIERS_MS[1]
MAX_NEAR = 1_000_000
"""Size limit of the heap, some fifty megabytes.

Messages beyond it are put again every half minute, which costs space in the log.
"""
RETRY_MS = 100
FAULT_RETRY_MS = 10_000
"""Pause of a queue after an unexpected error."""
BATCH = 200
"""Number of messages moved before the event loop serves others."""
OFFSET_BITS = 63
OFFSET_MASK = (1 << OFFSET_BITS) - 1


class TimerService:
    """Holds timer messages in tiers and delivers them when they are due."""

    def __init__(
        self,
        store: Store,
        put: Callable[[NewMessage], Appended],
        clock: Callable[[], int],
        reserved_ms: Callable[[], int],
        *,
        max_near: int = MAX_NEAR,
    ) -> None:
        self._store = store
        self._put = put
        self._clock = clock
        self._max_near = max_near
        self._reserved_ms = reserved_ms
        self._heads: dict[int, int] = {}
        self._near: list[int] = []
        """Heap of near messages; each number contains due time and physical offset."""
        self._delivered = (0, 0)
        self._aside = SetAside("timed message")
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._is_running = False
        self.is_dirty = False

    def __len__(self) -> int:
        """Return the number of messages in the heap."""
        return len(self._near)

    # ---- Start, stop and the saved state

    def start(self) -> None:
        """Start delivering."""
        self._is_running = True
        for queue_id in (NEAR, OVERFLOW, *TIERS_MS):
            self._run_in(queue_id, 0)

    def reserved_time_changed(self) -> None:
        """Check all tiers at once, because the log may now keep messages for a shorter time."""
        for queue_id in TIERS_MS if self._is_running else ():
            self._run_in(queue_id, 0)

    def stop(self) -> None:
        """Stop delivering."""
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def load(self, value: Mapping[str, Any]) -> None:
        """Take heads and delivered range from the content of a file."""
        self._heads = {int(q): int(offset) for q, offset in (value.get("heads") or {}).items()}
        near = value.get("near") or {}
        self._delivered = (int(near.get("end", 0)), int(near.get("dueUntil", 0)))

    def as_json(self) -> dict[str, Any]:
        """Return heads and delivered range in the form of the file."""
        self.is_dirty = False
        now_ms = self._clock()
        until_ms = now_ms
        if self._near:
            until_ms = min(now_ms, (self._near[0] >> OFFSET_BITS) - 1)
        near = {"end": self._store.max_offset(TIMER_TOPIC, NEAR), "dueUntil": until_ms}
        return {"heads": dict(sorted(self._heads.items())), "near": near}

    def find_near(self) -> None:
        """Limit the heads to the store's ends, and fill the heap with undelivered near messages.

        To be called before any message is held: a message held earlier would be found again here.
        """
        # If the log has lost its tail, new messages at those offsets have not been moved yet.
        ends = {q: self._store.max_offset(TIMER_TOPIC, q) for q in self._heads}
        self._heads = {q: min(head, ends[q]) for q, head in self._heads.items()}
        end, due_until = self._delivered
        # Messages due after `due_until` cannot have been stored before `first_ms`. The minute
        # allows for clocks that were set back.
        first_ms = due_until - NEAR_MS - MINUTE_MS
        offset = self._store.min_offset(TIMER_TOPIC, NEAR)
        if end > 0 and first_ms > 0:
            nearest = self._store.offset_by_time(TIMER_TOPIC, NEAR, first_ms)
            offset = max(offset, min(nearest, end) - 1)
        while (unit := self._store.unit_at(TIMER_TOPIC, NEAR, offset)) is not None:
            try:
                record = self._record(unit[0])
                due_ms = 0 if record is None else due_of(record)
                waits = record is not None and (offset >= end or due_ms > due_until)
            except FAILURES as error:
                # A single bad message must not prevent a start. A message that may become readable
                # later is due at once, so that its delivery is tried again.
                place = MessagePosition(TIMER_TOPIC, NEAR, offset, unit[0])
                due_ms, waits = 0, not self._aside.takes(place, error)
            if waits:
                heapq.heappush(self._near, due_ms << OFFSET_BITS | unit[0])
            offset += 1

    # ---- Holding messages

    def hold(self, message: NewMessage, due_ms: int) -> Appended:
        """Store a message in the timer topic until it is due."""
        held_until(message, due_ms)
        return self._place(message, due_ms)

    def _place(self, message: NewMessage, due_ms: int) -> Appended:
        message.topic = TIMER_TOPIC
        message.queue_id = queue_id = self._queue_for(due_ms - self._clock())
        if self._store.max_offset(TIMER_TOPIC, queue_id) == 0:
            self._heads.pop(queue_id, None)  # the whole queue has expired and restarts at 0
        appended = self._put(message)
        self.is_dirty = True
        if queue_id == NEAR:
            entry = due_ms << OFFSET_BITS | appended.physical_offset
            heapq.heappush(self._near, entry)
            if self._is_running and self._near[0] == entry:
                self._run_in(NEAR, max(0, due_ms - self._clock()))
        elif self._is_running and queue_id not in self._timers:
            self._run_in(queue_id, 0)
        return appended

    def _queue_for(self, remaining_ms: int) -> int:
        longest_ms = self._longest_ms()
        for queue_id, wait_ms in TIERS_MS.items():
            if wait_ms <= min(remaining_ms, longest_ms):
                return queue_id
        is_full = len(self._near) >= self._max_near
        return OVERFLOW if is_full and remaining_ms >= OVERFLOW_MS else NEAR

    def _longest_ms(self) -> int:
        """Return how long a message may wait in one tier before it must be put again."""
        return max(self._reserved_ms() // 2, TIERS_MS[1])

    # ---- Delivery

    def _run_in(self, queue_id: int, delay_ms: float) -> None:
        if (timer := self._timers.pop(queue_id, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[queue_id] = loop.call_later(delay_ms / 1000, self._run, queue_id)

    def _run(self, queue_id: int) -> None:
        self._timers.pop(queue_id, None)
        try:
            wait_ms = self.deliver_near() if queue_id == NEAR else self.move_on(queue_id)
        except OrbitError as error:
            _log.warning(
                "moving timer messages of queue %d failed, next try in %d ms: %s",
                queue_id,
                RETRY_MS,
                error,
            )
            wait_ms = RETRY_MS
        except FAILURES:
            _log.exception(
                "moving timer messages of queue %d failed, next try in %d ms",
                queue_id,
                FAULT_RETRY_MS,
            )
            wait_ms = FAULT_RETRY_MS
        if wait_ms is not None and self._is_running:
            self._run_in(queue_id, wait_ms)

    def deliver_near(self) -> float | None:
        """Deliver due messages; return the milliseconds to the next one, None if none waits."""
        near = self._near
        for _ in range(BATCH):
            if not near:
                return None
            wait_ms = (near[0] >> OFFSET_BITS) - self._clock()
            if wait_ms > 0:
                return wait_ms
            entry = near[0]
            physical_offset = entry & OFFSET_MASK
            try:
                record = self._record(physical_offset)
                if record is not None:
                    self._put(released(record))
            except FAILURES as error:
                # The heap has no queue offset, only the physical offset.
                if not self._aside.takes(
                    MessagePosition(TIMER_TOPIC, NEAR, None, physical_offset), error
                ):
                    raise
            heapq.heappop(near)
            self.is_dirty = True
        return 0

    def move_on(self, queue_id: int) -> float | None:
        """Put messages that have waited long enough into their next tier.

        Returns the milliseconds until the next message has waited long enough, None if none waits.
        """
        # A tier may hold messages from a time of longer retention.
        tier_ms = OVERFLOW_MS if queue_id == OVERFLOW else TIERS_MS[queue_id]
        tier_ms = min(tier_ms, self._longest_ms())
        low = self._store.min_offset(TIMER_TOPIC, queue_id)
        high = self._store.max_offset(TIMER_TOPIC, queue_id)
        offset = max(low, min(self._heads.get(queue_id, 0), high))
        for _ in range(BATCH):
            unit = self._store.unit_at(TIMER_TOPIC, queue_id, offset)
            if unit is None:
                return None
            try:
                record = self._record(unit[0])
                if record is not None:
                    wait_ms = record.store_timestamp + tier_ms - self._clock()
                    if 0 < wait_ms <= tier_ms:
                        return wait_ms
                    self._place(_again(record, queue_id), due_of(record))
            except FAILURES as error:
                if not self._aside.takes(
                    MessagePosition(TIMER_TOPIC, queue_id, offset, unit[0]), error
                ):
                    raise
            offset += 1
            self._heads[queue_id] = offset
            self.is_dirty = True
        return 0

    def _record(self, physical_offset: int) -> Record | None:
        data = self._store.record_at(physical_offset)
        if data is None:
            _log.error(
                "timer message at physical offset %d is no longer in the log; it will not be "
                "delivered",
                physical_offset,
            )
            return None
        (record,) = decode_records(data, check_crc=False)
        return record


def _again(record: Record, queue_id: int) -> NewMessage:
    prepared = record.prepared_transaction_offset
    return copy_of(record, TIMER_TOPIC, queue_id, prepared_transaction_offset=prepared)


# ---- Writer for producers' messages
#
# A message goes to its own queue, or to the timer topic if it has a delivery time.


@dataclass(slots=True)
class TimedWriter:
    """Stores messages that may have a delivery time."""

    putting: MessageWriter
    timers: TimerService
    wishes: DeliveryTimePolicy

    def put(self, message: NewMessage, *, from_producer: bool = True) -> Appended:
        """Append a message to its queue, or hold it until it is due."""
        due_ms = self.wishes.due_ms(message)
        if due_ms is None:
            return self.putting.put(message, from_producer=from_producer)
        self.putting.check_topic(message)
        return self.timers.hold(message, due_ms)

    def wait_for_a_time(self, messages: Sequence[NewMessage]) -> bool:
        """Return True if any message has to wait; reject a time beyond the horizon."""
        due_ms = [self.wishes.due_ms(message) for message in messages]
        return any(due is not None for due in due_ms)
