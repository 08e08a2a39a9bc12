"""Messages and the results of sending them.

A property's name or value must not be empty nor contain the character 2, which separates properties
on the wire. A name must not contain the character 1 either, which ends the name. Properties that
RocketMQ uses itself are set by arguments of `Message`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from orbitmq.errors import BadMessage
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.names import Property

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "MAX_DELAY_LEVEL",
    "RESERVED_PROPERTIES",
    "Message",
    "MessageQueue",
    "PullStatus",
    "SendResult",
    "SendStatus",
    "check_delay_level",
]

MAX_DELAY_LEVEL = 18
"""Number of levels of a broker with the default ``messageDelayLevel``."""

_TIMERS = (Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SECONDS)

RESERVED_PROPERTIES = frozenset(
    {
        *("KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG"),
        *("PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG"),
        *("CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION", "TRACE_ON", "UNIQ_KEY"),
        *("MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "INSTANCE_ID", "CORRELATION_ID"),
        *("REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE"),
        "INNER_MULTI_QUEUE_OFFSET",
    }
)
"""Names of properties that RocketMQ uses itself."""


class Message:
    """A message to send.

    >>> message = Message("orders", b"...", tags="created", keys=["42"], properties={"shop": "7"})
    >>> message.properties["shop"]
    '7'

    A broker can delay the delivery of a message in one of three ways::

        Message("reminders", b"...", delay_level=3)
        Message("reminders", b"...", delay=timedelta(minutes=90))
        Message("reminders", b"...", deliver_at=datetime(2027, 1, 1, 8, tzinfo=UTC))

    `delay_level` 1 to 18 means 1 s, 5 s, 10 s, 30 s, 1 min … 2 h, unless the broker is configured
    with other levels. `delay` is a `timedelta` or seconds, `deliver_at` a `datetime` (local time
    without a time zone) or epoch milliseconds. Both need brokers of OrbitMQ, which accept up to 40
    days (``timerMaxDelaySec``), or of RocketMQ 5; brokers of RocketMQ 4.9 deliver such a message at
    once. For a broker with more than 18 levels (``messageDelayLevel``) assign the level, as in
    ``message.delay_level = 20``.

    With `wait_store_ok` False the broker does not wait for flush and replication.
    Sending does not change a message, so it can be sent again.
    """

    __slots__ = (
        "body",
        "delay_level",
        "delay_ms",
        "deliver_at_ms",
        "flag",
        "keys",
        "properties",
        "system",
        "tags",
        "topic",
        "wait_store_ok",
    )

    def __init__(
        self,
        topic: str,
        body: Buffer,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        delay: timedelta | float | None = None,
        deliver_at: datetime | int | None = None,
        flag: int = 0,
        wait_store_ok: bool = True,
    ) -> None:
        if isinstance(body, str):
            raise BadMessage("a body is bytes, not text: encode it, such as body.encode()")
        self.topic = topic
        self.body = body if type(body) is bytes else bytes(body)
        self.tags = tags
        self.keys: tuple[str, ...] = (keys,) if isinstance(keys, str) else tuple(keys)
        self.properties: dict[str, str] = {} if properties is None else dict(properties)
        if properties and not RESERVED_PROPERTIES.isdisjoint(self.properties):
            names = ", ".join(sorted(RESERVED_PROPERTIES.intersection(self.properties)))
            raise BadMessage(f"property {names} is RocketMQ's own; choose another name")
        if delay_level:
            check_delay_level(delay_level)
        self.delay_level = delay_level
        self.delay_ms: int | None = None
        """Milliseconds by which the broker delays the delivery."""
        self.deliver_at_ms: int | None = None
        """Time of delivery in epoch milliseconds."""
        if delay is not None or deliver_at is not None:
            self._hold_back(delay, deliver_at)
        self.flag = flag
        self.wait_store_ok = wait_store_ok
        self.system: dict[str, str] | None = None
        """Properties that RocketMQ uses itself, set by other parts of the client."""

    def _hold_back(
        self, delay: timedelta | float | None, deliver_at: datetime | int | None
    ) -> None:
        """Set the time of delivery; raise `BadMessage` for contradictory values."""
        if delay is not None and deliver_at is not None:
            raise BadMessage("delay and deliver_at are two ways to say the same: give one of them")
        if self.delay_level:
            raise BadMessage("delay_level goes without delay and deliver_at: give one of them")
        by_hand = [name for name in _TIMERS if name in self.properties]
        if by_hand:
            raise BadMessage(
                f"property {by_hand[0]} says when to deliver the message, and so does an argument: "
                "leave the property out"
            )
        if delay is not None:
            self.delay_ms = _delay_ms(delay) or None
        elif deliver_at is not None:
            self.deliver_at_ms = _deliver_at_ms(deliver_at)

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} bytes to {self.topic!r}>"

    def all_properties(self) -> dict[str, str]:
        """Return the properties as consumers receive them, including those of RocketMQ.

        >>> Message("orders", b"...", tags="paid").all_properties()["TAGS"]
        'paid'
        """
        properties = dict(self.properties)
        if self.tags:
            properties[Property.TAGS] = self.tags
        if self.keys:
            properties[Property.KEYS] = " ".join(self.keys)
        if self.delay_level > 0:
            properties[Property.DELAY] = str(self.delay_level)
        properties.update(self.timers())
        properties[Property.WAIT] = "true" if self.wait_store_ok else "false"
        if self.system is not None:
            properties.update(self.system)
        return properties

    @property
    def is_delayed(self) -> bool:
        """True if the broker should delay the delivery."""
        return self.delay_level > 0 or self.delay_ms is not None or self.deliver_at_ms is not None

    def take_timers(self, other: Message) -> None:
        """Copy the time of delivery from another message. ::

        copy.take_timers(message)
        """
        self.delay_ms, self.deliver_at_ms = other.delay_ms, other.deliver_at_ms

    def timers(self) -> dict[str, str]:
        """Return the property with the time of delivery, or an empty dict for delivery at once.

        >>> Message("reminders", b"...", delay=2.5).timers()
        {'TIMER_DELAY_MS': '2500'}
        """
        if self.delay_ms is not None:
            return {Property.TIMER_DELAY_MS: str(self.delay_ms)}
        if self.deliver_at_ms is not None:
            return {Property.TIMER_DELIVER_MS: str(self.deliver_at_ms)}
        return {}


def check_delay_level(level: object, lowest: int = 0) -> None:
    """Raise `BadMessage` for an invalid level; brokers would use their highest level instead."""
    if (
        not isinstance(level, int)
        or isinstance(level, bool)
        or not lowest <= level <= MAX_DELAY_LEVEL
    ):
        raise BadMessage(
            f"delay_level is {level!r}: brokers have levels 1 (1 s) to {MAX_DELAY_LEVEL} (2 h); "
            "0 is no delay. For any other time use delay=timedelta(...) or deliver_at=..."
        )


def _delay_ms(delay: timedelta | float) -> int:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise BadMessage(f"delay is {delay!r}: it must be a timedelta, or a number of seconds")
    if not math.isfinite(seconds) or seconds < 0:
        raise BadMessage(f"delay is {delay!r}: it must not be negative, nor without an end")
    return math.ceil(seconds * 1000)


def _deliver_at_ms(deliver_at: object) -> int:
    if isinstance(deliver_at, datetime):
        at_ms = int(deliver_at.timestamp() * 1000)
    elif isinstance(deliver_at, int) and not isinstance(deliver_at, bool):
        at_ms = deliver_at
    else:
        raise BadMessage(
            f"deliver_at is {deliver_at!r}: it must be a datetime, or epoch milliseconds"
        )
    now_ms = time.time_ns() // 1_000_000
    if at_ms < now_ms:
        hint = ""
        if at_ms is deliver_at and now_ms < at_ms * 2000 < now_ms * 4:
            hint = " (seconds? It must be milliseconds)"
        raise BadMessage(
            f"deliver_at is {deliver_at!r}, which is past{hint}: to deliver a message at once, "
            "leave it out"
        )
    return at_ms


class PullStatus(Enum):
    """Result of a pull, with RocketMQ's four names.

    ::

        while (result := consumer.pull(queue, offset)).status is not PullStatus.NO_NEW_MESSAGE:
            offset = result.next_offset
    """

    FOUND = "FOUND"
    """The pull returned messages that match the filter."""
    NO_NEW_MESSAGE = "NO_NEW_MESSAGE"
    """The offset is the end of the queue: no message has arrived yet."""
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """No message that was read matches the filter; continue at the next offset."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The offset is outside of the queue; the next offset is the nearest valid one."""


class SendStatus(Enum):
    """Safety of a message that a broker has accepted.

    ::

        if producer.send(message).status is not SendStatus.SEND_OK:
            log.warning("accepted, but not yet on disk or on a slave")
    """

    SEND_OK = 0
    """Stored as safely as the broker is configured."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored, but not flushed to disk in time."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored, but not copied to a slave in time."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored, but there is no slave for a copy."""


@dataclass(slots=True)
class SendResult:
    """Result of sending a message, or a batch of messages.

    >>> result = SendResult(SendStatus.SEND_OK, "7F…", "7F…", MessageQueue("orders", "a", 2), 41)
    >>> result.queue.queue_id, result.queue_offset
    (2, 41)
    """

    status: SendStatus
    message_id: str
    """Id assigned by the producer; for a batch all ids, separated by commas."""
    offset_id: str
    """Id with the position at the broker; for a batch all ids, separated by commas."""
    queue: MessageQueue
    queue_offset: int
    """Offset in the queue; for a batch that of the first message."""
    transaction_id: str | None = None
    region: str = "DefaultRegion"
    trace_on: bool = field(default=True)
