"""``orbitmq offset``: shows and changes the committed offsets of consumer groups."""

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


@click.group(short_help="Show and change the offsets of consumer groups")
def offset() -> None:
    """Show, reset, skip, set and clone the offsets of consumer groups."""


def _rows(offsets: dict[MessageQueue, int]) -> list[dict[str, Any]]:
    return [
        {"broker": queue.broker_name, "queue": queue.queue_id, "offset": number}
        for queue, number in sorted(offsets.items())
    ]


@offset.command("get", cls=Verb, short_help="Show the committed offsets of a group")
@group_argument()
@topic_argument()
@admin_command(watched=True)
def get_command(admin: Admin, group: str, topic: str) -> OutputTable:
    """Show the committed offsets of a consumer group in a topic.

    \b
    Example:
      orbitmq offset get billing orders
    """
    check_group(admin, group)
    rows = _rows(admin.committed_offsets(group, topic))
    if not rows:
        raise NothingFound(f"group {group} has committed nothing in {topic}")
    return OutputTable(COLUMNS, rows)


@offset.command("at", cls=Verb, short_help="Show the offsets at a time")
@topic_argument()
@click.argument("moment", type=MOMENT)
@admin_command()
def at_command(admin: Admin, topic: str, moment: Any) -> OutputTable:
    """Show for each queue the offset of the first message stored at a time or later.

    \b
    Examples:
      orbitmq offset at orders 30m
      orbitmq offset at orders 2026-01-31T12:00:00
    """
    return OutputTable(COLUMNS, _rows(admin.offsets_at(topic, moment)))


@offset.command("reset", cls=Verb, short_help="Move the offsets of a group to a time")
@group_argument()
@topic_argument()
@click.option(
    "--to",
    "moment",
    type=MOMENT,
    required=True,
    help="Time of the new offsets, such as earliest, latest, now, 2h, 2026-01-31T12:00:00.",
)
@click.option(
    "--only-back",
    is_flag=True,
    help="Do not move offsets forward: skip queues where the group is behind this time.",
)
@admin_command()
def reset_command(
    admin: Admin, group: str, topic: str, moment: Any, only_back: bool
) -> OutputTable:
    """Move the offsets of a consumer group to a time, backward or forward.

    Connected members are notified and continue at the new offsets after about ten seconds. A time
    is earliest, latest, now, a date (2026-01-31T12:00:00), epoch milliseconds, or an age: 30m, 2h,
    7d.

    \b
    Examples:
      orbitmq offset reset billing orders --to 2h
      orbitmq offset reset billing orders --to earliest
    """
    check_group(admin, group)
    return OutputTable(
        COLUMNS, _rows(admin.reset_offsets(group, topic, moment, only_back=only_back))
    )


@offset.command("skip", cls=Verb, short_help="Move the offsets of a group to the end")
@group_argument()
@topic_argument()
@admin_command()
def skip_command(admin: Admin, group: str, topic: str) -> OutputTable:
    """Skip all messages of a topic that a consumer group has not consumed yet.

    \b
    Example:
      orbitmq offset skip billing orders
    """
    check_group(admin, group)
    return OutputTable(COLUMNS, _rows(admin.reset_offsets(group, topic, "latest")))


@offset.command("set", cls=Verb, short_help="Set a group's offset in one queue")
@group_argument()
@topic_argument()
@click.option("-b", "--broker", required=True, metavar="NAME", help="Name of the queue's broker.")
@click.option("-q", "--queue", "queue_id", type=int, required=True, help="Id of the queue.")
@click.argument("number", type=click.IntRange(0), metavar="OFFSET")
@admin_command()
def set_command(
    admin: Admin, group: str, topic: str, broker: str, queue_id: int, number: int
) -> Done:
    """Commit an offset of a consumer group in one queue; first stop all members of the group.

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


@offset.command("clone", cls=Verb, short_help="Copy a group's committed offsets to another group")
@group_argument("source")
@group_argument("target")
@topic_argument()
@click.option(
    "--offline",
    is_flag=True,
    help="Copy the offsets even if the source group does not subscribe to the topic now.",
)
@admin_command()
def clone_command(admin: Admin, source: str, target: str, topic: str, offline: bool) -> Done:
    """Copy the committed offsets of group SOURCE in a topic to group TARGET.

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
