"""Accounts of brokers with access control: list, change and delete them.

A broker whose access control is off does not answer some of these requests at all. So the timeout
is shorter than elsewhere, and the error of a timeout names this cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orbitmq._native import Command, loads_lenient
from orbitmq.admin.requests import Json, ask, read
from orbitmq.errors import RequestTimeout
from orbitmq.protocol.bodies import DataVersion
from orbitmq.protocol.codes import RequestCode
from orbitmq.rpc.flow import Flow

__all__ = [
    "AccessConfig",
    "AccessVersions",
    "Account",
    "access_config",
    "access_versions",
    "delete_account",
    "put_account",
    "set_white_addresses",
]

ANSWER_MS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account of ``plain_acl.yml``; a permission is ``DENY``, ``PUB``, ``SUB`` or ``PUB|SUB``.

    >>> Account(access_key="shop-7", topic_perms=("orders=PUB",)).admin
    False
    """

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: tuple[str, ...] = ()
    group_perms: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Json) -> Account:
        """Return the account that a JSON object describes."""
        return cls(
            access_key=value.get("accessKey") or "",
            secret_key=value.get("secretKey"),
            white_remote_address=value.get("whiteRemoteAddress"),
            admin=bool(value.get("admin", False)),
            default_topic_perm=value.get("defaultTopicPerm"),
            default_group_perm=value.get("defaultGroupPerm"),
            topic_perms=tuple(value.get("topicPerms") or ()),
            group_perms=tuple(value.get("groupPerms") or ()),
        )

    def as_ext(self) -> dict[str, str]:
        """Return the fields of a request; fields without a value are omitted and stay unchanged."""
        fields = {
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "whiteRemoteAddress": self.white_remote_address,
            "admin": "true" if self.admin else "false",
            "defaultTopicPerm": self.default_topic_perm,
            "defaultGroupPerm": self.default_group_perm,
            "topicPerms": ",".join(self.topic_perms) or None,
            "groupPerms": ",".join(self.group_perms) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """Access rules of a broker: addresses accepted without a signature, and accounts."""

    white_addresses: tuple[str, ...]
    accounts: tuple[Account, ...]


@dataclass(frozen=True, slots=True)
class AccessVersions:
    """Versions of a broker's account files."""

    cluster: str
    broker_name: str
    address: str
    files: dict[str, DataVersion]


def access_config(address: str) -> Flow[AccessConfig]:
    """Return a broker's accounts, with secrets, and addresses it accepts without a signature."""
    value = read((yield from _ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)))
    accounts = tuple(Account.from_json(one) for one in value.get("plainAccessConfigs") or ())
    return AccessConfig(tuple(value.get("globalWhiteAddrs") or ()), accounts)


def access_versions(address: str) -> Flow[AccessVersions]:
    """Return the versions of a broker's account files."""
    response = yield from _ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    ext = response.ext or {}
    files = loads_lenient((ext.get("allAclFileVersion") or "{}").encode())
    return AccessVersions(
        ext.get("clusterName") or "",
        ext.get("brokerName") or "",
        ext.get("brokerAddr") or address,
        {str(name): DataVersion.from_json(one) for name, one in sorted(files.items())},
    )


def put_account(address: str, account: Account) -> Flow[None]:
    """Add an account to a broker, or change the one with its access key."""
    yield from _ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account.as_ext())


def delete_account(address: str, access_key: str) -> Flow[None]:
    """Delete an account from a broker."""
    yield from _ask(address, RequestCode.DELETE_ACL_CONFIG, {"accessKey": access_key})


def set_white_addresses(
    address: str, white_addresses: Iterable[str], acl_file: str | None = None
) -> Flow[None]:
    """Replace the addresses that a broker accepts without a signature."""
    ext = {"globalWhiteAddrs": ",".join(white_addresses)}
    if acl_file is not None:
        ext["aclFileFullPath"] = acl_file
    yield from _ask(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, ext)


def _ask(address: str, code: int, ext: dict[str, str] | None = None) -> Flow[Command]:
    try:
        return (yield from ask(address, code, ext, timeout_ms=ANSWER_MS))
    except RequestTimeout as error:
        raise RequestTimeout(
            f"{error}: a broker whose access control is off does not answer this; "
            "check its setting aclEnable"
        ) from error
