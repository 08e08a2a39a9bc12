"""``orbitmq nameserver``: run a nameserver, or show and change running nameservers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from orbitmq.cli.core.exits import NothingFound, NotStarted
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Done, Facts, OutputTable
from orbitmq.cli.core.values import check_taken, key_values
from orbitmq.config import NameserverConfig, format_properties
from orbitmq.errors import ConfigError

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin

__all__ = ["VERBS", "nameserver"]

# ---- Verbs of ``orbitmq nameserver``, for running nameservers


@click.command("config", cls=Verb, short_help="Show or change settings of nameservers")
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
def config_command(admin: Admin, only: str, changes: tuple[str, ...]) -> OutputTable | Done:
    """Show the settings of all nameservers, or change some without a restart.

    \b
    Examples:
      orbitmq nameserver config
      orbitmq nameserver config --set orderMessageEnable=true
    """
    if changes:
        pairs = key_values(changes)
        admin.update_nameserver_configs(pairs)
        for address, shown in admin.nameserver_configs().items():
            check_taken(address, pairs, shown)
        text = ", ".join(f"{key}={value}" for key, value in pairs.items())
        return Done(f"{text} on all nameservers", {"set": pairs})
    rows = [
        {"nameserver": address, "key": key, "value": value}
        for address, values in admin.nameserver_configs().items()
        for key, value in sorted(values.items())
        if only.lower() in key.lower()
    ]
    columns = [Column("nameserver", "Nameserver"), Column("key", "Key"), Column("value", "Value")]
    return OutputTable(columns, rows)


@click.command("kv-list", cls=Verb, short_help="List the keys of a nameserver namespace")
@click.argument("kv_namespace", metavar="NAMESPACE")
@admin_command()
def kv_list_command(admin: Admin, kv_namespace: str) -> OutputTable:
    """List the keys and values in a namespace of the nameservers' key-value table.

    \b
    Example:
      orbitmq nameserver kv-list ORDER_TOPIC_CONFIG
    """
    rows = [{"key": key, "value": value} for key, value in admin.key_values(kv_namespace).items()]
    return OutputTable([Column("key", "Key"), Column("value", "Value")], rows)


@click.command("kv-get", cls=Verb, short_help="Show the value of a key in a nameserver namespace")
@click.argument("kv_namespace", metavar="NAMESPACE")
@click.argument("key")
@admin_command()
def kv_get_command(admin: Admin, kv_namespace: str, key: str) -> Facts:
    """Show a value of the nameservers' key-value table.

    \b
    Example:
      orbitmq nameserver kv-get ORDER_TOPIC_CONFIG orders
    """
    value = admin.key_value(kv_namespace, key)
    if value is None:
        raise NothingFound(f"the nameservers have no key {key} in {kv_namespace}")
    return Facts({"namespace": kv_namespace, "key": key, "value": value})


@click.command("kv-set", cls=Verb, short_help="Set the value of a key on all nameservers")
@click.argument("kv_namespace", metavar="NAMESPACE")
@click.argument("key")
@click.argument("value")
@admin_command()
def kv_set_command(admin: Admin, kv_namespace: str, key: str, value: str) -> Done:
    """Store a value in the key-value table of all nameservers.

    \b
    Example:
      orbitmq nameserver kv-set SHOP currency NOK
    """
    admin.put_key_value(kv_namespace, key, value)
    values = {"namespace": kv_namespace, "key": key, "value": value}
    return Done(f"{kv_namespace}: {key} is {value}", values)


@click.command("kv-delete", cls=Verb, short_help="Delete a key on all nameservers")
@click.argument("kv_namespace", metavar="NAMESPACE")
@click.argument("key")
@admin_command()
def kv_delete_command(admin: Admin, kv_namespace: str, key: str) -> Done:
    """Delete a value from the key-value table of all nameservers.

    \b
    Example:
      orbitmq nameserver kv-delete SHOP currency
    """
    admin.delete_key_value(kv_namespace, key)
    return Done(f"{kv_namespace}: {key} is deleted", {"namespace": kv_namespace, "key": key})


VERBS: Final = (config_command, kv_list_command, kv_get_command, kv_set_command, kv_delete_command)


@click.group(
    invoke_without_command=True, short_help="Run a nameserver; show and change running nameservers"
)
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings file (RocketMQ's namesrv.conf); changes by requests are written back to it.",
)
@click.option(
    "-p",
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; overrides the file. [default: 9876]",
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
def nameserver(
    context: click.Context,
    config_file: Path | None,
    port: int | None,
    hosts: tuple[str, ...],
    print_config: bool,
) -> None:
    """Run a nameserver until SIGTERM or Ctrl-C, or use a command on running nameservers.

    Brokers register with all nameservers, and clients send requests to any of them. Nameservers do
    not communicate with each other.

    \b
    Examples:
      orbitmq nameserver
      orbitmq nameserver -c conf/namesrv.conf
      orbitmq nameserver --host 127.0.0.1 -p 19876
      orbitmq nameserver config
    """
    if context.invoked_subcommand is not None:
        return
    try:
        config = NameserverConfig.load(config_file)
    except ConfigError as error:
        raise NotStarted(str(error)) from error
    if config_file is not None:
        config.config_store_path = str(config_file)
    if port is not None:
        config.listen_port = port
    if print_config:
        click.echo(format_properties(dict(sorted(config.as_properties().items()))), nl=False)
        return
    # Imported late: the help and the settings need no event loop.
    from orbitmq.cli.core.process import run_nameserver

    if config_file is not None:
        click.echo(f"load config properties file OK, {config_file}")
    run_nameserver(config, hosts, tells_address=True)


for _verb in VERBS:
    nameserver.add_command(_verb)
