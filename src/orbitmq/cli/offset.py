"""``orbitmq offset``: where groups stand, and how to send them elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Done, OutputTable
from orbitmq.cli.core.values import MOMENT, check_group, group_argument, topic_argument

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.protocol.bodies import MessageQueue

__all__ = ["offset"]

COLUMNS = [
    Column("broker", "Broker"),
    Column("queue", "Queue", "number"),
    Column("offset", "Offset", "number"),
]


@click.group(short_help="Look at and move the offsets of consumer groups")
def offset() -> None:
    """Offsets of consumer groups: looked at, moved, skipped, cloned."""


def _rows(offsets: dict[MessageQueue, int]) -> list[dict[str, Any]]:
    return [
        {"broker": queue.broker_name, "queue": queue.queue_id, "offset": number}
        for queue, number in sorted(offsets.items())
    ]


@offset.command("get", cls=Verb, short_help="Show what a group has committed")
@group_argument()
@topic_argument()
@admin_command(watched=True)
def get_command(admin: Admin, group: str, topic: str) -> OutputTable:
    """Show what a group has committed in a topic.

    \b
    Example:
      orbitmq offset get billing orders
    """
    check_group(admin, group)
    rows = _rows(admin.committed_offsets(group, topic))
    if not rows:
        raise NothingFound(f"group {group} has committed nothing in {topic}")
    return OutputTable(COLUMNS, rows)


@offset.command("at", cls=Verb, short_help="Show the offsets of a moment")
@topic_argument()
@click.argument("moment", type=MOMENT)
@admin_command()
def at_command(admin: Admin, topic: str, moment: Any) -> OutputTable:
    """Show the offset of each queue's first message from a moment on.

    \b
    Examples:
      orbitmq offset at orders 30m
      orbitmq offset at orders 2026-01-31T12:00:00
    """
    return OutputTable(COLUMNS, _rows(admin.offsets_at(topic, moment)))


@offset.command("reset", cls=Verb, short_help="Let a group go on from another moment")
@group_argument()
@topic_argument()
@click.option("--to", "moment", type=MOMENT, required=True, help="The moment.")
@click.option("--only-back", is_flag=True, help="Leave queues where the group is not yet that far.")
@admin_command()
def reset_command(
    admin: Admin, group: str, topic: str, moment: Any, only_back: bool
) -> OutputTable:
    """Let a group go on from another moment, back or forth.

    Members that are connected are told and start over after about ten seconds. A moment is
    earliest, latest, now, a time (2026-01-31T12:00:00), epoch milliseconds, or 30m, 2h, 7d ago.

    \b
    Examples:
      orbitmq offset reset billing orders --to 2h
      orbitmq offset reset billing orders --to earliest
    """
    check_group(admin, group)
    return OutputTable(
        COLUMNS, _rows(admin.reset_offsets(group, topic, moment, only_back=only_back))
    )


@offset.command("skip", cls=Verb, short_help="Let a group skip all that waits")
@group_argument()
@topic_argument()
@admin_command()
def skip_command(admin: Admin, group: str, topic: str) -> OutputTable:
    """Let a group skip all messages that wait for it in a topic.

    \b
    Example:
      orbitmq offset skip billing orders
    """
    check_group(admin, group)
    return OutputTable(COLUMNS, _rows(admin.reset_offsets(group, topic, "latest")))


@offset.command("set", cls=Verb, short_help="Commit one queue's offset for a group")
@group_argument()
@topic_argument()
@click.option("-b", "--broker", required=True, metavar="NAME", help="The queue's broker.")
@click.option("-q", "--queue", "queue_id", type=int, required=True, help="The queue.")
@click.argument("number", type=click.IntRange(0), metavar="OFFSET")
@admin_command()
def set_command(
    admin: Admin, group: str, topic: str, broker: str, queue_id: int, number: int
) -> Done:
    """Commit the offset of one queue for a group, none of whose members should be running.

    \b
    Example:
      orbitmq offset set billing orders -b broker-a -q 3 1024
    """
    from orbitmq.protocol.bodies import MessageQueue

    check_group(admin, group)
    queue = MessageQueue(topic, broker, queue_id)
    if queue not in admin.topic_route(topic).subscribe_queues:
        raise NothingFound(f"topic {topic} has no queue {queue_id} on {broker} that can be read")
    admin.set_offsets(group, {queue: number})
    values = {"group": group, "topic": topic, "broker": broker, "queue": queue_id, "offset": number}
    return Done(f"{group} goes on at {number:,} in queue {queue_id} of {topic}", values)


@offset.command("clone", cls=Verb, short_help="Let one group stand where another stands")
@group_argument("source")
@group_argument("target")
@topic_argument()
@click.option(
    "--offline", is_flag=True, help="Clone it even if the source does not subscribe to it."
)
@admin_command()
def clone_command(admin: Admin, source: str, target: str, topic: str, offline: bool) -> Done:
    """Let group TARGET stand where group SOURCE stands in a topic.

    \b
    Example:
      orbitmq offset clone billing billing-next orders
    """
    check_group(admin, source)
    if not admin.committed_offsets(source, topic):
        raise NothingFound(f"group {source} has committed nothing in {topic}")
    admin.clone_offsets(source, target, topic, offline=offline)
    values = {"source": source, "target": target, "topic": topic}
    return Done(f"{target} stands where {source} stands in {topic}", values)
