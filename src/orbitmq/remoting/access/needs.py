"""What a request needs permission for, by its code.

4.9.7 leaves holes: batches, replies, looking at a message by its id and most administration need a
valid signature, but no permission. They are kept as they are, because tools rely on them, unless
the broker is strict (``aclStrict=true``). OrbitMQ's own requests have no such past, and are checked
always.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq._native import Command, loads_lenient
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import RETRY_PREFIX, retry_topic
from orbitmq.remoting.access.accounts import PUB, SUB

__all__ = ["ADMIN_CODES", "NAMESERVER_ADMIN_CODES", "STRICT_ADMIN_CODES", "needs"]

ADMIN_CODES = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    }
)
STRICT_ADMIN_CODES = ADMIN_CODES | {50, 51, 52, 53, 54, 222, 223, 306, 314, 316, 329}
"""Changes of accounts and offsets, cleaning, and what shows secrets."""

NAMESERVER_ADMIN_CODES = frozenset({100, 102, 103, 104, 205, 216, 318, 327})
"""Whatever changes a nameserver's tables. Brokers do not sign: their addresses must be white."""

_SENDS_V2 = frozenset(
    {RequestCode.SEND_MESSAGE_V2, RequestCode.ORBIT_SEND_ONCE, RequestCode.ORBIT_END_BATCH}
)

Need = tuple[str, int]


def needs(request: Command, *, strict: bool) -> Iterator[Need]:
    """Yield the resources a request is about, with the permission it needs for each."""
    code = request.code
    if code == RequestCode.SEND_MESSAGE:
        yield from _sending(request, "topic", "group")
    elif code in _SENDS_V2 or (code == RequestCode.SEND_BATCH_MESSAGE and strict):
        yield from _sending(request, "b", "a")
    elif code == RequestCode.SEND_REPLY_MESSAGE and strict:
        yield request.get_ext("topic") or "", PUB
    elif code == RequestCode.SEND_REPLY_MESSAGE_V2 and strict:
        yield request.get_ext("b") or "", PUB
    elif code == RequestCode.CONSUMER_SEND_MSG_BACK:
        yield from _as_group(request, "group")
    elif code == RequestCode.PULL_MESSAGE or code == RequestCode.UPDATE_CONSUMER_OFFSET:
        yield from _of_topic(request)
        yield from _as_group(request, "consumerGroup")
    elif code == RequestCode.QUERY_MESSAGE or code == RequestCode.ORBIT_BULK_READ:
        yield from _of_topic(request)
    elif code == RequestCode.HEART_BEAT:
        yield from _of_heartbeat(request)
    elif code in (RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP):
        yield from _as_group(request, "consumerGroup")


def _sending(request: Command, topic_field: str, group_field: str) -> Iterator[Need]:
    topic = request.get_ext(topic_field) or ""
    if topic.startswith(RETRY_PREFIX):
        yield from _as_group(request, group_field)
    else:
        yield topic, PUB


def _of_topic(request: Command) -> Iterator[Need]:
    yield request.get_ext("topic") or "", SUB


def _as_group(request: Command, field: str) -> Iterator[Need]:
    if (group := request.get_ext(field)) is not None:
        yield retry_topic(group), SUB


def _of_heartbeat(request: Command) -> Iterator[Need]:
    body = loads_lenient(request.body)
    for consumer in body.get("consumerDataSet") or ():
        yield retry_topic(consumer.get("groupName") or ""), SUB
        for subscription in consumer.get("subscriptionDataSet") or ():
            yield subscription.get("topic") or "", SUB
