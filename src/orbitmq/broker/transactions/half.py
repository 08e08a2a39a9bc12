"""Messages of a transaction: half, final, op and discarded messages.

::

    producer ──SEND──► half message, in queue 0 of the half topic, which has no consumers
             ──END───► commit:   the final message, in its own queue, and an op message
                       rollback: an op message
    broker   ──CHECK─► if neither arrives: the half message again, at the end of its queue, with one
                       more check counted; after the last check a copy in the discard topic

An op message marks a half message as decided: its body is the queue offset of the half message in
decimal. All of this is in the log, so a restarted broker can restore its state; see
`TransactionCheck`.
"""

from __future__ import annotations

from orbitmq._native import Appended, NewMessage, Record, encode_record
from orbitmq.broker.write.writer import copy_of, real_queue_id
from orbitmq.protocol.flags import MessageFlag
from orbitmq.protocol.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    Property,
)

__all__ = [
    "OP_TAG",
    "again",
    "becomes_half",
    "check_body",
    "discarded",
    "final",
    "is_transactional",
    "op",
]

OP_TAG = "d"
HALF_QUEUE = 0


def is_transactional(message: NewMessage) -> bool:
    """Return True if the producer has sent the message as the half message of a transaction."""
    return (message.get_property(Property.TRANSACTION) or "").lower() == "true"


def becomes_half(message: NewMessage) -> None:
    """Redirect a message to the half topic; its own topic and queue become properties."""
    message.set_property(Property.REAL_TOPIC, message.topic)
    message.set_property(Property.REAL_QUEUE_ID, str(message.queue_id))
    message.sys_flag &= ~MessageFlag.TRANSACTION_MASK
    message.topic, message.queue_id = TRANS_HALF_TOPIC, HALF_QUEUE


def final(half: Record) -> NewMessage:
    """Return the final message of a half message that is committed."""
    message = copy_of(
        half,
        half.get_property(Property.REAL_TOPIC) or "",
        real_queue_id(half),
        sys_flag=half.sys_flag & ~MessageFlag.TRANSACTION_MASK | MessageFlag.TRANSACTION_COMMIT,
        prepared_transaction_offset=half.physical_offset,
    )
    if message.get_property(Property.DELAY) not in (None, "0"):
        # The message waits in the schedule topic first, where it must not look like a half message.
        message.set_property(Property.TRANSACTION, None)
    for name in Property.OF_BROKERS:
        message.set_property(name, None)
    return message


def op(half: Record, host: tuple[str, int], now_ms: int) -> NewMessage:
    """Return the op message that marks a half message as decided."""
    return NewMessage(
        TRANS_OP_HALF_TOPIC,
        str(half.queue_offset).encode(),
        queue_id=half.queue_id,
        properties={Property.TAGS: OP_TAG, Property.WAIT: "true"},
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
    )


def again(half: Record, name: str, value: str) -> NewMessage:
    """Return a copy of a half message for the end of its queue, with one property changed."""
    message = copy_of(half, TRANS_HALF_TOPIC, HALF_QUEUE, flag=0, reconsume_times=0)
    message.set_property(name, value)
    return message


def discarded(half: Record) -> NewMessage:
    """Return a copy of an undecided half message for the discard topic."""
    return copy_of(half, TRANS_CHECK_MAX_TIME_TOPIC, 0, flag=0, reconsume_times=0)


def check_body(half: Record, copy: NewMessage, appended: Appended, now_ms: int) -> bytes:
    """Return the record for a check request: the copy, with its own topic and queue."""
    return encode_record(
        half.get_property(Property.REAL_TOPIC) or "",
        half.stored_body,
        queue_id=real_queue_id(half),
        queue_offset=appended.queue_offset,
        physical_offset=appended.physical_offset,
        flag=half.flag,
        sys_flag=half.sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
        store_timestamp=now_ms,
        store_host=half.store_host,
        reconsume_times=half.reconsume_times,
        properties=copy.properties_text,
    )
