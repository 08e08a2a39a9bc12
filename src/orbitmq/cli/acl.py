"""``orbitmq acl``: ACL accounts of brokers with access control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Done, Facts, OutputTable
from orbitmq.cli.core.values import BROKER, CLUSTER, brokers_at

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin

__all__ = ["acl"]

PERM = click.Choice(["DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB"])


@click.group(short_help="Show and change ACL accounts")
def acl() -> None:
    """Show and change the ACL accounts of brokers with access control (aclEnable)."""


@acl.command("list", cls=Verb, short_help="List accounts")
@BROKER
@CLUSTER
@click.option("--show-secrets", is_flag=True, help="Print secret keys instead of ***.")
@admin_command()
def list_command(
    admin: Admin, broker: str | None, cluster: str | None, show_secrets: bool
) -> Facts:
    """List the ACL accounts of brokers, and the addresses whose requests need no signature.

    \b
    Example:
      orbitmq acl list -b broker-a
    """
    accounts: list[dict[str, Any]] = []
    addresses: list[dict[str, Any]] = []
    for name, address in brokers_at(admin, broker, cluster).items():
        config = admin.access_config(address)
        addresses += [{"broker": name, "address": text} for text in config.white_addresses]
        accounts += [
            {
                "broker": name,
                "accessKey": one.access_key,
                "secretKey": one.secret_key if show_secrets else "***",
                "admin": one.admin,
                "whiteRemoteAddress": one.white_remote_address,
                "defaultTopicPerm": one.default_topic_perm,
                "defaultGroupPerm": one.default_group_perm,
                "topicPerms": list(one.topic_perms),
                "groupPerms": list(one.group_perms),
            }
            for one in config.accounts
        ]
    columns = [
        Column("broker", "Broker"),
        Column("accessKey", "Access key"),
        Column("secretKey", "Secret key"),
        Column("admin", "Admin"),
        Column("whiteRemoteAddress", "From"),
        Column("defaultTopicPerm", "Topics"),
        Column("defaultGroupPerm", "Groups"),
        Column("topicPerms", "Topic by topic"),
        Column("groupPerms", "Group by group"),
    ]
    white = OutputTable(
        [Column("broker", "Broker"), Column("address", "Let in unsigned")], addresses
    )
    return Facts({"accounts": OutputTable(columns, accounts), "whiteAddresses": white})


@acl.command("set", cls=Verb, short_help="Add or change an account")
@click.argument("account_key", metavar="ACCESS_KEY")
@BROKER
@CLUSTER
@click.option(
    "-s",
    "--account-secret",
    required=True,
    help="Secret key of the account, at least seven characters.",
)
@click.option(
    "--admin/--no-admin",
    "is_admin",
    default=None,
    help="Allow or deny administrative requests. [default of a new account: no]",
)
@click.option(
    "--from",
    "white_address",
    metavar="ADDRESS",
    help="Address from which the account's requests need no signature.",
)
@click.option(
    "--topics", "topic_perm", type=PERM, help="Permission for topics without their own --topic."
)
@click.option(
    "--groups", "group_perm", type=PERM, help="Permission for groups without their own --group."
)
@click.option(
    "--topic",
    "topic_perms",
    multiple=True,
    metavar="TOPIC=PERM",
    help="Permission for one topic; may be given several times.",
)
@click.option(
    "--group",
    "group_perms",
    multiple=True,
    metavar="GROUP=PERM",
    help="Permission for one group; may be given several times.",
)
@admin_command()
def set_command(
    admin: Admin,
    account_key: str,
    broker: str | None,
    cluster: str | None,
    account_secret: str,
    is_admin: bool | None,
    white_address: str | None,
    topic_perm: str | None,
    group_perm: str | None,
    topic_perms: tuple[str, ...],
    group_perms: tuple[str, ...],
) -> Done:
    """Add an ACL account to brokers, or change it.

    For an existing account, options that are not given keep their values. --topic replaces all its
    permissions for single topics, --group those for single groups.

    \b
    Example:
      orbitmq acl set shop-front -c DefaultCluster --account-secret 12345678 --topics DENY \\
          --topic orders=PUB --groups SUB
    """
    from dataclasses import replace

    from orbitmq.admin.accounts import Account

    account = Account(
        access_key=account_key,
        secret_key=account_secret,
        white_remote_address=white_address,
        admin=bool(is_admin),
        default_topic_perm=topic_perm,
        default_group_perm=group_perm,
        topic_perms=tuple(part for text in topic_perms for part in text.split(",")),
        group_perms=tuple(part for text in group_perms for part in text.split(",")),
    )
    places = brokers_at(admin, broker, cluster, whole=False)
    for address in places.values():
        if is_admin is None:  # a request always sets the flag, so send the present value
            known = {one.access_key: one.admin for one in admin.access_config(address).accounts}
            account = replace(account, admin=known.get(account_key, False))
        admin.put_account(address, account)
    text = f"account {account_key} is set on {', '.join(places)}"
    return Done(text, {"accessKey": account_key, "brokers": list(places)})


@acl.command("delete", cls=Verb, short_help="Delete an account")
@click.argument("account_key", metavar="ACCESS_KEY")
@BROKER
@CLUSTER
@admin_command()
def delete_command(admin: Admin, account_key: str, broker: str | None, cluster: str | None) -> Done:
    """Delete an ACL account from brokers.

    \b
    Example:
      orbitmq acl delete shop-front -c DefaultCluster
    """
    from orbitmq.errors import BrokerRefused
    from orbitmq.protocol.codes import ResponseCode

    places = brokers_at(admin, broker, cluster, whole=False)
    for address in places.values():
        try:
            admin.delete_account(address, account_key)
        except BrokerRefused as error:
            if error.code != ResponseCode.DELETE_ACL_CONFIG_FAILED:
                raise
            raise NothingFound(str(error)) from error
    text = f"account {account_key} is deleted from {', '.join(places)}"
    return Done(text, {"accessKey": account_key, "brokers": list(places)})


@acl.command(
    "white-addresses", cls=Verb, short_help="Set the addresses whose requests need no signature"
)
@click.argument("addresses", metavar="ADDRESS,…")
@BROKER
@CLUSTER
@click.option(
    "--acl-file", metavar="PATH", help="Path of the ACL file to change, on the broker's machine."
)
@admin_command()
def white_addresses_command(
    admin: Admin, addresses: str, broker: str | None, cluster: str | None, acl_file: str | None
) -> Done:
    """Replace the list of addresses from which brokers accept requests without a signature.

    \b
    Example:
      orbitmq acl white-addresses '10.0.0.*,192.168.1.7' -b broker-a
    """
    listed = [address.strip() for address in addresses.split(",") if address.strip()]
    places = brokers_at(admin, broker, cluster, whole=False)
    for address in places.values():
        admin.set_white_addresses(address, listed, acl_file=acl_file)
    text = f"let in unsigned by {', '.join(places)}: {', '.join(listed)}"
    return Done(text, {"addresses": listed, "brokers": list(places)})


@acl.command("versions", cls=Verb, short_help="Show the versions of ACL files")
@BROKER
@CLUSTER
@admin_command()
def versions_command(admin: Admin, broker: str | None, cluster: str | None) -> OutputTable:
    """Show the versions of the ACL files that brokers have loaded.

    \b
    Example:
      orbitmq acl versions -c DefaultCluster
    """
    rows = []
    for name, address in brokers_at(admin, broker, cluster).items():
        found = admin.access_versions(address)
        rows += [
            {
                "cluster": found.cluster,
                "broker": name,
                "address": found.address,
                "file": file,
                "version": version.counter,
                "updatedMs": version.timestamp,
            }
            for file, version in found.files.items()
        ]
    columns = [
        Column("cluster", "Cluster"),
        Column("broker", "Broker"),
        Column("address", "Address"),
        Column("file", "File"),
        Column("version", "Version", "number"),
        Column("updatedMs", "Updated", "time"),
    ]
    return OutputTable(columns, rows)
