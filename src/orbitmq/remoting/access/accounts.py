"""Accounts: keys, rights on topics and groups, and allowed source addresses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.protocol.names import RETRY_PREFIX, retry_topic
from orbitmq.remoting.access.addresses import AddressPattern, address_pattern
from orbitmq.remoting.access.rights import Right, right_of

__all__ = ["MIN_KEY_LENGTH", "Account"]

MIN_KEY_LENGTH = 7


@dataclass(slots=True)
class Account:
    """One ACL account."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    white_address: str | None = None
    default_topic_permission: Right = Right.DENY
    default_group_permission: Right = Right.DENY
    permissions: dict[str, Right] = field(default_factory=dict)
    """By topic; a group stands under the name of its retry topic."""
    comes_from: AddressPattern = field(default=lambda _address: False)
    entry: dict[str, Any] = field(default_factory=dict)
    """What the file says of it."""
    tag: str = field(init=False)
    """Stands for the account in messages, whose readers need not know its key."""

    def __post_init__(self) -> None:
        self.tag = hashlib.sha256(self.access_key.encode()).hexdigest()[:32]

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Account:
        """Read an account of a file; raises `ConfigError`."""
        access_key, secret_key = (
            str(entry.get("accessKey") or ""),
            str(entry.get("secretKey") or ""),
        )
        if min(len(access_key), len(secret_key)) < MIN_KEY_LENGTH:
            raise ConfigError(
                f"The accessKey={access_key} and its secretKey cannot be null and length should "
                "longer than 6"
            )
        permissions = dict(_resources(entry.get("topicPerms"), "topic"))
        for group, bits in _resources(entry.get("groupPerms"), "group"):
            permissions[retry_topic(group)] = bits
        return cls(
            access_key=access_key,
            secret_key=secret_key,
            is_admin=str(entry.get("admin", "")).lower() == "true",
            white_address=entry.get("whiteRemoteAddress") or None,
            default_topic_permission=right_of(entry.get("defaultTopicPerm")),
            default_group_permission=right_of(entry.get("defaultGroupPerm")),
            permissions=permissions,
            comes_from=address_pattern(entry.get("whiteRemoteAddress")),
            entry=dict(entry),
        )

    @property
    def may_do_everything(self) -> bool:
        """True for an administrator without permissions for particular resources."""
        return self.is_admin and not self.permissions

    def may(self, resource: str, need: Right) -> bool:
        """Return True if the account may publish or subscribe to a topic, or act as a group."""
        owned = self.permissions.get(resource)
        if owned is None:
            is_group = resource.startswith(RETRY_PREFIX)
            owned = self.default_group_permission if is_group else self.default_topic_permission
        return _allows(owned, need)

    def may_by_name(self, resource: str, need: Right) -> bool | None:
        """Return True if the file grants the right by name; None if it lacks the resource."""
        owned = self.permissions.get(resource)
        return None if owned is None else _allows(owned, need)


def _allows(owned: Right, need: Right) -> bool:
    return not owned & Right.DENY and bool(owned & need)


def _resources(lines: Iterable[str] | None, kind: str) -> Iterable[tuple[str, Right]]:
    for line in lines or ():
        name, separator, text = str(line).partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"Parse resource permission failed for {kind}:{line}")
        yield name.strip(), right_of(text)
