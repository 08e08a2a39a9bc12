"""Flow of one pull: the request, and the decoding of the response."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from orbitmq._native import ReceivedMessage, decode_messages
from orbitmq.errors import ClientError, MalformedRecord
from orbitmq.message import PullStatus
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.rpc.flow import Call, Flow
from orbitmq.rpc.refusals import refusal
from orbitmq.rpc.route_table import MASTER_ID, RouteTable
from orbitmq.rpc.routes import fetch_route

__all__ = [
    "BULK_BYTES",
    "LITE_PULL",
    "PullRequest",
    "Pulled",
    "decode_whole",
    "messages_of",
    "pull",
]

# ---- Damaged records
#
# A reader leaves out damaged records, so that it can read the others::
#
#     record    total size i32 | … | queue offset i64 at 20 | physical offset i64 at 28 | …
#
# A damaged record (with a flipped bit in its body, for example) stays damaged at every read. A
# reader that rejected the whole response would pull the same response forever.

_log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_RECORD_BYTES = 91
_OFFSETS = struct.Struct(">qq")
_OFFSETS_AT = 20


def decode_whole(data: bytes, decode: Callable[[bytes], list[T]], queue: object) -> list[T]:
    """Decode consecutive records; log and leave out damaged records.

    Raises `MalformedRecord` if the length of a record is damaged, because then the start of the
    next record is unknown.
    """
    try:
        return decode(data)
    except MalformedRecord:
        pass
    found: list[T] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        record = data[at : at + size]
        if size < MIN_RECORD_BYTES or len(record) < size:
            raise MalformedRecord(
                f"the length of a record of {queue} is damaged: {size}", offset=at
            )
        try:
            found += decode(record)
        except MalformedRecord as error:
            queue_offset, physical_offset = _OFFSETS.unpack_from(record, _OFFSETS_AT)
            _log.error(
                "message of %s at offset %d, physical offset %d, is damaged and set aside: %s",
                queue,
                queue_offset,
                physical_offset,
                error,
            )
        at += size
    return found


LITE_PULL = 16
"""Bit of sysFlag that marks lite pulls; brokers ignore the bit."""

BULK_BYTES = 1 << 20
"""Maximum bytes that an OrbitMQ broker may send per pull. Apache's brokers ignore this field and
apply their own limit, by default 32 messages."""

_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(slots=True)
class PullRequest:
    """Parameters of one pull."""

    group: str
    queue: MessageQueue
    subscription: Subscription
    offset: int
    max_messages: int
    max_bytes: int = BULK_BYTES
    flags: int = 0
    commit_offset: int = 0
    suspend_ms: int = 0
    timeout_ms: float = 10_000
    broker_id: int = MASTER_ID
    sub_version: int | None = None
    """Version of the subscription to send in place of the subscription's own version."""


@dataclass(slots=True)
class Pulled:
    """Response to a pull: `body` has the messages, `next_offset` is the offset of the next pull."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    broker_id: int
    """Id of the replica that the broker suggests for the next pull."""
    body: bytes


def pull(routes: RouteTable, request: PullRequest) -> Flow[Pulled]:
    """Send one pull request; raises the broker's error if the response code means failure."""
    queue, flags = request.queue, request.flags
    address = routes.address(queue.broker_name, request.broker_id)
    if address is None:
        yield from fetch_route(routes, queue.topic)
        address = routes.address(queue.broker_name, request.broker_id)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not known to any nameserver")
    if flags & PullFlag.COMMIT_OFFSET and address != routes.master(queue.broker_name):
        flags &= ~PullFlag.COMMIT_OFFSET  # only masters take commits
    subscription = request.subscription
    version = request.sub_version
    ext = {
        "consumerGroup": request.group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(request.offset),
        "maxMsgNums": str(request.max_messages),
        "sysFlag": str(flags),
        "commitOffset": str(request.commit_offset),
        "suspendTimeoutMillis": str(request.suspend_ms),
        "subVersion": str(subscription.sub_version if version is None else version),
        "expressionType": subscription.expression_type,
        "bname": queue.broker_name,
        "orbitMaxBytes": str(request.max_bytes),
    }
    if flags & PullFlag.SUBSCRIPTION:
        ext["subscription"] = subscription.sub_string
    response = yield Call(address, RequestCode.PULL_MESSAGE, ext, None, request.timeout_ms)
    status = _STATUS.get(response.code)
    if status is None:
        raise refusal(response, address)
    answer = response.ext or {}
    next_offset = int(answer.get("nextBeginOffset", request.offset))
    if status is PullStatus.NO_NEW_MESSAGE and next_offset > request.offset:
        # A hole in the queue, where a file is missing: the broker returns the end of the hole.
        status = PullStatus.NO_MATCHED_MESSAGE
    return Pulled(
        status,
        next_offset,
        int(answer.get("minOffset", 0)),
        int(answer.get("maxOffset", 0)),
        int(answer.get("suggestWhichBrokerId", MASTER_ID)),
        response.body,
    )


def messages_of(
    pulled: Pulled,
    queue: MessageQueue,
    subscription: Subscription,
    *,
    topic: str | None = None,
    namespace: str | None = None,
    after: int | None = None,
) -> list[ReceivedMessage]:
    """Return the messages of a pull that match the subscription, without damaged messages."""
    if pulled.status is not PullStatus.FOUND:
        return []

    def decode(data: bytes) -> list[ReceivedMessage]:
        return decode_messages(
            data,
            queue,
            topic=topic,
            namespace=namespace or "",
            tags=subscription.tags or None,
            after=after,
            min_offset=pulled.min_offset,
            max_offset=pulled.max_offset,
        )

    return decode_whole(pulled.body, decode, queue)
