"""``orbitmq consume``: messages printed, by a member of a group that commits what it printed."""

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
@click.option("-g", "--group", required=True, help="The group to be a member of.")
@click.option("--tags", help="Only these: 'a || b'.")
@click.option("--sql", help="Only those that this SQL92 expression selects.")
@click.option(
    "--from",
    "moment",
    type=MOMENT,
    help="Where a new group begins: latest is the end of all queues. Without it, as RocketMQ's "
    "groups do: at the end, but at the first message of a queue that is young enough to have it in "
    "memory.",
)
@click.option("--limit", type=click.IntRange(1), help="End after so many.")
@click.option("--idle", "idle_s", type=float, help="End when nothing has come for so many seconds.")
@click.option("--no-commit", is_flag=True, help="Let the next member have them again.")
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
    """Print messages of TOPICS until Ctrl-C, as a member of a group that shares their queues.

    What was printed is committed, so the group goes on behind it; messages that Ctrl-C keeps from
    being printed come again, with those that were fetched together with them. `tail` looks without
    a group.

    --from counts only for a group that has committed nothing in the topic; another goes on where it
    is, and `orbitmq offset reset` moves it. A time is that of the message stored nearest to it.

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
