"""Reading queues from here to there, by commands that only look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.admin import Admin
    from orbitmq.protocol.bodies import MessageQueue

__all__ = ["messages_of_queue"]

BATCH = 32


def messages_of_queue(
    admin: Admin, queue: MessageQueue, offset: int, end: int, *, tags: str = "*"
) -> Iterator[ReceivedMessage]:
    """Return the messages of a queue from an offset up to before another."""
    from orbitmq._native import decode_messages

    while offset < end:
        found = admin.read_queue(queue, offset, BATCH, tags=tags)
        for record in found.records:
            if record.queue_offset >= end:
                return
            (message,) = decode_messages(
                record.encoded, queue, namespace=admin.settings.namespace or ""
            )
            yield message
        if found.next_offset <= offset:
            return
        offset = found.next_offset
