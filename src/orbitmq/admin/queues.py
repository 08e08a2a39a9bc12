"""Contents of a queue: its messages, and the entries of its consume queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orbitmq._native import Record, decode_records
from orbitmq.admin.requests import ask, read
from orbitmq.admin.topics import address_of, topic_route
from orbitmq.client.consumer.pull_flow import decode_whole
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.rpc.flow import Flow

__all__ = ["QueueEntries", "QueueEntry", "QueueRead", "queue_entries", "read_queue"]

TOOLS_GROUP = "TOOLS_CONSUMER"
"""Consumer group that exists on every broker, for tools that only read."""
PULL_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class QueueRead:
    """Messages of a queue, and the offset from which to continue.

    With a filter, `records` may be empty although later messages match.
    """

    records: tuple[Record, ...]
    next_offset: int
    min_offset: int
    max_offset: int

    @property
    def is_end(self) -> bool:
        """True if the queue has no messages after these."""
        return self.next_offset >= self.max_offset


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of a consume queue: position of a message in the log, and the hash of its tag."""

    offset: int
    physical_offset: int
    size: int
    tags_code: int


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """Some entries of a consume queue, and the queue's ends."""

    min_offset: int
    max_offset: int
    entries: tuple[QueueEntry, ...]
    subscription: str | None = None
    """Subscription of the requested group, if that group is connected."""


def read_queue(
    nameservers: Sequence[str],
    queue: MessageQueue,
    offset: int,
    max_messages: int = 32,
    *,
    tags: str = "*",
    group: str = TOOLS_GROUP,
) -> Flow[QueueRead]:
    """Return messages of a queue from an offset on; no group's offsets are touched."""
    route = yield from topic_route(nameservers, queue.topic)
    ext = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(max_messages),
        "sysFlag": str(PullFlag.SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": tags,
        "subVersion": "0",
        "expressionType": "TAG",
    }
    response = yield from ask(
        address_of(route, queue.broker_name),
        RequestCode.PULL_MESSAGE,
        ext,
        also=(
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ),
        timeout_ms=PULL_TIMEOUT_MS,
    )
    records = []
    if response.code == ResponseCode.SUCCESS:
        records = decode_whole(response.body, decode_records, queue)
    # Brokers only compare hashes of tags; the tags themselves are compared here.
    wanted = None if tags.strip() == "*" else {tag.strip() for tag in tags.split("||")}
    if wanted is not None:
        records = [record for record in records if record.tags in wanted]
    answer = response.ext or {}
    return QueueRead(
        tuple(records),
        int(answer.get("nextBeginOffset", offset)),
        int(answer.get("minOffset", 0)),
        int(answer.get("maxOffset", 0)),
    )


def queue_entries(
    nameservers: Sequence[str],
    queue: MessageQueue,
    index: int,
    count: int,
    *,
    group: str | None = None,
    address: str | None = None,
) -> Flow[QueueEntries]:
    """Return entries of a consume queue as they are on the broker's disk."""
    if address is None:
        route = yield from topic_route(nameservers, queue.topic)
        address = address_of(route, queue.broker_name)
    ext = {
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "index": str(index),
        "count": str(count),
    }
    if group is not None:
        ext["consumerGroup"] = group
    value = read((yield from ask(address, RequestCode.QUERY_CONSUME_QUEUE, ext)))
    subscription = value.get("subscriptionData") or {}
    return QueueEntries(
        int(value.get("minQueueIndex") or 0),
        int(value.get("maxQueueIndex") or 0),
        tuple(
            QueueEntry(
                index + number,
                int(one["physicOffset"]),
                int(one["physicSize"]),
                int(one["tagsCode"]),
            )
            for number, one in enumerate(value.get("queueData") or ())
        ),
        subscription.get("subString"),
    )
