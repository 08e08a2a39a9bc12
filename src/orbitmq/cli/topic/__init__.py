"""``orbitmq topic``: create, change, show and delete topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Done, Facts, OutputTable, in_common
from orbitmq.cli.core.values import BROKER, CLUSTER, broker_names, topic_argument
from orbitmq.cli.topic.rates import VERBS as RATES
from orbitmq.cli.topic.show import VERBS as LOOKS
from orbitmq.protocol.flags import TopicFlag

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.protocol.bodies import TopicConfig

__all__ = ["topic"]

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
PERMISSIONS = {"2": 2, "w": 2, "4": 4, "r": 4, "6": 6, "rw": 6}
DEFAULT_QUEUES = 8
PERM = click.Choice(list(PERMISSIONS), case_sensitive=False)


@click.group(short_help="Create, change, show and delete topics")
def topic() -> None:
    """Create, change, show and delete topics."""


Verbs = Literal["create", "update", "put"]

WORDS: Final[dict[Verbs, tuple[str, str]]] = {
    "create": (
        "Create a topic",
        """Create a topic; the command ends when every nameserver has its route.

    An existing topic is never changed. If it has the given settings, the command succeeds,
    otherwise it fails and names the difference. With --if-not-exists it succeeds in both cases.
    Options that are not given have their defaults.

    \b
    Examples:
      orbitmq topic create orders --queues 16
      orbitmq topic create orders --queues 4 -b broker-a
    """,
    ),
    "update": (
        "Change a topic",
        """Change a topic; the command ends when every nameserver has the changed route.

    Options that are not given keep their values. Messages in removed read queues can no longer be
    consumed. So a command that removes read queues with messages fails with code 1 and the number
    of messages, unless --shrink is given. To remove queues without loss, first reduce
    --write-queues, then wait until consumers have emptied the other queues.

    \b
    Examples:
      orbitmq topic update orders --queues 16
      orbitmq topic update orders --write-queues 4          # then, once the others are consumed:
      orbitmq topic update orders --read-queues 4 --shrink
    """,
    ),
    "put": (
        "Create or overwrite a topic",
        """Create or overwrite a topic, as updateTopic of mqadmin does.

    Options that are not given are reset to their defaults, and messages in removed queues can no
    longer be consumed. 'topic create' and 'topic update' are safer.

    \b
    Example:
      orbitmq topic put orders --queues 16 -c DefaultCluster
    """,
    ),
}


def _made(command: Verbs) -> click.Command:
    what, text = WORDS[command]

    @click.command(command, cls=Verb, short_help=what, help=text)
    @topic_argument()
    @BROKER
    @CLUSTER
    @click.option(
        "--queues",
        type=click.IntRange(1, 65_535),
        help="Number of write queues and of read queues, per broker. [default: 8]",
    )
    @click.option(
        "--write-queues",
        type=click.IntRange(0, 65_535),
        help="Number of queues producers write to, per broker.",
    )
    @click.option(
        "--read-queues",
        type=click.IntRange(0, 65_535),
        help="Number of queues consumers read from, per broker.",
    )
    @click.option(
        "--perm",
        type=PERM,
        help="Permission of clients: 2 (w) write, 4 (r) read, 6 (rw) both. [default: 6]",
    )
    @click.option(
        "--order/--no-order", default=None, help="Mark the topic as ordered. [default: no]"
    )
    @click.option(
        "--unit/--no-unit", default=None, help="Mark the topic as part of a unit (flag UNIT)."
    )
    @click.option(
        "--unit-sub/--no-unit-sub",
        default=None,
        help="Mark the topic as subscribed to by units (flag UNIT_SUB).",
    )
    @admin_command()
    def run(
        admin: Admin, topic: str, broker: str | None, cluster: str | None, **given: Any
    ) -> Done:
        return put_topic(admin, topic, broker, cluster, command, **given)

    if command == "create":
        run.params.append(
            click.Option(
                ["--if-not-exists"],
                is_flag=True,
                help="Succeed without a change if the topic exists.",
            )
        )
    elif command == "update":
        run.params.append(
            click.Option(
                ["--shrink"],
                is_flag=True,
                help="Remove read queues even if they contain messages.",
            )
        )
    return run


def put_topic(
    admin: Admin,
    topic: str,
    broker: str | None,
    cluster: str | None,
    command: Verbs,
    *,
    if_not_exists: bool = False,
    shrink: bool = False,
    **given: Any,
) -> Done:
    """Create or change a topic; a change keeps the other fields of each broker."""
    from orbitmq.protocol.bodies import TopicConfig

    names = broker_names(admin, broker, cluster)
    if command == "update":
        before = _configs(admin, topic, broker, cluster)
        configs = admin.change_topic(
            topic, lambda config: _changed(config, **given), brokers=list(before), shrink=shrink
        )
        return _done(topic, configs)
    config = _changed(TopicConfig(topic, DEFAULT_QUEUES, DEFAULT_QUEUES), **given)
    if command == "put":
        admin.put_topic(config, brokers=names, shrink=True)
        return _done(topic, dict.fromkeys(names or sorted(admin.topic_configs(topic)), config))
    kept = admin.make_topic(config, brokers=names, if_not_exists=if_not_exists)
    places = names or sorted(admin.topic_configs(topic))
    return _done(topic, {name: kept.get(name, config) for name in places}, kept)


def _configs(
    admin: Admin, topic: str, broker: str | None, cluster: str | None
) -> dict[str, TopicConfig]:
    """Return a topic's configurations by broker, for the chosen brokers that have the topic."""
    names, found = broker_names(admin, broker, cluster), admin.topic_configs(topic)
    configs = {name: found[name] for name in names or sorted(found) if name in found}
    if not configs:
        raise NothingFound(f"no broker that is meant has topic {topic}; create it there")
    return configs


def _changed(
    config: TopicConfig,
    *,
    queues: int | None,
    write_queues: int | None,
    read_queues: int | None,
    perm: str | None,
    order: bool | None,
    unit: bool | None,
    unit_sub: bool | None,
) -> TopicConfig:
    """Return a copy of a configuration with the values that are given."""
    from dataclasses import replace

    def first(*values: int | None) -> int:
        return next(value for value in values if value is not None)

    flags = config.topic_sys_flag
    for flag, wanted in ((TopicFlag.UNIT, unit), (TopicFlag.UNIT_SUB, unit_sub)):
        if wanted is not None:
            flags = flags | flag if wanted else flags & ~flag
    return replace(
        config,
        write_queue_nums=first(write_queues, queues, config.write_queue_nums),
        read_queue_nums=first(read_queues, queues, config.read_queue_nums),
        perm=config.perm if perm is None else PERMISSIONS[perm.lower()],
        order=config.order if order is None else order,
        topic_sys_flag=flags,
    )


def _done(
    topic: str, configs: dict[str, TopicConfig], kept: Mapping[str, TopicConfig] | None = None
) -> Done:
    """Return the answer with a topic's settings after a change; equal brokers share a line."""
    alike: dict[tuple[int, int], list[str]] = {}
    for name, config in configs.items():
        alike.setdefault((config.write_queue_nums, config.read_queue_nums), []).append(name)
    text = "\n".join(
        f"topic {topic}: {write} queues to write and {read} to read on {', '.join(places)}"
        for (write, read), places in alike.items()
    )
    if kept:
        text += f"\nit was there already, and is as before, on {', '.join(kept)}"
    rows = [
        {
            "topic": topic,
            "writeQueues": config.write_queue_nums,
            "readQueues": config.read_queue_nums,
            "perm": config.perm,
            "order": config.order,
        }
        for config in configs.values()
    ]
    values = in_common(rows) | {"brokers": list(configs)}
    return Done(text, values if kept is None else values | {"existed": sorted(kept)})


@click.command("perm", cls=Verb, short_help="Change the permission of a topic")
@topic_argument()
@click.argument("perm", type=PERM)
@BROKER
@CLUSTER
@admin_command()
def perm_command(
    admin: Admin, topic: str, perm: str, broker: str | None, cluster: str | None
) -> Done:
    """Change whether clients may write (w, 2) a topic, read it (r, 4), or both (rw, 6).

    \b
    Examples:
      orbitmq topic perm orders r              # producers can no longer send to it
      orbitmq topic perm orders rw -b broker-a
    """
    from dataclasses import replace

    wanted = PERMISSIONS[perm.lower()]
    before = _configs(admin, topic, broker, cluster)
    for name, config in before.items():
        admin.put_topic(replace(config, perm=wanted), brokers=[name])
    changes = {name: {"from": config.perm, "to": wanted} for name, config in before.items()}
    text = "\n".join(f"{name}: from {one['from']} to {one['to']}" for name, one in changes.items())
    return Done(text, {"topic": topic, "brokers": changes})


@click.command("delete", cls=Verb, short_help="Delete a topic with its messages")
@topic_argument()
@CLUSTER
@admin_command()
def delete_command(admin: Admin, topic: str, cluster: str | None) -> Done:
    """Delete a topic, with all its messages, from all brokers and nameservers.

    \b
    Example:
      orbitmq topic delete orders
    """
    admin.topic_route(topic)  # raises for an unknown topic, so that a typo is an error
    admin.delete_topic(topic, cluster=cluster)
    return Done(f"topic {topic} is deleted", {"topic": topic})


@click.command("order", cls=Verb, short_help="Show or fix the queues of an ordered topic")
@topic_argument()
@click.option(
    "--set",
    "value",
    metavar="BROKER:N;…",
    help="Fix the number of queues per broker, such as broker-a:4;broker-b:4.",
)
@click.option(
    "--delete", is_flag=True, help="Remove the fixed numbers; the brokers' own numbers apply."
)
@admin_command()
def order_command(admin: Admin, topic: str, value: str | None, delete: bool) -> Facts | Done:
    """Show, fix or release the queues that producers of an ordered topic use.

    With fixed queues, the queues of a stopped broker remain part of the topic, so the order of
    messages is kept.

    \b
    Examples:
      orbitmq topic order orders
      orbitmq topic order orders --set "broker-a:4;broker-b:4"
    """
    if value is not None and delete:
        raise click.UsageError("--set or --delete, not both.")
    if delete:
        admin.delete_key_value(ORDER_NAMESPACE, topic)
        return Done(f"the queues of {topic} are free", {"topic": topic, "order": None})
    if value is not None:
        admin.put_key_value(ORDER_NAMESPACE, topic, value)
        return Done(f"the queues of {topic} are {value}", {"topic": topic, "order": value})
    found = admin.key_value(ORDER_NAMESPACE, topic)
    if found is None:
        raise NothingFound(f"the queues of topic {topic} are not fixed")
    return Facts({"topic": topic, "order": found})


@click.command("allocate", cls=Verb, short_help="Show how clients would share the queues")
@topic_argument()
@click.option(
    "-i", "--clients", required=True, metavar="ID,…", help="Client ids, separated by commas."
)
@admin_command()
def allocate_command(admin: Admin, topic: str, clients: str) -> OutputTable:
    """Show which queues of a topic each client would get, by the default allocation strategy.

    \b
    Example:
      orbitmq topic allocate orders --clients 10.0.0.1,10.0.0.2,10.0.0.3
    """
    from orbitmq.client.consumer.assignment import Averagely, allocate

    queues = admin.topic_route(topic).subscribe_queues
    ids = [client.strip() for client in clients.split(",") if client.strip()]
    rows = [
        {"client": client, "broker": queue.broker_name, "queue": queue.queue_id}
        for client in ids
        for queue in allocate(Averagely(), client, queues, ids) or ()
    ]
    columns = [Column("client", "Client"), Column("broker", "Broker")]
    return OutputTable([*columns, Column("queue", "Queue", "number")], rows)


for _verb in (
    _made("create"),
    _made("update"),
    _made("put"),
    delete_command,
    perm_command,
    order_command,
    allocate_command,
    *LOOKS,
    *RATES,
):
    topic.add_command(_verb)
