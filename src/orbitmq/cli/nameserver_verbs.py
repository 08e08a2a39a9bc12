"""Looking at nameservers that run, and changing them: the verbs of ``orbitmq nameserver``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from orbitmq.cli.asking import Verb, asks
from orbitmq.cli.exits import NothingFound
from orbitmq.cli.printing import Column, Done, Facts, Table
from orbitmq.cli.values import check_taken, key_values

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin

__all__ = ["VERBS"]


@click.command("config", cls=Verb, short_help="Show or change settings of nameservers")
@click.option("--only", default="", metavar="TEXT", help="Only keys that have this in them.")
@click.option(
    "-s", "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change a setting."
)
@asks()
def config_command(admin: Admin, only: str, changes: tuple[str, ...]) -> Table | Done:
    """Show the settings of all nameservers, or change some while they run.

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
    return Table(columns, rows)


@click.command("kv-list", cls=Verb, short_help="List the keys of a namespace")
@click.argument("kv_namespace", metavar="NAMESPACE")
@asks()
def kv_list_command(admin: Admin, kv_namespace: str) -> Table:
    """List the keys and values that nameservers keep in a namespace of their table.

    \b
    Example:
      orbitmq nameserver kv-list ORDER_TOPIC_CONFIG
    """
    rows = [{"key": key, "value": value} for key, value in admin.key_values(kv_namespace).items()]
    return Table([Column("key", "Key"), Column("value", "Value")], rows)


@click.command("kv-get", cls=Verb, short_help="Show the value of a key")
@click.argument("kv_namespace", metavar="NAMESPACE")
@click.argument("key")
@asks()
def kv_get_command(admin: Admin, kv_namespace: str, key: str) -> Facts:
    """Show a value that nameservers keep.

    \b
    Example:
      orbitmq nameserver kv-get ORDER_TOPIC_CONFIG orders
    """
    value = admin.key_value(kv_namespace, key)
    if value is None:
        raise NothingFound(f"the nameservers have no key {key} in {kv_namespace}")
    return Facts({"namespace": kv_namespace, "key": key, "value": value})


@click.command("kv-set", cls=Verb, short_help="Set the value of a key")
@click.argument("kv_namespace", metavar="NAMESPACE")
@click.argument("key")
@click.argument("value")
@asks()
def kv_set_command(admin: Admin, kv_namespace: str, key: str, value: str) -> Done:
    """Have all nameservers keep a value.

    \b
    Example:
      orbitmq nameserver kv-set SHOP currency NOK
    """
    admin.put_key_value(kv_namespace, key, value)
    values = {"namespace": kv_namespace, "key": key, "value": value}
    return Done(f"{kv_namespace}: {key} is {value}", values)


@click.command("kv-delete", cls=Verb, short_help="Delete a key")
@click.argument("kv_namespace", metavar="NAMESPACE")
@click.argument("key")
@asks()
def kv_delete_command(admin: Admin, kv_namespace: str, key: str) -> Done:
    """Have all nameservers forget a value.

    \b
    Example:
      orbitmq nameserver kv-delete SHOP currency
    """
    admin.delete_key_value(kv_namespace, key)
    return Done(f"{kv_namespace}: {key} is deleted", {"namespace": kv_namespace, "key": key})


VERBS: Final = (config_command, kv_list_command, kv_get_command, kv_set_command, kv_delete_command)
