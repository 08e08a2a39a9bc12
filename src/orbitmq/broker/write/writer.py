"""Appending of messages to the store: the last decisions before a message is encoded.

A message with a delay level goes to the schedule topic first, with its own topic and queue as
properties. After the append, the writer notifies held pulls, the delay service and the counters. If
the store rejects a message, the response has the code and the remark that Java would send.
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
    """Appends messages to the store, and notifies the parts that wait for them."""

    store: Store
    stats: BrokerStats
    clock: Callable[[], int]
    delay_levels_ms: Sequence[int]
    max_message_size: int
    held: HeldPulls
    on_scheduled: Callable[[int], None] = field(default=lambda _level: None)
    is_writable: bool = True
    counts_times: bool = True
    """True if a put ends with its append; False under sync flush, where `FlushAcks` counts it."""

    def put(self, message: NewMessage, *, from_producer: bool = True) -> Appended:
        """Append one message; raise `Refused` with the code of the reason."""
        level = self._schedule(message)
        if from_producer and not level:
            # WAIT only concerns the producer and this broker, so it is not stored. Java stores it
            # for delayed messages and for those that no producer has sent, though.
            message.set_property(Property.WAIT, None)
        return self._append(message, level, counts=level > 0 or from_producer)

    def put_plain(self, message: NewMessage) -> Appended:
        """Append a producer's message that has no property for the broker to handle."""
        return self._append(message, 0)

    def put_as_is(self, message: NewMessage) -> Appended:
        """Append a message whose delay is over; its delay property stays and is ignored."""
        return self._append(message, 0)

    def put_batch(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Append all messages of a batch for one queue next to each other, or none of them."""
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
        """Redirect a delayed message to the schedule topic; return its delay level or 0."""
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
        """Return the rejection that Java would send for an error of the store."""
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
        """Reject a message that waits in another topic, but can never be put into its own queue.

        Once the message is due, no client waits for a response that could contain the error.
        """
        if not is_storable_topic(message.topic) or message.queue_id < 0:
            raise self.illegal()

    def illegal(self) -> Refused:
        """Return the rejection of a message that exceeds a limit."""
        return Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self.max_message_size}B, msg properties length limit 32KB.",
        )

    def not_available(self) -> Refused:
        """Return the rejection of messages while the store accepts none."""
        ratio = self.stats.disk_used_ratio
        return Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            f"the broker's disk is full [CL: {ratio:5.2f} CQ: {ratio:5.2f} INDEX: {ratio:5.2f}], "
            "messages are put to the slave, message store has been shut down, etc.",
        )


def delay_level(message: NewMessage) -> int:
    """Return the delay level in a message's property, 0 without one."""
    text = message.get_property(Property.DELAY) or "0"
    try:
        return int(text)
    except ValueError:
        raise HeaderFault(f"property DELAY is not a number: {text!r}") from None


# ---- Copies of stored messages
#
# A copy is stored again in another queue. It keeps the stored text of the properties. Decoding the
# text into a dict and encoding that again would fail where only one of the two accepts a text.


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
    """Return a copy of a stored message for another queue; other fields change only if given."""
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
    """Return the own queue of a held message; raise `ValueError` if the property is no queue."""
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
