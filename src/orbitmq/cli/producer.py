"""``orbitmq producer``: shows connected producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, OutputTable
from orbitmq.cli.core.values import BROKER, CLUSTER, brokers_at, topic_argument

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.admin.groups import Member

__all__ = ["producer"]

COLUMNS = [
    Column("group", "Group"),
    Column("clientId", "Client"),
    Column("address", "Address"),
    Column("language", "Language"),
    Column("version", "Version", "number"),
]


@click.group(short_help="Show connected producers")
def producer() -> None:
    """Show connected producers."""


def _row(group: str, one: Member) -> dict[str, Any]:
    return {
        "group": group,
        "clientId": one.client_id,
        "address": one.address,
        "language": one.language,
        "version": one.version,
    }


@producer.command("list", cls=Verb, short_help="List the producers connected to brokers")
@BROKER
@CLUSTER
@admin_command(watched=True)
def list_command(admin: Admin, broker: str | None, cluster: str | None) -> OutputTable:
    """List all connected producers of one broker or of all brokers.

    \b
    Examples:
      orbitmq producer list
      orbitmq producer list -b broker-a
    """
    rows = [
        {"broker": name, **_row(group, one)}
        for name, address in brokers_at(admin, broker, cluster).items()
        for group, members in admin.all_producers(address).items()
        for one in members
    ]
    return OutputTable([Column("broker", "Broker"), *COLUMNS], rows)


@producer.command("members", cls=Verb, short_help="Show the members of a producer group")
@click.argument("group")
@topic_argument()
@admin_command(watched=True)
def members_command(admin: Admin, group: str, topic: str) -> OutputTable:
    """Show the producers of GROUP that are connected to the brokers of TOPIC.

    \b
    Example:
      orbitmq producer members shop orders
    """
    found = admin.producer_members(group, topic)
    if not found:
        raise NothingFound(f"nobody of producer group {group} is connected to a broker of {topic}")
    return OutputTable(COLUMNS, [_row(group, one) for one in found])
