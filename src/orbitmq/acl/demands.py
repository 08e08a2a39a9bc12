"""Demands that a request is checked against: rights on the resources it names.

A demand parses the request as its handler does, so the checked topic is the topic that is served.
A body that the handler could not parse raises here, which refuses the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from orbitmq._native import Command, Record, decode_offset_id, loads_lenient
from orbitmq.acl.accounts import AclAccount, Need, Right
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import (
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SINK_BROKERS,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    Property,
    retry_topic,
)

__all__ = [
    "ADMIN",
    "HEARTBEAT",
    "QUEUE_LOCKS",
    "SIGNED",
    "THE_HALF_MESSAGE",
    "THE_MESSAGE_AT_OFFSET",
    "THE_MESSAGE_BY_ID",
    "UNSERVED",
    "VALUE",
    "Demand",
    "NeedsAdmin",
    "RequestContext",
    "as_group",
    "both",
    "needs_of_half",
    "publish",
    "publish_as_4_9_7",
    "read",
]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request, the account that signed it, and access to the messages it may refer to."""

    request: Command
    account: AclAccount
    message_at: Callable[[int], Record | None]
    """Returns the message at a physical offset, or None."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand on the account that signs a request."""

    text: str
    """Description for the page of rights."""
    needs: Callable[[RequestContext], Iterable[Need]] = lambda _asked: ()
    is_admin: bool = False
    is_served: bool = True


class NeedsAdmin(Exception):
    """Raised for a request that only administrators may make."""


SIGNED = Demand("any account")
ADMIN = Demand("administrator", is_admin=True)
UNSERVED = Demand("not served", is_served=False)


class _OffsetHeader(Header):
    offset: Long


class _HalfHeader(Header):
    commit_log_offset: Long


# ---- Resources in fields


def both(*demands: Demand) -> Demand:
    """Combine several demands, which must all be met."""

    def needs(asked: RequestContext) -> Iterator[Need]:
        for demand in demands:
            yield from demand.needs(asked)

    return Demand(", ".join(demand.text for demand in demands), needs)


def read(field: str = "topic") -> Demand:
    """Demand SUB on the topic in a field."""

    def needs(asked: RequestContext) -> Iterator[Need]:
        yield asked.request.get_ext(field) or "", Right.SUB

    return Demand(f"SUB on the topic in `{field}`", needs)


def as_group(field: str, *, is_optional: bool = False) -> Demand:
    """Demand SUB on the group in a field."""

    def needs(asked: RequestContext) -> Iterator[Need]:
        group = asked.request.get_ext(field)
        if group is not None or not is_optional:
            yield retry_topic(group or ""), Right.SUB

    return Demand(f"SUB on the group in `{field}`{', if given' if is_optional else ''}", needs)


def publish(field: str) -> Demand:
    """Demand PUB on the topic in a field; a retry topic belongs to its group."""

    def needs(asked: RequestContext) -> Iterator[Need]:
        yield _publishing(asked.request.get_ext(field) or "")

    return Demand(f"PUB on the topic in `{field}`; for a retry topic SUB on its group", needs)


def publish_as_4_9_7(topic_field: str, group_field: str) -> Demand:
    """Demand the same as 4.9.7, which checks another field than the retry topic it writes to."""

    def needs(asked: RequestContext) -> Iterator[Need]:
        topic = asked.request.get_ext(topic_field) or ""
        if not topic.startswith(RETRY_PREFIX):
            yield topic, Right.PUB
        elif (group := asked.request.get_ext(group_field)) is not None:
            yield retry_topic(group), Right.SUB

    text = f"PUB on the topic in `{topic_field}`; for a retry topic SUB on the group in "
    return Demand(text + f"`{group_field}`", needs)


def _publishing(topic: str) -> Need:
    return topic, Right.SUB if topic.startswith(RETRY_PREFIX) else Right.PUB


# ---- Resources in bodies


def _of_heartbeat(asked: RequestContext) -> Iterator[Need]:
    body = loads_lenient(asked.request.body)
    for consumer in body.get("consumerDataSet") or ():
        yield retry_topic(consumer.get("groupName") or ""), Right.SUB
        for subscription in consumer.get("subscriptionDataSet") or ():
            yield subscription.get("topic") or "", Right.SUB


def _of_locks(asked: RequestContext) -> Iterator[Need]:
    body = loads_lenient(asked.request.body)
    yield retry_topic(body.get("consumerGroup") or ""), Right.SUB
    for queue in body.get("mqSet") or ():
        yield queue.get("topic") or "", Right.SUB


HEARTBEAT = Demand("SUB on every consumer group and topic in the body", _of_heartbeat)
QUEUE_LOCKS = Demand("SUB on the group and on every queue's topic in the body", _of_locks)


# ---- Resources of messages that a request refers to


def _topic_of(message: Record) -> str:
    """Return the topic of a message; for a delayed message the topic it will be delivered to."""
    if message.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        # The broker itself wrote the property when it delayed the message.
        return message.get_property(Property.REAL_TOPIC) or message.topic
    return message.topic


def _of_message_at_offset(asked: RequestContext) -> Iterator[Need]:
    message = asked.message_at(_OffsetHeader.decode(asked.request).offset)
    if message is not None:
        yield _topic_of(message), Right.SUB


def _of_message_by_id(asked: RequestContext) -> Iterator[Need]:
    _host, offset = decode_offset_id(asked.request.get_ext("msgId") or "")
    message = asked.message_at(offset)
    if message is not None:
        yield _topic_of(message), Right.SUB


def _of_half_message(asked: RequestContext) -> Iterator[Need]:
    half = asked.message_at(_HalfHeader.decode(asked.request).commit_log_offset)
    if half is not None and half.topic == TRANS_HALF_TOPIC:
        yield from needs_of_half(half, asked.account)


def needs_of_half(half: Record, account: AclAccount) -> Iterator[Need]:
    """Yield the rights needed to receive the check of a half message, or to decide about it.

    The sender's account needs only the right to publish. Other accounts would see its body.
    """
    topic = half.get_property(Property.REAL_TOPIC) or ""
    yield _publishing(topic)
    if half.get_property(Property.ACCOUNT) not in (None, account.tag):
        yield topic, Right.SUB


THE_MESSAGE_AT_OFFSET = Demand("SUB on the topic of the message at `offset`", _of_message_at_offset)
THE_MESSAGE_BY_ID = Demand("SUB on the topic of the message `msgId`", _of_message_by_id)
THE_HALF_MESSAGE = Demand(
    "PUB on the topic of the half message; SUB, too, if another account has sent it",
    _of_half_message,
)


# ---- Key-value table of the nameserver


def _of_value(asked: RequestContext) -> Iterator[Need]:
    if asked.request.get_ext("namespace") != SINK_BROKERS:
        raise NeedsAdmin
    _sender, _, topic = (asked.request.get_ext("key") or "").partition("@")
    yield _publishing(topic)


VALUE = Demand(
    f"administrator; in the namespace {SINK_BROKERS} PUB on the topic in `key`", _of_value
)
