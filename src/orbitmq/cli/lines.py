"""Messages as lines: their bodies, a line with all that matters, or JSON; until a signal comes."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Literal

import click

from orbitmq.cli.message_rows import body_text, message_row
from orbitmq.cli.printing import local_time

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage

__all__ = ["FORMAT", "LineFormat", "print_message", "until_signal"]

LineFormat = Literal["body", "line", "json"]

FORMAT = click.option(
    "--format",
    "line_format",
    type=click.Choice(["body", "line", "json"]),
    default="line",
    show_default=True,
    help="What a message is on stdout: its body, a line, or a line of JSON.",
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
    """Let Ctrl-C and SIGTERM, as `exits` has them, end what is inside: that is how one ends it."""
    return suppress(KeyboardInterrupt)
