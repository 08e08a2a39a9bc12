"""Batches: those that a program makes itself, and those that are collected automatically.

A batch is one request: its messages go to one queue, in their order, and are stored all or none. So
they need the same topic, and none may be delayed or a retry.

With a *linger*, messages that are sent shortly after each other are put into one batch
automatically. `LingeringBatches` collects them and returns batches that are full.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from orbitmq._native import BatchBody
from orbitmq.client.producer.message import (
    ID_BYTES,
    OutgoingMessage,
    SendPolicy,
    check_body,
    check_topic,
    more_properties,
    present_ids,
    request_fields,
)
from orbitmq.errors import BadMessage
from orbitmq.message import Message, MessageQueue, SendResult
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.rpc.namespace import wrap

__all__ = [
    "Gathered",
    "LingeringBatches",
    "can_linger",
    "close_batch",
    "make_batch",
    "make_part",
    "results_of_each",
]

W = TypeVar("W")
OVERHEAD_BYTES = 22 + ID_BYTES
"""Bytes that a batch adds to each message's body and properties: lengths and an id."""


def make_part(message: Message, policy: SendPolicy) -> str:
    """Check a message and return its properties for a batch, except the id."""
    if message.is_delayed:
        raise BadMessage("delayed messages cannot be batched; send them one by one")
    if not 0 < len(message.body) <= policy.max_message_bytes:
        check_body(message.body, policy)
    return more_properties(message)


def make_batch(
    messages: Sequence[Message], group: str, policy: SendPolicy, namespace: str | None = None
) -> OutgoingMessage:
    """Check messages and make one batch of them."""
    if not messages:
        raise BadMessage("a batch needs at least one message")
    first = messages[0]
    gathered: Gathered[None] = Gathered(first, None)
    for message in messages:
        if message.topic != first.topic:
            raise BadMessage(
                f"a batch goes to one topic, this one to {first.topic!r} and {message.topic!r}"
            )
        if message.wait_store_ok != first.wait_store_ok:
            raise BadMessage("wait_store_ok must be the same for all messages of a batch")
        gathered.add(message, make_part(message, policy), None)
    return close_batch(gathered, group, policy, namespace)


def close_batch(
    gathered: Gathered[Any], group: str, policy: SendPolicy, namespace: str | None = None
) -> OutgoingMessage:
    """Make the batch request of gathered messages, which all have the topic of the first."""
    first = gathered.first
    topic = wrap(namespace, first.topic) if namespace else first.topic
    check_topic(topic)
    if topic.startswith(RETRY_PREFIX):
        raise BadMessage("messages to a retry topic cannot be batched")
    body = bytes(gathered.body)
    if len(body) > policy.max_message_bytes:
        raise BadMessage(
            f"the batch has {len(body)} bytes, more than max_message_bytes="
            f"{policy.max_message_bytes}; send fewer messages at once"
        )
    ext = request_fields(group, topic, policy, 0, time.time_ns() // 1_000_000, 0)
    ext["i"] = f"WAIT\1{'true' if first.wait_store_ok else 'false'}"
    if namespace:
        ext["i"] += f"\2INSTANCE_ID\1{namespace}"
    ext["m"] = "true"
    code = RequestCode.SEND_BATCH_MESSAGE
    return OutgoingMessage(code, topic, body, ext, gathered.body.ids, first, len(gathered.waiters))


def results_of_each(result: SendResult, count: int) -> list[SendResult]:
    """Return the result of each message of a batch."""
    ids = result.message_id.split(",")
    offset_ids = result.offset_id.split(",")
    if len(offset_ids) != count:  # the broker returned only the first id
        offset_ids = [result.offset_id] * count
    first = result.queue_offset
    status, queue, transaction_id = result.status, result.queue, result.transaction_id
    region, trace_on = result.region, result.trace_on
    return [
        SendResult(
            status,
            ids[index],
            offset_ids[index],
            queue,
            first + index,
            transaction_id,
            region,
            trace_on,
        )
        for index in range(count)
    ]


def can_linger(message: Message, policy: SendPolicy) -> bool:
    """Return True if a message may join a batch; a message to be compressed is sent alone."""
    return (
        not message.is_delayed
        and message.system is None
        and len(message.body) < policy.compress_over_bytes
    )


class Gathered(Generic[W]):
    """Messages that will be sent as one batch, and their waiters."""

    __slots__ = ("body", "first", "queue", "waiters")

    def __init__(self, first: Message, queue: MessageQueue | None) -> None:
        self.first = first
        self.queue = queue
        self.waiters: list[W] = []
        self.body = BatchBody()

    def add(self, message: Message, part: str, waiter: W) -> int:
        """Add a message and its waiter; return the number of gathered messages."""
        ids, month_ms = present_ids()
        try:
            count = self.body.add(
                ids, month_ms, message.flag, message.body, message.wait_store_ok, part
            )
        except (UnicodeEncodeError, OverflowError, TypeError) as error:
            raise BadMessage(f"a message to {message.topic} cannot be written: {error}") from None
        self.waiters.append(waiter)
        return count


class LingeringBatches(Generic[W]):
    """Messages that wait to be sent in batches, with their waiters, per topic and queue."""

    def __init__(self, max_bytes: int, max_messages: int) -> None:
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._waiting: dict[tuple[str, bool, MessageQueue | None], Gathered[W]] = {}

    def __len__(self) -> int:
        return sum(len(gathered.waiters) for gathered in self._waiting.values())

    def add(
        self, message: Message, part: str, waiter: W, queue: MessageQueue | None = None
    ) -> tuple[bool, Gathered[W] | None]:
        """Add a message; return whether it is the first of a batch, and a batch that is full.

        A full batch is removed from the waiting ones. If the new message does not fit into the
        batch, the earlier messages are returned as full, and the new one starts the next batch.
        """
        key = (message.topic, message.wait_store_ok, queue)
        gathered = self._waiting.get(key)
        full = None
        if gathered is not None:
            at_most_bytes = len(message.body) + 4 * len(part) + OVERHEAD_BYTES
            if len(gathered.body) + at_most_bytes > self._max_bytes:
                full, gathered = gathered, None
        is_first = gathered is None
        if gathered is None:
            gathered = Gathered(message, queue)
        count = gathered.add(message, part, waiter)  # a refused message changes nothing
        if count >= self._max_messages:
            self._waiting.pop(key, None)
            return False, gathered
        self._waiting[key] = gathered
        return is_first, full

    def take_all(self) -> list[Gathered[W]]:
        """Remove all waiting messages and return them as batches."""
        waiting, self._waiting = self._waiting, {}
        return list(waiting.values())
