"""``orbitmq group``: consumer groups made, changed, looked at, deleted."""

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


@click.group(short_help="Create, change, look at and delete consumer groups")
def group() -> None:
    """Consumer groups: made, changed, looked at, deleted. `group lag` tells how far they are."""


Verbs = Literal["create", "update", "put"]

WORDS: Final[dict[Verbs, tuple[str, str]]] = {
    "create": (
        "Create a consumer group",
        """Create a consumer group; on all brokers unless told otherwise.

    A group that exists is never changed: if it is as wanted, that is a success, and else an error
    that names the difference. With --if-not-exists it is left as it is, and that is a success, too.
    What is not given is as a group is made by default.

    \b
    Example:
      orbitmq group create billing --retry-times 3
    """,
    ),
    "update": (
        "Change a consumer group",
        """Change a consumer group; on all brokers that know it, unless told otherwise.

    What is not given stays as it is.

    \b
    Examples:
      orbitmq group update billing --retry-times 3
      orbitmq group update billing --no-consume      # nobody gets anything until --consume
    """,
    ),
    "put": (
        "Create a consumer group or set it up anew",
        """Create a consumer group or set it up anew, as updateSubGroup of mqadmin does.

    What is not given becomes as a group is made by default, whatever it was before. 'group create'
    and 'group update' are safer.

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
    @click.option("--consume/--no-consume", default=None, help="Whether it may consume. [yes]")
    @click.option("--broadcast/--no-broadcast", default=None, help="Or every member all. [yes]")
    @click.option(
        "--from-min/--no-from-min", default=None, help="Whether it may begin at the first."
    )
    @click.option("--retry-queues", type=int, help="Queues of its retries. [1]")
    @click.option("--retry-times", type=int, help="How often a message is tried again. [16]")
    @click.option("--broker-id", type=int, help="From which of a name's brokers to read. [0]")
    @click.option("--slow-broker-id", type=int, help="And from which while it is slow. [1]")
    @click.option("--notify/--no-notify", default=None, help="Whether members hear of each other.")
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
                ["--if-not-exists"], is_flag=True, help="Leave a group that exists as it is."
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
"""Option → field of the group."""


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
    """Create or change a group; a change begins with what each broker has."""
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
    """Say how a group is set up now."""
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


@click.command("delete", cls=Verb, short_help="Delete a group")
@group_argument()
@CLUSTER
@click.option("--keep-offsets", is_flag=True, help="Let a group of that name go on from there.")
@click.option("--keep-topics", is_flag=True, help="Keep its retries and its dead letters.")
@admin_command()
def delete_command(
    admin: Admin, group: str, cluster: str | None, keep_offsets: bool, keep_topics: bool
) -> Done:
    """Delete a group from all brokers, with its offsets, its retries and its dead letters.

    \b
    Examples:
      orbitmq group delete billing
      orbitmq group delete billing --keep-topics
    """
    if group not in admin.group_configs(cluster=cluster):
        raise NothingFound(f"no broker knows group {group}")
    admin.delete_group(group, cluster=cluster, keep_offsets=keep_offsets, keep_topics=keep_topics)
    return Done(f"group {group} is deleted", {"group": group})


@click.command("config", cls=Verb, short_help="Show how brokers have a group set up")
@group_argument()
@admin_command()
def config_command(admin: Admin, group: str) -> OutputTable:
    """Show how each broker has a group set up.

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
