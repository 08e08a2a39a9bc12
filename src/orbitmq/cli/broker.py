"""``orbitmq broker``: run a broker, or show and change running brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from orbitmq.cli.core.exits import NotStarted
from orbitmq.cli.core.options import ExitCode, Verb, admin_command, reaches
from orbitmq.cli.core.printing import Column, Done, Facts, Output, OutputTable, present
from orbitmq.cli.core.values import BROKER, CLUSTER, brokers_at, check_taken, key_values
from orbitmq.cli.group.show import LAG_COLUMNS
from orbitmq.config import BrokerConfig, format_properties
from orbitmq.errors import ConfigError

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["VERBS", "broker"]

# ---- Verbs of ``orbitmq broker``, for running brokers

PAIR_COLUMNS: Final = [Column("broker", "Broker"), Column("key", "Key"), Column("value", "Value")]


def _pairs(broker: str, values: dict[str, str], only: str) -> list[dict[str, Any]]:
    return [
        {"broker": broker, "key": key, "value": value}
        for key, value in sorted(values.items())
        if only.lower() in key.lower()
    ]


@click.command("status", cls=Verb, short_help="Show the runtime info of brokers")
@BROKER
@CLUSTER
@click.option("--only", default="", metavar="TEXT", help="Show only keys that contain this text.")
@admin_command(watched=True)
def status_command(admin: Admin, broker: str | None, cluster: str | None, only: str) -> OutputTable:
    """Show the runtime info of brokers, under RocketMQ's keys.

    \b
    Examples:
      orbitmq broker status -b broker-a
      orbitmq broker status --only tps --watch
    """
    rows = [
        row
        for name, address in brokers_at(admin, broker, cluster).items()
        for row in _pairs(name, admin.broker_runtime_info(address), only)
    ]
    return OutputTable(PAIR_COLUMNS, rows)


@click.command("config", cls=Verb, short_help="Show or change settings of brokers")
@BROKER
@CLUSTER
@click.option("--only", default="", metavar="TEXT", help="Show only keys that contain this text.")
@click.option(
    "-s",
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting; may be given several times.",
)
@admin_command()
def config_command(
    admin: Admin, broker: str | None, cluster: str | None, only: str, changes: tuple[str, ...]
) -> OutputTable | Done:
    """Show the settings of brokers, or change some without a restart.

    \b
    Examples:
      orbitmq broker config -b broker-a --only flush
      orbitmq broker config -c DefaultCluster --set fileReservedTime=24
    """
    if changes:
        pairs = key_values(changes)
        places = brokers_at(admin, broker, cluster, whole=False)
        for name, address in places.items():
            admin.update_broker_config(address, pairs)
            check_taken(name, pairs, admin.broker_config(address))
        text = ", ".join(f"{key}={value}" for key, value in pairs.items())
        return Done(f"{text} on {', '.join(places)}", {"set": pairs, "brokers": list(places)})
    rows = [
        row
        for name, address in brokers_at(admin, broker, cluster).items()
        for row in _pairs(name, admin.broker_config(address), only)
    ]
    return OutputTable(PAIR_COLUMNS, rows)


@click.command("lag", cls=Verb, short_help="Show the lag of all groups on brokers")
@BROKER
@CLUSTER
@click.option(
    "--min-lag",
    type=int,
    default=0,
    show_default=True,
    help="Show only queues with at least this lag.",
)
@click.option("--ordered", is_flag=True, help="Show only ordered topics.")
@admin_command(watched=True)
def lag_command(
    admin: Admin, broker: str | None, cluster: str | None, min_lag: int, ordered: bool
) -> OutputTable:
    """Show the offsets and the lag of every consumer group in the queues of brokers.

    \b
    Example:
      orbitmq broker lag -b broker-a --min-lag 1000
    """
    rows: list[dict[str, Any]] = []
    total = 0
    for address in brokers_at(admin, broker, cluster).values():
        lag = admin.broker_lag(address, only_ordered=ordered)
        total += lag.total
        rows += [
            {
                "group": group,
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "maxOffset": one.max_offset,
                "consumerOffset": one.consumer_offset,
                "lag": one.lag,
                "lastConsumedMs": one.last_consumed_ms,
            }
            for group, queues in lag.groups.items()
            for queue, one in sorted(queues.items())
            if one.lag >= min_lag
        ]
    columns = [Column("group", "Group"), *LAG_COLUMNS[:-1]]
    return OutputTable(columns, rows, note=f"behind by {total:,}")


def _cleaning(name: str, what: Literal["queues", "topics", "log"], help_text: str) -> click.Command:
    @click.command(name, cls=Verb, short_help=help_text)
    @BROKER
    @CLUSTER
    @admin_command()
    def run(admin: Admin, broker: str | None, cluster: str | None) -> Done:
        places = brokers_at(admin, broker, cluster, whole=False)
        for address in places.values():
            admin.clean_broker(address, what)
        return Done(f"{', '.join(places)} cleaned up", {"cleaned": what, "brokers": list(places)})

    run.help = f"""{help_text}.

    \b
    Example:
      orbitmq broker {name} -b broker-a
    """
    return run


def _writes(name: str, help_text: str, more: str) -> click.Command:
    @click.command(name, cls=Verb, short_help=help_text)
    @click.argument("broker", metavar="BROKER")
    @admin_command()
    def run(admin: Admin, broker: str) -> Facts:
        brokers_at(admin, broker, None)  # raises if no broker with this name is registered
        change = admin.deny_writes if name == "deny-writes" else admin.allow_writes
        return Facts({"broker": broker, "topicsByNameserver": change(broker)})

    run.help = f"""{help_text}. {more}

    \b
    Example:
      orbitmq broker {name} broker-a
    """
    return run


@click.command("send-check", cls=Verb, short_help="Send test messages to a broker and time them")
@click.argument("broker")
@click.option(
    "--amount",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Number of test messages.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="Bytes of each test message's body.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def send_check_command(
    place: ClusterOptions, broker: str, amount: int, size: int, output: Output
) -> None:
    """Send test messages to the topic with a broker's name, and time each.

    No application consumes this topic. The exit code is 3 if a message failed.

    \b
    Example:
      orbitmq broker send-check broker-a --amount 10
    """
    from orbitmq.cli.core.send_test import CHECK_COLUMNS, timed_sends

    rows = timed_sends(place, broker, amount, size, broker=broker)
    present(OutputTable(CHECK_COLUMNS, rows), output)
    if not all(row["ok"] for row in rows):
        raise SystemExit(ExitCode.NOT_IN_ORDER)


VERBS: Final = (
    status_command,
    config_command,
    lag_command,
    _cleaning("clean-queues", "queues", "Delete consume queues without messages"),
    _cleaning("clean-topics", "topics", "Delete unused topics"),
    _cleaning("clean-log", "log", "Delete expired commit log files at once"),
    _writes(
        "deny-writes",
        "Remove a broker's write permission on all nameservers",
        "Clients then send to other brokers. Use this before the broker is stopped.",
    ),
    _writes(
        "allow-writes",
        "Restore a broker's write permission on all nameservers",
        "Clients then send to the broker again.",
    ),
    send_check_command,
)


@click.group(
    invoke_without_command=True, short_help="Run a broker; show and change running brokers"
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings file (RocketMQ's broker.conf).",
)
@click.option(
    "-n",
    "--namesrv",
    "namesrv_addr",
    metavar="ADDRS",
    help="Nameservers to register with, host:port;host:port; overrides file and NAMESRV_ADDR.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("0.0.0.0",),
    show_default=True,
    help="Address to listen on; may be given several times.",
)
@click.option("--print-config", is_flag=True, help="Print every setting as key=value and exit.")
@click.pass_context
def broker(
    context: click.Context,
    config_file: Path | None,
    namesrv_addr: str | None,
    hosts: tuple[str, ...],
    print_config: bool,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, or use a command on running brokers.

    \b
    Examples:
      orbitmq broker -n 127.0.0.1:9876
      orbitmq broker -c conf/broker.conf
      NAMESRV_ADDR="10.0.0.1:9876;10.0.0.2:9876" orbitmq broker -c conf/broker.conf
      orbitmq broker status -b broker-a
    """
    if context.invoked_subcommand is not None:
        return
    try:
        config = BrokerConfig.load(config_file)
        if namesrv_addr is not None:
            config.namesrv_addr = namesrv_addr
        config.settle()
    except ConfigError as error:
        raise NotStarted(str(error)) from error
    if print_config:
        click.echo(format_properties(dict(sorted(config.as_properties().items()))), nl=False)
        return
    # Imported late: the help and the settings need no event loop.
    from orbitmq.cli.core.process import run_broker

    run_broker(config, hosts)


for _verb in VERBS:
    broker.add_command(_verb)
