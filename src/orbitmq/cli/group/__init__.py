"""``orbitmq group``: create, change, show and delete consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Done, OutputTable, in_common
from orbitmq.cli.core.values import BROKER, CLUSTER, broker_names, group_argument
from orbitmq.cli.group.show import VERBS as LOOKS

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.protocol.bodies import SubscriptionGroup

__all__ = ["group"]


@click.group(short_help="Create, change, show and delete consumer groups")
def group() -> None:
    """Create, change, show and delete consumer groups. `group lag` shows their lag."""


Verbs = Literal["create", "update", "put"]

WORDS: Final[dict[Verbs, tuple[str, str]]] = {
    "create": (
        "Create a consumer group",
        """Create a consumer group on all brokers, or only at --broker or --cluster.

    An existing group is never changed. If it has the given settings, the command succeeds,
    otherwise it fails and names the difference. With --if-not-exists it succeeds in both cases.
    Options that are not given have their defaults.

    \b
    Example:
      orbitmq group create billing --retry-times 3
    """,
    ),
    "update": (
        "Change a consumer group",
        """Change a consumer group on all brokers that have it, or only at --broker or --cluster.

    Options that are not given keep their values.

    \b
    Examples:
      orbitmq group update billing --retry-times 3
      orbitmq group update billing --no-consume      # no member gets messages until --consume
    """,
    ),
    "put": (
        "Create or overwrite a consumer group",
        """Create or overwrite a consumer group, as updateSubGroup of mqadmin does.

    Options that are not given are reset to their defaults. 'group create' and 'group update'
    are safer.

    \b
    Example:
      orbitmq group put billing --retry-times 3 -c DefaultCluster
    """,
    ),
}


def _made(command: Verbs) -> click.Command:
    what, text = WORDS[command]

    @click.command(command, cls=Verb, short_help=what, help=text)
    @group_argument()
    @BROKER
    @CLUSTER
    @click.option(
        "--consume/--no-consume",
        default=None,
        help="Allow the group to consume. [default: yes]",
    )
    @click.option(
        "--broadcast/--no-broadcast",
        default=None,
        help="Allow broadcast consumers, where each member gets every message. [default: yes]",
    )
    @click.option(
        "--from-min/--no-from-min",
        default=None,
        help="Allow a new group to begin at the first stored message.",
    )
    @click.option(
        "--retry-queues", type=int, help="Queues of the group's retry topic. [default: 1]"
    )
    @click.option(
        "--retry-times",
        type=int,
        help="Retries of a failed message before it becomes a dead letter. [default: 16]",
    )
    @click.option(
        "--broker-id",
        type=int,
        help="Broker id to read from, 0 is the master. [default: 0]",
    )
    @click.option(
        "--slow-broker-id",
        type=int,
        help="Broker id to read from when the group is far behind. [default: 1]",
    )
    @click.option(
        "--notify/--no-notify",
        default=None,
        help="Notify members when the membership changes, so that they rebalance at once.",
    )
    @admin_command()
    def run(
        admin: Admin, group: str, broker: str | None, cluster: str | None, **given: Any
    ) -> Done:
        if_not_exists = given.pop("if_not_exists", False)
        return put_group(
            admin, group, broker, cluster, command, given=given, if_not_exists=if_not_exists
        )

    if command == "create":
        run.params.append(
            click.Option(
                ["--if-not-exists"],
                is_flag=True,
                help="Succeed without a change if the group exists.",
            )
        )
    return run


FIELDS = {
    "consume": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "from_min": "consume_from_min_enable",
    "retry_queues": "retry_queue_nums",
    "retry_times": "retry_max_times",
    "broker_id": "broker_id",
    "slow_broker_id": "which_broker_when_consume_slowly",
    "notify": "notify_consumer_ids_changed_enable",
}
"""Names of options → fields of `SubscriptionGroup`."""


def put_group(
    admin: Admin,
    group: str,
    broker: str | None,
    cluster: str | None,
    command: Verbs,
    *,
    given: dict[str, Any],
    if_not_exists: bool,
) -> Done:
    """Create or change a group; a change keeps the other fields of each broker."""
    from dataclasses import replace

    from orbitmq.protocol.bodies import SubscriptionGroup

    names = broker_names(admin, broker, cluster)
    changes = {FIELDS[name]: value for name, value in given.items() if value is not None}
    if command == "update":
        known = admin.group_configs(cluster=cluster).get(group, {})
        places = [name for name in names or sorted(known) if name in known]
        if not places:
            raise NothingFound(f"no broker that is meant knows group {group}; create it there")
        return _done(list(admin.change_group(group, changes, brokers=places).values()))
    config = replace(SubscriptionGroup(group), **changes)
    if command == "put":
        admin.put_group(config, brokers=names)
        return _done([config])
    kept = admin.make_group(config, brokers=names, if_not_exists=if_not_exists)
    places = names or list(admin.cluster_info().brokers)
    return _done([kept.get(name, config) for name in places], kept)


def _done(
    configs: list[SubscriptionGroup], kept: Mapping[str, SubscriptionGroup] | None = None
) -> Done:
    """Return the answer with a group's settings after a change."""
    (group,) = {config.group_name for config in configs}
    said = "\n".join(
        f"group {group} is set up: {text}" for text in dict.fromkeys(map(_said, configs))
    )
    if kept:
        said += f"\nit was there already, and is as before, on {', '.join(kept)}"
    values = in_common([_values(config) for config in configs])
    return Done(said, values if kept is None else values | {"existed": sorted(kept)})


def _values(config: SubscriptionGroup) -> dict[str, Any]:
    return {key: value for key, value in config.as_json().items() if key != "groupName"} | {
        "group": config.group_name
    }


def _said(config: SubscriptionGroup) -> str:
    may = "may consume" if config.consume_enable else "may not consume"
    return f"{may}, {config.retry_max_times} retries in {config.retry_queue_nums} queues"


@click.command("delete", cls=Verb, short_help="Delete a consumer group")
@group_argument()
@CLUSTER
@click.option(
    "--keep-offsets",
    is_flag=True,
    help="Keep the committed offsets, so that a new group with this name continues there.",
)
@click.option(
    "--keep-topics", is_flag=True, help="Keep the group's retry topic and dead letter topic."
)
@admin_command()
def delete_command(
    admin: Admin, group: str, cluster: str | None, keep_offsets: bool, keep_topics: bool
) -> Done:
    """Delete a consumer group from all brokers, with its offsets, retries and dead letters.

    \b
    Examples:
      orbitmq group delete billing
      orbitmq group delete billing --keep-topics
    """
    if group not in admin.group_configs(cluster=cluster):
        raise NothingFound(f"no broker knows group {group}")
    admin.delete_group(group, cluster=cluster, keep_offsets=keep_offsets, keep_topics=keep_topics)
    return Done(f"group {group} is deleted", {"group": group})


@click.command("config", cls=Verb, short_help="Show a group's settings on each broker")
@group_argument()
@admin_command()
def config_command(admin: Admin, group: str) -> OutputTable:
    """Show the settings of a consumer group on each broker.

    \b
    Example:
      orbitmq group config billing
    """
    found = admin.group_configs().get(group)
    if not found:
        raise NothingFound(f"no broker knows group {group}")
    rows = [{"broker": name, **_values(config)} for name, config in found.items()]
    columns = [
        Column("broker", "Broker"),
        Column("consumeEnable", "May consume"),
        Column("consumeBroadcastEnable", "Broadcast"),
        Column("consumeFromMinEnable", "From first"),
        Column("retryQueueNums", "Retry queues", "number"),
        Column("retryMaxTimes", "Retries", "number"),
        Column("brokerId", "Broker id", "number"),
        Column("whichBrokerWhenConsumeSlowly", "When slow", "number"),
        Column("notifyConsumerIdsChangedEnable", "Notified"),
    ]
    return OutputTable(columns, rows)


for _verb in (
    _made("create"),
    _made("update"),
    _made("put"),
    delete_command,
    config_command,
    *LOOKS,
):
    group.add_command(_verb)
