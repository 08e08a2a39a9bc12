"""``orbitmq tail``: new messages of a topic, without effect on consumer groups.

Queues are read one after the other, without a group and without registering as a consumer. So no
offset is committed, and no consumer loses a queue.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.messages import (
    FORMAT,
    LineFormat,
    messages_of_queue,
    print_message,
    until_signal,
)
from orbitmq.cli.core.options import Verb, reaches
from orbitmq.cli.core.values import MOMENT, topic_argument

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.core.options import ClusterOptions
    from orbitmq.protocol.bodies import MessageQueue

__all__ = ["tail"]

PAUSE_S = 0.25


@click.command(cls=Verb, short_help="Print new messages of a topic, without a group")
@topic_argument()
@click.option(
    "--tags",
    default="*",
    show_default=True,
    help="Print only messages with one of these tags, such as 'a || b'.",
)
@click.option(
    "--from",
    "moment",
    type=MOMENT,
    default="latest",
    help="Start: earliest, latest, a time, or an age such as 10m. [default: latest]",
)
@click.option("--limit", type=click.IntRange(1), help="End after this number of messages.")
@click.option("--no-follow", is_flag=True, help="End after the last stored message.")
@FORMAT
@reaches
def tail(
    place: ClusterOptions,
    topic: str,
    tags: str,
    moment: int | str,
    limit: int | None,
    no_follow: bool,
    line_format: LineFormat,
) -> None:
    """Print messages of a topic as they arrive, until Ctrl-C; no offset is committed.

    \b
    Examples:
      orbitmq tail orders
      orbitmq tail orders --from 10m --tags 'created || paid'
      orbitmq tail orders --from earliest --no-follow --format json
    """
    with place.admin() as admin, until_signal():
        _follow(admin, topic, tags, moment, limit, not no_follow, line_format)


def _follow(
    admin: Admin,
    topic: str,
    tags: str,
    moment: int | str,
    limit: int | None,
    follow: bool,
    line_format: LineFormat,
) -> None:
    offsets = _begin(admin, topic, moment)
    printed = 0
    while True:
        found = 0
        for queue, ends in admin.topic_ends(topic).items():
            # A new queue is read from its first message.
            start = max(offsets.get(queue, 0), ends.min_offset)
            for message in messages_of_queue(admin, queue, start, ends.max_offset, tags=tags):
                print_message(message, line_format)
                found += 1
                printed += 1
                if printed == limit:
                    return
            offsets[queue] = ends.max_offset
        if not found:
            if not follow:
                return
            time.sleep(PAUSE_S)


def _begin(admin: Admin, topic: str, moment: int | str) -> dict[MessageQueue, int]:
    if moment == "earliest" or moment == "latest" or isinstance(moment, int):
        offsets = admin.offsets_at(topic, moment)  # type: ignore[arg-type]
        if not offsets:
            raise NothingFound(f"topic {topic} has no queue that may be read")
        return offsets
    raise AssertionError(moment)
