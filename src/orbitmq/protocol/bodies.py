"""Values of request bodies and config files, in Java's JSON form.

Each class accepts all forms that peers send (missing members take Java's defaults, numbers may be
text), refuses members of the wrong type with a `BodyFault`, and writes Java's form: members in
alphabetical order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from orbitmq._native import java_hash
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.limits import MAX_QUEUES
from orbitmq.protocol.members import INT, LONG, Members

__all__ = [
    "DataVersion",
    "MessageQueue",
    "Subscription",
    "SubscriptionGroup",
    "TopicConfig",
]

QUEUES = (0, MAX_QUEUES)


@dataclass(slots=True, frozen=True)
class DataVersion:
    """Version of a table. Equal versions mean equal tables."""

    timestamp: int = 0
    counter: int = 0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Parse it; a missing value is version zero."""
        members = Members.of({} if value is None else value)
        return cls(
            members.number("timestamp", 0, within=LONG), members.number("counter", 0, within=LONG)
        )

    def as_json(self) -> dict[str, Any]:
        """Write it."""
        return {"counter": self.counter, "timestamp": self.timestamp}

    def next(self, now_ms: int) -> DataVersion:
        """Return the version that follows a change at the given time."""
        return DataVersion(now_ms, self.counter + 1)


@dataclass(slots=True)
class TopicConfig:
    """A topic of a broker."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = Permission.READ | Permission.WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False

    @classmethod
    def from_json(cls, value: object, name: str = "") -> Self:
        """Parse it; a queue count beyond the limit is a fault."""
        members = Members.of(value)
        return cls(
            topic_name=members.text("topicName") or name,
            read_queue_nums=members.number("readQueueNums", 16, within=QUEUES),
            write_queue_nums=members.number("writeQueueNums", 16, within=QUEUES),
            perm=members.number("perm", 6),
            topic_filter_type=members.text("topicFilterType") or "SINGLE_TAG",
            topic_sys_flag=members.number("topicSysFlag", 0),
            order=members.flag("order", False),
        )

    def as_json(self) -> dict[str, Any]:
        """Write it."""
        return {
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @property
    def is_readable(self) -> bool:
        """True if messages may be pulled."""
        return bool(self.perm & Permission.READ)

    @property
    def is_writable(self) -> bool:
        """True if messages may be sent."""
        return bool(self.perm & Permission.WRITE)

    def __str__(self) -> str:
        return (
            f"TopicConfig [topicName={self.topic_name}, readQueueNums={self.read_queue_nums}, "
            f"writeQueueNums={self.write_queue_nums}, perm={Permission.text(self.perm)}, "
            f"topicFilterType={self.topic_filter_type}, topicSysFlag={self.topic_sys_flag}, "
            f"order={'true' if self.order else 'false'}]"
        )


@dataclass(slots=True)
class SubscriptionGroup:
    """A consumer group of a broker."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True

    @classmethod
    def from_json(cls, value: object, name: str = "") -> Self:
        """Parse it; a retry queue count beyond the limit is a fault."""
        members = Members.of(value)
        return cls(
            group_name=members.text("groupName") or name,
            consume_enable=members.flag("consumeEnable", True),
            consume_from_min_enable=members.flag("consumeFromMinEnable", True),
            consume_broadcast_enable=members.flag("consumeBroadcastEnable", True),
            retry_queue_nums=members.number("retryQueueNums", 1, within=(INT[0], MAX_QUEUES)),
            retry_max_times=members.number("retryMaxTimes", 16),
            broker_id=members.number("brokerId", 0, within=LONG),
            which_broker_when_consume_slowly=members.number(
                "whichBrokerWhenConsumeSlowly", 1, within=LONG
            ),
            notify_consumer_ids_changed_enable=members.flag("notifyConsumerIdsChangedEnable", True),
        )

    def as_json(self) -> dict[str, Any]:
        """Write it."""
        return {
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "groupName": self.group_name,
            "notifyConsumerIdsChangedEnable": self.notify_consumer_ids_changed_enable,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queue_nums,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_consume_slowly,
        }


@dataclass(slots=True, frozen=True)
class Subscription:
    """Subscription of a consumer group to a topic, with its filter."""

    topic: str
    sub_string: str = "*"
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    sub_version: int = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False
    filter_class_source: str | None = field(default=None, compare=False)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read it."""
        members = Members.of(value)
        return cls(
            topic=members.text("topic"),
            sub_string=members.text("subString"),
            tags=tuple(members.texts("tagsSet")),
            codes=tuple(members.numbers("codeSet")),
            sub_version=members.number("subVersion", 0, within=LONG),
            expression_type=members.text("expressionType") or "TAG",
            class_filter_mode=members.flag("classFilterMode", False),
        )

    @classmethod
    def of_tags(cls, topic: str, expression: str | None, sub_version: int = 0) -> Self:
        """Parse a tag expression: ``*``, or tags joined by ``||``."""
        text = (expression or "").strip() or "*"
        if text == "*":
            return cls(topic=topic, sub_string="*", sub_version=sub_version)
        tags = tuple(dict.fromkeys(tag.strip() for tag in text.split("||") if tag.strip()))
        if not tags:
            raise ValueError(f"{expression!r} names no tag")
        codes = tuple(dict.fromkeys(java_hash(tag) for tag in tags))
        return cls(topic=topic, sub_string=text, tags=tags, codes=codes, sub_version=sub_version)

    def as_json(self) -> dict[str, Any]:
        """Write it."""
        return {
            "classFilterMode": self.class_filter_mode,
            "codeSet": list(self.codes),
            "expressionType": self.expression_type,
            "subString": self.sub_string,
            "subVersion": self.sub_version,
            "tagsSet": list(self.tags),
            "topic": self.topic,
        }

    @property
    def is_tags(self) -> bool:
        """True for a tag expression, False for SQL92."""
        return self.expression_type == "TAG"

    @property
    def wanted_codes(self) -> tuple[int, ...] | None:
        """The tag codes that match, None if every message matches."""
        if not self.is_tags or self.sub_string == "*" or self.class_filter_mode:
            return None
        return self.codes


@dataclass(slots=True, frozen=True, order=True)
class MessageQueue:
    """A queue of a topic on a broker.

    >>> queue = MessageQueue("orders", "broker-a", 0)
    >>> queue < MessageQueue("orders", "broker-a", 1)
    True
    """

    topic: str
    broker_name: str
    queue_id: int

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Parse it, also in the form of a JSON key.

        >>> MessageQueue.from_json({"topic": "orders", "brokerName": "broker-a", "queueId": 0})
        MessageQueue(topic='orders', broker_name='broker-a', queue_id=0)
        """
        members = Members.of(value)
        return cls(members.text("topic"), members.text("brokerName"), members.number("queueId"))

    def as_json(self) -> dict[str, Any]:
        """Write it.

        >>> MessageQueue("orders", "broker-a", 0).as_json()
        {'brokerName': 'broker-a', 'queueId': 0, 'topic': 'orders'}
        """
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    def as_key(self) -> tuple[tuple[str, Any], ...]:
        """Return the form that `dumps_lenient` writes as a JSON key.

        >>> MessageQueue("orders", "broker-a", 0).as_key()[0]
        ('brokerName', 'broker-a')
        """
        return tuple(self.as_json().items())
