"""``orbitmq consume``: prints messages as a member of a group, and commits printed messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import click

from orbitmq.cli.core.messages import FORMAT, LineFormat, print_message, until_signal
from orbitmq.cli.core.options import Verb, reaches
from orbitmq.cli.core.values import MOMENT, topic_argument

if TYPE_CHECKING:
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["consume"]


@click.command(cls=Verb, short_help="Print messages as a member of a group")
@topic_argument("topics", nargs=-1, required=True)
@click.option("-g", "--group", required=True, help="Name of the consumer group to join.")
@click.option("--tags", help="Consume only messages with one of these tags, such as 'a || b'.")
@click.option("--sql", help="Consume only messages that this SQL92 expression selects.")
@click.option(
    "--from",
    "moment",
    type=MOMENT,
    help="Start of a new group: earliest, latest (the end of all queues) or a time. By default, as "
    "in RocketMQ, the end of a queue, or its first message if the queue is so young that this "
    "message is still in memory.",
)
@click.option("--limit", type=click.IntRange(1), help="End after this number of messages.")
@click.option(
    "--idle", "idle_s", type=float, help="End after this number of seconds without a message."
)
@click.option(
    "--no-commit",
    is_flag=True,
    help="Do not commit offsets: the group receives the messages again.",
)
@FORMAT
@reaches
def consume(
    place: ClusterOptions,
    topics: tuple[str, ...],
    group: str,
    tags: str | None,
    sql: str | None,
    moment: int | str | None,
    limit: int | None,
    idle_s: float | None,
    no_commit: bool,
    line_format: LineFormat,
) -> None:
    """Print messages of TOPICS until Ctrl-C, as a member of a consumer group.

    The offsets of printed messages are committed, so the group continues behind them. Messages that
    Ctrl-C interrupts are received again, with those fetched together with them. `orbitmq tail`
    prints messages without a group.

    --from applies only to a group without committed offsets in the topic. Other groups continue at
    their offsets; `orbitmq offset reset` changes these. A time selects the message stored nearest
    to it.

    \b
    Examples:
      orbitmq consume orders --group looking
      orbitmq consume orders --group looking --from earliest --limit 10 --format json
    """
    from datetime import UTC, datetime

    from orbitmq.client.consumer.lite import Consumer

    begin: Literal["earliest", "latest", "last"] | datetime = "last"
    if isinstance(moment, int):
        begin = datetime.fromtimestamp(moment / 1000, UTC)
    elif moment is not None:
        begin = "earliest" if moment == "earliest" else "latest"
    consumer = Consumer(
        place.settings(),
        *topics,
        group=group,
        tags=tags,
        sql=sql,
        auto_commit=not no_commit,
        consume_from=begin,
    )
    printed, last = 0, time.monotonic()
    with until_signal(), consumer:
        while limit is None or printed < limit:
            left = 1000 if limit is None else limit - printed
            messages = consumer.poll(left, timeout_s=min(idle_s or 1.0, 1.0))
            for message in messages:
                print_message(message, line_format)
            printed += len(messages)
            if messages:
                last = time.monotonic()
            elif idle_s is not None and time.monotonic() - last >= idle_s:
                break
        if not no_commit:
            consumer.commit()
