"""Putting messages into the store: the last decisions before a message is bytes.

A message with a delay level goes to the schedule topic first, remembering where it belongs. After
the append whoever waits for it is told: held pulls, the delay service, the counters. What the store
refuses becomes the code and the remark that Java would give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from orbitmq._native import Appended, NewMessage, Store, tags_code
from orbitmq.broker.longpoll import HeldPulls
from orbitmq.broker.stats import BrokerStats
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
from orbitmq.protocol.names import SCHEDULE_TOPIC, Property
from orbitmq.remoting.handling import Refused

__all__ = ["Draft", "Putting", "delay_level"]


@dataclass(slots=True)
class Draft:
    """A message that is still being decided about."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    born_timestamp: int
    born_host: tuple[str, int]
    store_host: tuple[str, int]
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    properties_text: str | None = None
    """The properties as they are to be stored, if not as `properties` has them."""

    @property
    def waits(self) -> bool:
        """Whether the producer wants to know that the message is safe."""
        return self.properties.get(Property.WAIT, "true").lower() == "true"


@dataclass(slots=True)
class Putting:
    """The way into the store."""

    store: Store
    stats: BrokerStats
    clock: Callable[[], int]
    delay_levels_ms: Sequence[int]
    max_message_size: int
    held: HeldPulls
    on_scheduled: Callable[[int], None] = field(default=lambda _level: None)
    is_writable: bool = True

    def put(self, draft: Draft, *, from_producer: bool = True) -> Appended:
        """Append one message; raises `Refused` with the code of the reason."""
        level = self._schedule(draft)
        final = self._final(draft, keeps_wait=level > 0 or not from_producer)
        return self._append([final], draft, level, counts=level > 0 or from_producer)[0]

    def put_as_is(self, draft: Draft) -> Appended:
        """Append a message whose delay is over: its properties still name it, and stay."""
        return self._append([self._final(draft, keeps_wait=True)], draft, 0)[0]

    def put_batch(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append messages of one queue side by side, or none."""
        messages = [self._final(draft) for draft in drafts]
        return self._append(messages, drafts[0], 0, atomic=True)

    def _schedule(self, draft: Draft) -> int:
        """Send a delayed message to the schedule topic first; returns its delay level or 0."""
        if Property.DELAY not in draft.properties:
            return 0
        transaction = draft.sys_flag & MessageFlag.TRANSACTION_MASK
        if transaction not in (0, MessageFlag.TRANSACTION_COMMIT) or draft.topic == SCHEDULE_TOPIC:
            return 0
        level = min(delay_level(draft.properties), len(self.delay_levels_ms))
        if level <= 0:
            return 0
        draft.properties[Property.DELAY] = str(level)
        draft.properties[Property.REAL_TOPIC] = draft.topic
        draft.properties[Property.REAL_QUEUE_ID] = str(draft.queue_id)
        draft.topic = SCHEDULE_TOPIC
        draft.queue_id = level - 1
        return level

    def _final(self, draft: Draft, *, keeps_wait: bool = False) -> NewMessage:
        if not keeps_wait:
            # What the producer waits for is between it and us. Java keeps it for messages with a
            # delay and for those that no producer has sent, though.
            draft.properties.pop(Property.WAIT, None)
        return NewMessage(
            draft.topic,
            draft.body,
            queue_id=draft.queue_id,
            flag=draft.flag,
            sys_flag=draft.sys_flag,
            born_timestamp=draft.born_timestamp,
            born_host=draft.born_host,
            store_host=draft.store_host,
            reconsume_times=draft.reconsume_times,
            prepared_transaction_offset=draft.prepared_transaction_offset,
            properties=draft.properties if draft.properties_text is None else draft.properties_text,
        )

    def _append(
        self,
        messages: Sequence[NewMessage],
        draft: Draft,
        level: int,
        *,
        atomic: bool = False,
        counts: bool = True,
    ) -> list[Appended]:
        if not self.is_writable:
            raise self.not_available()
        try:
            appended = self.store.append_many(messages, now_ms=self.clock(), atomic=atomic)
        except (RecordTooLarge, InvalidMessage):
            self.stats.put_failed += 1
            raise self.illegal() from None
        except (DiskFull, StoreClosed, FlushFailed):
            self.stats.put_failed += 1
            raise self.not_available() from None
        except StoreError:
            self.stats.put_failed += 1
            remark = "create mapped file failed, server is busy or broken."
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None
        size = appended[0].size if len(appended) == 1 else sum(a.size for a in appended)
        self.stats.put(draft.topic, len(appended), size, counts=counts)
        if level:
            self.stats.scheduled(level, size)
            self.on_scheduled(level)
        elif self.held.is_waited_for(draft.topic, draft.queue_id):
            for message in messages:
                code = tags_code(message.properties.get(Property.TAGS, ""))
                self.held.arrived(draft.topic, draft.queue_id, code)
        return appended

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


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the delay level a message asks for, 0 for none."""
    text = properties.get(Property.DELAY, "0")
    try:
        return int(text)
    except ValueError:
        raise HeaderFault(f"property DELAY is not a number: {text!r}") from None
