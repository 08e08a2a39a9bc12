"""Messages as rows and as facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from orbitmq.cli.printing import Column, Facts

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage

__all__ = ["MESSAGE_COLUMNS", "body_text", "message_facts", "message_row", "message_rows"]

MESSAGE_COLUMNS: Final = [
    Column("messageId", "Message"),
    Column("topic", "Topic"),
    Column("broker", "Broker"),
    Column("queue", "Queue", "number"),
    Column("offset", "Offset", "number"),
    Column("storedMs", "Stored", "time"),
    Column("tags", "Tag"),
    Column("keys", "Keys"),
    Column("body", "Body"),
]


def body_text(body: bytes) -> str:
    """Return a body as text; bytes that are none show as the replacement character."""
    return body.decode("utf-8", "replace")


def message_row(message: ReceivedMessage, *, with_body: bool = True) -> dict[str, Any]:
    """Return a message under the keys of `MESSAGE_COLUMNS`."""
    return {
        "messageId": message.message_id,
        "topic": message.stored_topic,
        "broker": message.queue.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "storedMs": message.store_timestamp,
        "tags": message.tags,
        "keys": list(message.keys),
        "body": body_text(message.body) if with_body else None,
    }


def message_rows(
    messages: Iterable[ReceivedMessage], *, with_body: bool = True
) -> tuple[list[Column], list[dict[str, Any]]]:
    """Return columns and rows of messages."""
    columns = MESSAGE_COLUMNS if with_body else MESSAGE_COLUMNS[:-1]
    return list(columns), [message_row(one, with_body=with_body) for one in messages]


def message_facts(message: ReceivedMessage) -> Facts:
    """Return all there is to know of a message."""
    return Facts(
        {
            **message_row(message),
            "offsetId": message.offset_id,
            "bornMs": message.born_timestamp,
            "bornHost": "{}:{}".format(*message.born_host),
            "storeHost": "{}:{}".format(*message.store_host),
            "physicalOffset": message.physical_offset,
            "size": message.stored_size,
            "sysFlag": message.sys_flag,
            "flag": message.flag,
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
            "properties": message.properties,
        }
    )
