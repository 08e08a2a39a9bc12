"""Messages and what becomes of them when they are sent.

A property's name or value may not be empty nor hold the character 2, which separates properties
on the wire; a name may not hold the character 1 either, which ends it. Properties that RocketMQ
uses itself are set through the arguments that stand for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from orbitmq.errors import BadMessage
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.names import Property

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "RESERVED_PROPERTIES",
    "Message",
    "MessageQueue",
    "PullStatus",
    "SendResult",
    "SendStatus",
]

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
"""Names of properties that are RocketMQ's own."""


class Message:
    """A message to send.

    >>> message = Message("orders", b"...", tags="created", keys=["42"], properties={"shop": "7"})
    >>> message.properties["shop"]
    '7'

    `delay_level` 1 to 18 has the broker hold it back (1 s, 5 s, 10 s, 30 s, 1 min … 2 h unless the
    broker is set up otherwise). `wait_store_ok` False does not wait for flush and replication.
    Sending does not change a message, so one can be sent again.
    """

    __slots__ = (
        "body",
        "delay_level",
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
        self.delay_level = delay_level
        self.flag = flag
        self.wait_store_ok = wait_store_ok
        self.system: dict[str, str] | None = None
        """Properties of RocketMQ's own, for the parts of the client that speak by them."""

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} bytes to {self.topic!r}>"

    def all_properties(self) -> dict[str, str]:
        """Return the properties as consumers will see them, those of RocketMQ included.

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
        properties[Property.WAIT] = "true" if self.wait_store_ok else "false"
        if self.system is not None:
            properties.update(self.system)
        return properties


class PullStatus(Enum):
    """Result of a pull, in RocketMQ's four words.

    ::

        while (result := consumer.pull(queue, offset)).status is not PullStatus.NO_NEW_MESSAGE:
            offset = result.next_offset
    """

    FOUND = "FOUND"
    """Messages that are wanted."""
    NO_NEW_MESSAGE = "NO_NEW_MESSAGE"
    """The end of the queue: there is nothing at the offset yet."""
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """Messages of which none is wanted; behind them, at the next offset, there may be one."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The queue does not have the offset; the next offset is the nearest that it has."""


class SendStatus(Enum):
    """How safe a message is that a broker has taken.

    ::

        if producer.send(message).status is not SendStatus.SEND_OK:
            log.warning("taken, but not yet on disk or with a slave")
    """

    SEND_OK = 0
    """As safe as the broker is set up to make it."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored, but it was not on disk in time."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored, but no slave had it in time."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored, but there is no slave to copy it to."""


@dataclass(slots=True)
class SendResult:
    """What a broker has done with a message, or with the messages of a batch.

    >>> result = SendResult(SendStatus.SEND_OK, "7F…", "7F…", MessageQueue("orders", "a", 2), 41)
    >>> result.queue.queue_id, result.queue_offset
    (2, 41)
    """

    status: SendStatus
    message_id: str
    """The id its producer gave it; of a batch all, with commas between them."""
    offset_id: str
    """The id that says where the broker has stored it; of a batch likewise."""
    queue: MessageQueue
    queue_offset: int
    """Its place in the queue; of a batch the place of the first."""
    transaction_id: str | None = None
    region: str = "DefaultRegion"
    trace_on: bool = field(default=True)
