"""Putting messages into the store: the last decisions before a message is bytes.

A message with a delay level goes to the schedule topic first, remembering where it belongs. After
the append whoever waits for it is told: held pulls, the delay service, the counters. What the store
refuses becomes the code and the remark that Java would give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orbitmq._native import Appended, NewMessage, Record, Store, tags_code
from orbitmq.broker.read.long_poll import HeldPulls
from orbitmq.broker.state.stats import SLOWEST_MS, BrokerStats
from orbitmq.errors import (
    DiskFull,
    FlushFailed,
    HeaderFault,
    InvalidMessage,
    RecordTooLarge,
    StoreClosed,
    StoreError,
)
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.flags import MessageFlag
from orbitmq.protocol.names import SCHEDULE_TOPIC, Property, is_storable_topic
from orbitmq.remoting.router import Refused

__all__ = ["MessageWriter", "copy_of", "delay_level", "real_queue_id"]


@dataclass(slots=True)
class MessageWriter:
    """The way into the store."""

    store: Store
    stats: BrokerStats
    clock: Callable[[], int]
    delay_levels_ms: Sequence[int]
    max_message_size: int
    held: HeldPulls
    on_scheduled: Callable[[int], None] = field(default=lambda _level: None)
    is_writable: bool = True
    counts_times: bool = True
    """Whether a put is over when it is appended; if not, somebody else counts its time."""

    def put(self, message: NewMessage, *, from_producer: bool = True) -> Appended:
        """Append one message; raises `Refused` with the code of the reason."""
        level = self._schedule(message)
        if from_producer and not level:
            # What the producer waits for is between it and us. Java keeps it for messages with a
            # delay and for those that no producer has sent, though.
            message.set_property(Property.WAIT, None)
        return self._append(message, level, counts=level > 0 or from_producer)

    def put_plain(self, message: NewMessage) -> Appended:
        """Append a producer's message that asks for nothing but to be stored."""
        return self._append(message, 0)

    def put_as_is(self, message: NewMessage) -> Appended:
        """Append a message whose delay is over: its properties still name it, and stay."""
        return self._append(message, 0)

    def put_batch(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Append messages of one queue side by side, or none."""
        began_ms = self._begin()
        try:
            appended = self.store.append_many(messages, now_ms=began_ms, atomic=True)
        except StoreError as error:
            raise self._refusal(error) from None
        self._end(began_ms)
        topic, size = messages[0].topic, sum(one.size for one in appended)
        self.stats.put(topic, len(appended), size)
        if self.held.is_waited_for(topic, messages[0].queue_id):
            for message in messages:
                self._tell_held(message)
        return appended

    def _schedule(self, message: NewMessage) -> int:
        """Send a delayed message to the schedule topic first; returns its delay level or 0."""
        if message.get_property(Property.DELAY) is None:
            return 0
        transaction = message.sys_flag & MessageFlag.TRANSACTION_MASK
        if transaction not in (0, MessageFlag.TRANSACTION_COMMIT):
            return 0
        if message.topic == SCHEDULE_TOPIC:
            return 0
        level = min(delay_level(message), len(self.delay_levels_ms))
        if level <= 0:
            return 0
        self.check_topic(message)
        message.set_property(Property.DELAY, str(level))
        message.set_property(Property.REAL_TOPIC, message.topic)
        message.set_property(Property.REAL_QUEUE_ID, str(message.queue_id))
        message.topic = SCHEDULE_TOPIC
        message.queue_id = level - 1
        return level

    def _append(self, message: NewMessage, level: int, *, counts: bool = True) -> Appended:
        began_ms = self._begin()
        try:
            appended = self.store.append(message, now_ms=began_ms)
        except StoreError as error:
            raise self._refusal(error) from None
        self._end(began_ms)
        topic = message.topic
        self.stats.put(topic, 1, appended.size, counts=counts)
        if level:
            self.stats.scheduled(level, appended.size)
            self.on_scheduled(level)
        elif self.held.is_waited_for(topic, message.queue_id):
            self._tell_held(message)
        return appended

    def _begin(self) -> int:
        if not self.is_writable:
            raise self.not_available()
        return self.clock()

    def _end(self, began_ms: int) -> None:
        if self.counts_times:
            took_ms = self.clock() - began_ms
            at = took_ms if 0 <= took_ms < SLOWEST_MS else SLOWEST_MS
            self.stats.put_times_ms.now[at] += 1

    def _refusal(self, error: StoreError) -> Refused:
        """Turn what the store refuses into the answer that Java would give."""
        self.stats.put_failed += 1
        if isinstance(error, RecordTooLarge | InvalidMessage):
            return self.illegal()
        if isinstance(error, DiskFull | StoreClosed | FlushFailed):
            return self.not_available()
        remark = "create mapped file failed, server is busy or broken."
        return Refused(ResponseCode.SYSTEM_ERROR, remark)

    def _tell_held(self, message: NewMessage) -> None:
        code = tags_code(message.get_property(Property.TAGS) or "")
        self.held.arrived(message.topic, message.queue_id, code)

    def check_topic(self, message: NewMessage) -> None:
        """Refuse a message that is put elsewhere first and can never be put where it belongs.

        Once it is due, there is nobody left to tell.
        """
        if not is_storable_topic(message.topic) or message.queue_id < 0:
            raise self.illegal()

    def illegal(self) -> Refused:
        """Return the refusal of a message that breaks a limit."""
        return Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self.max_message_size}B, msg properties length limit 32KB.",
        )

    def not_available(self) -> Refused:
        """Return the refusal of a store that takes nothing now."""
        ratio = self.stats.disk_used_ratio
        return Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            f"the broker's disk is full [CL: {ratio:5.2f} CQ: {ratio:5.2f} INDEX: {ratio:5.2f}], "
            "messages are put to the slave, message store has been shut down, etc.",
        )


def delay_level(message: NewMessage) -> int:
    """Return the delay level a message asks for, 0 for none."""
    text = message.get_property(Property.DELAY) or "0"
    try:
        return int(text)
    except ValueError:
        raise HeaderFault(f"property DELAY is not a number: {text!r}") from None


# ---- Copies of stored messages, to be stored again elsewhere
#
# A copy keeps the text of the properties as it is stored. Decoding it into a dict and encoding
# that again would fail for what one side accepts and the other does not.


def copy_of(
    record: Record,
    topic: str,
    queue_id: int,
    *,
    store_host: tuple[str, int] | None = None,
    flag: int | None = None,
    sys_flag: int | None = None,
    reconsume_times: int | None = None,
    prepared_transaction_offset: int = 0,
) -> NewMessage:
    """Return a stored message for another queue; what is not given stays as it is stored."""
    return NewMessage(
        topic,
        record.stored_body,
        queue_id=queue_id,
        properties=record.properties_text,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host if store_host is None else store_host,
        flag=record.flag if flag is None else flag,
        sys_flag=record.sys_flag if sys_flag is None else sys_flag,
        reconsume_times=record.reconsume_times if reconsume_times is None else reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
    )


def real_queue_id(record: Record) -> int:
    """Return the queue a held message belongs to; raises `ValueError` if it names none."""
    text = record.get_property(Property.REAL_QUEUE_ID)
    if text is None:
        return 0
    try:
        queue_id = int(text)
    except ValueError:
        queue_id = -1
    if not 0 <= queue_id < 1 << 31:
        raise ValueError(f"property {Property.REAL_QUEUE_ID} is {text[:50]!r}, which is no queue")
    return queue_id
