"""Verbs that show topics: names, routes, settings, groups, and contents of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, OutputTable
from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.values import topic_argument

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin

__all__ = ["VERBS"]

QUEUE_COLUMNS: Final = [
    Column("broker", "Broker"),
    Column("queue", "Queue", "number"),
    Column("minOffset", "Min offset", "number"),
    Column("maxOffset", "Max offset", "number"),
    Column("messages", "Messages", "number"),
    Column("lastUpdateMs", "Last update", "time"),
]


@click.command("list", cls=Verb, short_help="List topics")
@click.option("-c", "--cluster", metavar="NAME", help="List only topics of this cluster.")
@click.option(
    "--with-groups", is_flag=True, help="Also show the clusters and consumer groups of each topic."
)
@click.option(
    "--all",
    "with_internal",
    is_flag=True,
    help="Also list retry topics, dead letter topics and RocketMQ's own topics.",
)
@admin_command()
def list_command(
    admin: Admin, cluster: str | None, with_groups: bool, with_internal: bool
) -> OutputTable:
    """List topics; retry topics, dead letter topics and RocketMQ's own only with --all.

    \b
    Examples:
      orbitmq topic list
      orbitmq topic list --with-groups -o json
    """
    names = admin.topic_names(cluster)
    if not with_internal:
        info = admin.cluster_info()  # each cluster and each broker has a topic with its name
        own = {*info.clusters, *info.brokers}
        names = [name for name in names if name not in own and not _is_internal(name)]
    if not with_groups:
        return OutputTable([Column("topic", "Topic")], [{"topic": name} for name in names])
    rows = []
    for name in progress(names, len(names), "Topics"):
        route = admin.topic_route(name)
        clusters = sorted(set(route.clusters.values()))
        rows.append({"topic": name, "clusters": clusters, "groups": admin.groups_of_topic(name)})
    columns = [Column("topic", "Topic"), Column("clusters", "Clusters"), Column("groups", "Groups")]
    return OutputTable(columns, rows)


def _is_internal(name: str) -> bool:
    from orbitmq.protocol.names import SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS

    prefixes = ("%RETRY%", "%DLQ%", SYSTEM_TOPIC_PREFIX)
    return name in SYSTEM_TOPICS or name.startswith(prefixes) or name.endswith("_REPLY_TOPIC")


@click.command("route", cls=Verb, short_help="Show the brokers of a topic")
@topic_argument()
@admin_command()
def route_command(admin: Admin, topic: str) -> OutputTable:
    """Show the brokers of a topic, with their numbers of queues and permissions.

    \b
    Example:
      orbitmq topic route orders
    """
    route = admin.topic_route(topic)
    rows = [
        {
            "broker": data.broker_name,
            "cluster": route.clusters.get(data.broker_name, ""),
            "writeQueues": data.write_queue_nums,
            "readQueues": data.read_queue_nums,
            "perm": data.perm,
            "addresses": {
                str(number): address
                for number, address in route.brokers.get(data.broker_name, {}).items()
            },
        }
        for data in route.queues
    ]
    columns = [
        Column("broker", "Broker"),
        Column("cluster", "Cluster"),
        Column("writeQueues", "Write queues", "number"),
        Column("readQueues", "Read queues", "number"),
        Column("perm", "Perm", "number"),
        Column("addresses", "Addresses"),
    ]
    return OutputTable(columns, rows)


@click.command("status", cls=Verb, short_help="Show the offsets of a topic's queues")
@topic_argument()
@admin_command(watched=True)
def status_command(admin: Admin, topic: str) -> OutputTable:
    """Show the minimum and maximum offset of each queue, and the time of its last message.

    \b
    Examples:
      orbitmq topic status orders
      orbitmq topic status orders --watch
    """
    rows: list[dict[str, Any]] = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "minOffset": ends.min_offset,
            "maxOffset": ends.max_offset,
            "messages": ends.count,
            "lastUpdateMs": ends.last_update_ms,
        }
        for queue, ends in admin.topic_ends(topic).items()
    ]
    total = sum(row["messages"] for row in rows)
    return OutputTable(QUEUE_COLUMNS, rows, note=f"{total:,} messages in {len(rows)} queues")


@click.command("clusters", cls=Verb, short_help="Show the clusters that have a topic")
@topic_argument()
@admin_command()
def clusters_command(admin: Admin, topic: str) -> OutputTable:
    """Show the clusters that have a topic.

    \b
    Example:
      orbitmq topic clusters orders
    """
    names = sorted(set(admin.topic_route(topic).clusters.values()))
    return OutputTable([Column("cluster", "Cluster")], [{"cluster": name} for name in names])


@click.command("groups", cls=Verb, short_help="Show the groups that consume a topic")
@topic_argument()
@admin_command()
def groups_command(admin: Admin, topic: str) -> OutputTable:
    """Show the groups that consume a topic or have consumed it.

    \b
    Example:
      orbitmq topic groups orders
    """
    rows = [{"group": group} for group in admin.groups_of_topic(topic)]
    return OutputTable([Column("group", "Group")], rows)


@click.command("config", cls=Verb, short_help="Show a topic's settings on each broker")
@topic_argument()
@admin_command()
def config_command(admin: Admin, topic: str) -> OutputTable:
    """Show the settings of a topic on each broker.

    \b
    Example:
      orbitmq topic config orders
    """
    rows = [
        {
            "broker": name,
            "writeQueues": config.write_queue_nums,
            "readQueues": config.read_queue_nums,
            "perm": config.perm,
            "order": config.order,
            "sysFlag": config.topic_sys_flag,
        }
        for name, config in admin.topic_configs(topic).items()
    ]
    columns = [
        Column("broker", "Broker"),
        Column("writeQueues", "Write queues", "number"),
        Column("readQueues", "Read queues", "number"),
        Column("perm", "Perm", "number"),
        Column("order", "Ordered"),
        Column("sysFlag", "Flags", "number"),
    ]
    return OutputTable(columns, rows)


@click.command("entries", cls=Verb, short_help="Show entries of a consume queue")
@topic_argument()
@click.option(
    "-b",
    "--broker",
    metavar="NAME",
    help="Name of the queue's broker; by default the topic's first broker.",
)
@click.option("-q", "--queue", "queue_id", type=int, required=True, help="Id of the queue.")
@click.option(
    "--from",
    "index",
    type=int,
    default=0,
    show_default=True,
    help="Offset of the first entry to show.",
)
@click.option("--count", type=click.IntRange(1, 10_000), default=10, show_default=True)
@click.option("-g", "--group", help="Also show this group's subscription to the topic.")
@admin_command()
def entries_command(
    admin: Admin,
    topic: str,
    broker: str | None,
    queue_id: int,
    index: int,
    count: int,
    group: str | None,
) -> OutputTable:
    """Show entries of a consume queue: position and size in the commit log, and the tag's hash.

    \b
    Example:
      orbitmq topic entries orders --queue 0 --from 100 --count 20
    """
    from orbitmq.message import MessageQueue

    route = admin.topic_route(topic)
    if broker is not None and ":" in broker:
        named = [name for name, ids in route.brokers.items() if broker in ids.values()]
        broker = named[0] if named else broker
    queue = MessageQueue(topic, broker or route.queues[0].broker_name, queue_id)
    found = admin.queue_entries(queue, index, count, group=group)
    rows: list[dict[str, Any]] = [
        {
            "offset": entry.offset,
            "physicalOffset": entry.physical_offset,
            "size": entry.size,
            "tagsCode": entry.tags_code,
        }
        for entry in found.entries
    ]
    columns = [
        Column("offset", "Offset", "number"),
        Column("physicalOffset", "In the log", "number"),
        Column("size", "Bytes", "number"),
        Column("tagsCode", "Tag's hash"),
    ]
    note = f"the queue goes from {found.min_offset:,} to {found.max_offset:,}"
    if group is not None:
        wants = f"wants {found.subscription!r}" if found.subscription else "is not connected"
        note += f"; group {group} {wants}"
    return OutputTable(columns, rows, note=note)


VERBS: Final = (
    list_command,
    route_command,
    status_command,
    config_command,
    clusters_command,
    groups_command,
    entries_command,
)
