"""Messages as table rows and as lines: the body, a summary, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from orbitmq.cli.core.printing import Column, Facts, local_time

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.admin import Admin
    from orbitmq.protocol.bodies import MessageQueue

__all__ = [
    "FORMAT",
    "MESSAGE_COLUMNS",
    "LineFormat",
    "body_text",
    "message_facts",
    "message_row",
    "message_rows",
    "messages_of_queue",
    "print_message",
    "until_signal",
]

# ---- Messages as rows and as facts

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
    """Return a body as text; bytes that are not UTF-8 become the replacement character."""
    return body.decode("utf-8", "replace")


def message_row(message: ReceivedMessage, *, with_body: bool = True) -> dict[str, Any]:
    """Return a message as a row with the keys of `MESSAGE_COLUMNS`."""
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
    """Return columns and rows for messages."""
    columns = MESSAGE_COLUMNS if with_body else MESSAGE_COLUMNS[:-1]
    return list(columns), [message_row(one, with_body=with_body) for one in messages]


def message_facts(message: ReceivedMessage) -> Facts:
    """Return all attributes of a message."""
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


# ---- Reading a range of a queue, for commands that do not consume

BATCH = 32


def messages_of_queue(
    admin: Admin, queue: MessageQueue, offset: int, end: int, *, tags: str = "*"
) -> Iterator[ReceivedMessage]:
    """Yield the messages of a queue from `offset` up to `end`, exclusive."""
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


LineFormat = Literal["body", "line", "json"]

FORMAT = click.option(
    "--format",
    "line_format",
    type=click.Choice(["body", "line", "json"]),
    default="line",
    show_default=True,
    help="Format of each message on stdout: only its body, a summary line, or a line of JSON.",
)


def print_message(message: ReceivedMessage, line_format: LineFormat) -> None:
    """Print one message."""
    if line_format == "body":
        click.echo(message.body)
    elif line_format == "json":
        row = message_row(message) | {
            "properties": message.properties,
            "reconsumeTimes": message.reconsume_times,
        }
        click.echo(json.dumps(row, ensure_ascii=False))
    else:
        queue = message.queue
        where = f"{queue.broker_name}/{queue.queue_id}@{message.queue_offset}"
        marks = " ".join(f"#{tag}" for tag in (message.tags,) if tag)
        keys = " ".join(f"[{key}]" for key in message.keys)
        words = (local_time(message.store_timestamp), where, marks, keys, body_text(message.body))
        click.echo("  ".join(word for word in words if word))


def until_signal() -> AbstractContextManager[None]:
    """End the enclosed code on Ctrl-C or SIGTERM without an error: users end the command so."""
    return suppress(KeyboardInterrupt)
