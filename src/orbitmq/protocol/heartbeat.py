"""The body of a heartbeat: a client and its groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from orbitmq.errors import BodyFault
from orbitmq.protocol.bodies import Subscription
from orbitmq.protocol.members import Members
from orbitmq.protocol.names import group_name_fault

__all__ = ["ConsumerData", "Heartbeat"]

# Go sends some enumerations as numbers.
_CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")
_MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
_FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


@dataclass(slots=True, frozen=True)
class ConsumerData:
    """Membership in a consumer group."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[Subscription, ...]
    unit_mode: bool

    @classmethod
    def from_json(cls, members: Members) -> Self:
        """Read an element of ``consumerDataSet``."""
        return cls(
            group=_group(members),
            consume_type=_enum(members, "consumeType", _CONSUME_TYPES, 1),
            message_model=_enum(members, "messageModel", _MESSAGE_MODELS, 1),
            consume_from_where=_enum(members, "consumeFromWhere", _FROM_WHERE, 0),
            subscriptions=tuple(
                Subscription.from_json(one) for one in members.objects("subscriptionDataSet")
            ),
            unit_mode=members.flag("unitMode", False),
        )


@dataclass(slots=True, frozen=True)
class Heartbeat:
    """Parsed heartbeat."""

    client_id: str
    consumers: tuple[ConsumerData, ...]
    producer_groups: tuple[str, ...]

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Parse a whole body, so that a faulty one has no effect."""
        members = Members.read(body)
        return cls(
            members.text("clientID"),
            tuple(ConsumerData.from_json(one) for one in members.objects("consumerDataSet")),
            tuple(_group(one) for one in members.objects("producerDataSet")),
        )


def _group(members: Members) -> str:
    name = members.text("groupName")
    if fault := group_name_fault(name):
        raise BodyFault(f"field {members.place}.groupName {fault}")
    return name


def _enum(members: Members, name: str, names: tuple[str, ...], default: int) -> str:
    value = members.values.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else names[default]
    return members.text(name) or names[default]
