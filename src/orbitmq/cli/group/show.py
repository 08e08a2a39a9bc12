"""Verbs that show consumer groups: their names, lag, members and running consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Facts, OutputTable
from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.values import group_argument

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.admin.clients import RunningInfo

__all__ = ["LAG_COLUMNS", "VERBS", "group_rows"]

MEMBER_COLUMNS: Final = [
    Column("clientId", "Client"),
    Column("address", "Address"),
    Column("language", "Language"),
    Column("version", "Version", "number"),
]
LAG_COLUMNS: Final = [
    Column("topic", "Topic"),
    Column("broker", "Broker"),
    Column("queue", "Queue", "number"),
    Column("maxOffset", "Max offset", "number"),
    Column("consumerOffset", "Consumed", "number"),
    Column("lag", "Lag", "number"),
    Column("lastConsumedMs", "Last consumed was stored", "time"),
    Column("client", "Client"),
]
QUEUE_COLUMNS: Final = [
    Column("topic", "Topic"),
    Column("broker", "Broker"),
    Column("queue", "Queue", "number"),
    Column("commitOffset", "Committed", "number"),
    Column("cachedMessages", "Cached", "number"),
    Column("cachedMiB", "MiB", "number"),
    Column("locked", "Locked"),
    Column("lastPullMs", "Last pull", "time"),
    Column("lastConsumeMs", "Last consumed", "time"),
]


@click.command("list", cls=Verb, short_help="List consumer groups")
@click.option("-c", "--cluster", metavar="NAME", help="List only groups of this cluster.")
@click.option("--all", "with_internal", is_flag=True, help="Also list RocketMQ's own groups.")
@admin_command()
def list_command(admin: Admin, cluster: str | None, with_internal: bool) -> OutputTable:
    """List consumer groups; RocketMQ's own groups only with --all.

    \b
    Example:
      orbitmq group list
    """
    rows = [
        {"group": name, "brokers": list(of_broker)}
        for name, of_broker in admin.group_configs(cluster=cluster).items()
        if with_internal or not is_internal(name)
    ]
    return OutputTable([Column("group", "Group"), Column("brokers", "Brokers")], rows)


def is_internal(name: str) -> bool:
    """Return True for RocketMQ's own groups."""
    from orbitmq.protocol.names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS

    return name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


@click.command("lag", cls=Verb, short_help="Show the lag of consumer groups")
@group_argument(required=False)
@click.option("-t", "--topic", help="Show only the queues of this topic.")
@click.option("--clients", is_flag=True, help="Also show which client consumes each queue.")
@admin_command(watched=True)
def lag_command(admin: Admin, group: str | None, topic: str | None, clients: bool) -> OutputTable:
    """Show the offsets and the lag of GROUP in each queue; without GROUP the lag of all groups.

    \b
    Examples:
      orbitmq group lag
      orbitmq group lag billing --clients
      orbitmq group lag billing --watch
      orbitmq group lag billing -o json | jq 'map(.lag) | add'
    """
    if group is None:
        return _all_groups(admin)
    lag = admin.group_lag(group, topic)
    if not lag.queues:
        raise NothingFound(f"group {group} has consumed nothing: no broker has offsets of it")
    owners = _owners(admin, group) if clients else {}
    rows: list[dict[str, Any]] = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "maxOffset": one.max_offset,
            "consumerOffset": one.consumer_offset,
            "lag": one.lag,
            "lastConsumedMs": one.last_consumed_ms,
            "client": owners.get((queue.topic, queue.broker_name, queue.queue_id)),
        }
        for queue, one in lag.queues.items()
    ]
    note = f"behind by {lag.total:,}; {lag.consumed_per_second:,.1f} messages/s"
    return OutputTable(LAG_COLUMNS if clients else LAG_COLUMNS[:-1], rows, note=note)


def _owners(admin: Admin, group: str) -> dict[tuple[str, str, int], str]:
    found = admin.group_members(group)
    return {
        (queue.topic, queue.broker_name, queue.queue_id): member.client_id
        for member in (found.members if found else ())
        for queue in admin.running_info(group, member.client_id).queues
    }


def _all_groups(admin: Admin) -> OutputTable:
    columns = [
        Column("group", "Group"),
        Column("members", "Members", "number"),
        Column("lag", "Lag", "number"),
        Column("consumedPerSecond", "Msgs/s", "rate"),
        Column("consumeType", "Type"),
        Column("messageModel", "Model"),
    ]
    return OutputTable(columns, group_rows(admin))


def group_rows(admin: Admin) -> list[dict[str, Any]]:
    """Return a row for each group except RocketMQ's own."""
    rows = []
    names = [name for name in admin.group_configs() if not is_internal(name)]
    for name in progress(names, len(names), "Groups"):
        lag, found = admin.group_lag(name), admin.group_members(name)
        rows.append(
            {
                "group": name,
                "members": len(found.members) if found else 0,
                "lag": lag.total,
                "consumedPerSecond": lag.consumed_per_second,
                "consumeType": found.consume_type if found else None,
                "messageModel": found.message_model if found else None,
            }
        )
    return rows


@click.command("members", cls=Verb, short_help="Show members and subscriptions of a group")
@group_argument()
@admin_command(watched=True)
def members_command(admin: Admin, group: str) -> Facts:
    """Show the connected members of a consumer group, and the group's subscriptions.

    \b
    Example:
      orbitmq group members billing
    """
    found = admin.group_members(group)
    if found is None:
        raise NothingFound(f"nobody is connected as a member of group {group}")
    members = [
        {
            "clientId": one.client_id,
            "address": one.address,
            "language": one.language,
            "version": one.version,
        }
        for one in found.members
    ]
    wanted = [
        {"topic": topic, "type": one.expression_type, "expression": one.sub_string}
        for topic, one in found.subscriptions.items()
    ]
    columns = [Column("topic", "Topic"), Column("type", "Type"), Column("expression", "Wants")]
    return Facts(
        {
            "group": group,
            "consumeType": found.consume_type,
            "messageModel": found.message_model,
            "consumeFromWhere": found.consume_from_where,
            "members": OutputTable(MEMBER_COLUMNS, members),
            "subscriptions": OutputTable(columns, wanted),
        }
    )


@click.command("running-info", cls=Verb, short_help="Show the state of running consumers")
@group_argument()
@click.option("-i", "--client", "client_id", help="Show only the member with this client id.")
@click.option("-s", "--stacks", is_flag=True, help="Also show the stacks of its threads.")
@admin_command(watched=True)
def running_info_command(admin: Admin, group: str, client_id: str | None, stacks: bool) -> Facts:
    """Request the state of a group's members: settings, queues, and messages cached of each.

    \b
    Examples:
      orbitmq group running-info billing
      orbitmq group running-info billing --client 10.0.0.1@42 --stacks
    """
    if client_id is not None:
        infos = [admin.running_info(group, client_id, stacks=stacks)]
    else:
        found = admin.group_members(group)
        if found is None:
            raise NothingFound(f"nobody is connected as a member of group {group}")
        infos = [admin.running_info(group, one.client_id, stacks=stacks) for one in found.members]
    if len(infos) == 1 or client_id is not None:
        return _one(infos[0])
    rows = [row for info in infos for row in _queue_rows(info)]
    columns = [Column("client", "Client"), *QUEUE_COLUMNS]
    alike = {frozenset((one.topic, one.sub_string) for one in info.subscriptions) for info in infos}
    return Facts(
        {
            "group": group,
            "clients": [info.client_id for info in infos],
            "sameSubscriptions": len(alike) == 1,
            "queues": OutputTable(columns, rows),
        }
    )


def _queue_rows(info: RunningInfo) -> list[dict[str, Any]]:
    return [
        {
            "client": info.client_id,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "commitOffset": state.commit_offset,
            "cachedMessages": state.cached_count,
            "cachedMiB": state.cached_mib,
            "locked": state.is_locked,
            "lastPullMs": state.last_pull_ms,
            "lastConsumeMs": state.last_consume_ms,
        }
        for queue, state in info.queues.items()
    ]


def _one(info: RunningInfo) -> Facts:
    wanted = [
        {"topic": one.topic, "type": one.expression_type, "expression": one.sub_string}
        for one in info.subscriptions
    ]
    columns = [Column("topic", "Topic"), Column("type", "Type"), Column("expression", "Wants")]
    values: dict[str, Any] = {
        "client": info.client_id,
        "properties": dict(sorted(info.properties.items())),
        "subscriptions": OutputTable(columns, wanted),
        "queues": OutputTable(QUEUE_COLUMNS, _queue_rows(info)),
    }
    if info.stacks is not None:
        values["stacks"] = info.stacks
    return Facts(values)


VERBS: Final = (list_command, lag_command, members_command, running_info_command)
