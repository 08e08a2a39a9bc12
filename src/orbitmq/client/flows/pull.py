"""One pull: the request, and what its answer means."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq._native import ReceivedMessage, decode_messages
from orbitmq.client.damaged_records import decode_whole
from orbitmq.client.flows.refusals import refusal
from orbitmq.client.flows.routes import fetch_route
from orbitmq.client.state.routes import MASTER_ID, RouteTable
from orbitmq.client.wishes import Call, Flow
from orbitmq.errors import ClientError
from orbitmq.message import PullStatus
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import PullFlag

__all__ = ["BULK_BYTES", "LITE_PULL", "PullRequest", "Pulled", "messages_of", "pull"]

LITE_PULL = 16
"""The sysFlag bit by which lite pulls are told from others; brokers do nothing with it."""

BULK_BYTES = 1 << 20
"""How much an OrbitMQ broker may send at once. Apache's know no such field and keep to their own
limit, 32 messages unless set up otherwise."""

_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(slots=True)
class PullRequest:
    """What to ask for."""

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
    """Another version of the subscription than its own."""


@dataclass(slots=True)
class Pulled:
    """Answer of a broker to a pull: `body` has the messages found; go on at `next_offset`."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    broker_id: int
    """Id of the broker that the next pull should go to, as this broker suggests."""
    body: bytes


def pull(routes: RouteTable, request: PullRequest) -> Flow[Pulled]:
    """Pull once; refusals are raised."""
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
        # A hole in the queue, where a file is missing: the broker names the end of the hole.
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
    """Return the messages of a pull that the subscription wants, without damaged ones."""
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
