"""Accounts: their keys, what they may do with topics and groups, and where they may come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.protocol.names import RETRY_PREFIX, retry_topic
from orbitmq.remoting.access.addresses import AddressPattern, address_pattern

__all__ = ["PUB", "SUB", "Account", "permission"]

DENY, PUB, SUB = 1, 4, 8
MIN_KEY_LENGTH = 7

_PERMISSIONS = {"DENY": DENY, "PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB}


def permission(text: str | None) -> int:
    """Return the bits of a permission; what is none is a denial."""
    return _PERMISSIONS.get((text or "").strip(), DENY)


@dataclass(slots=True)
class Account:
    """Somebody with a key."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    white_address: str | None = None
    default_topic_permission: int = DENY
    default_group_permission: int = DENY
    permissions: dict[str, int] = field(default_factory=dict)
    """By topic; a group stands under the name of its retry topic."""
    comes_from: AddressPattern = field(default=lambda _address: False)
    entry: dict[str, Any] = field(default_factory=dict)
    """What the file says of it."""

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
            default_topic_permission=permission(entry.get("defaultTopicPerm")),
            default_group_permission=permission(entry.get("defaultGroupPerm")),
            permissions=permissions,
            comes_from=address_pattern(entry.get("whiteRemoteAddress")),
            entry=dict(entry),
        )

    @property
    def may_do_everything(self) -> bool:
        """Whether it is an administrator whom nothing is said of in particular."""
        return self.is_admin and not self.permissions

    def may(self, resource: str, need: int) -> bool:
        """Whether the account may publish to a topic, or subscribe to a topic or as a group."""
        owned = self.permissions.get(resource)
        if owned is None:
            is_group = resource.startswith(RETRY_PREFIX)
            owned = self.default_group_permission if is_group else self.default_topic_permission
        return not owned & DENY and bool(owned & need)


def _resources(lines: Iterable[str] | None, kind: str) -> Iterable[tuple[str, int]]:
    for line in lines or ():
        name, separator, text = str(line).partition("=")
        if not separator or not name.strip():
            raise ConfigError(f"Parse resource permission failed for {kind}:{line}")
        yield name.strip(), permission(text)
