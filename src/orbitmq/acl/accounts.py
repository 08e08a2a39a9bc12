"""Accounts: keys, rights on topics and groups, and allowed source addresses."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from orbitmq.errors import ConfigError
from orbitmq.protocol.names import RETRY_PREFIX, retry_topic

__all__ = [
    "MIN_KEY_LENGTH",
    "PERMISSION_TEXTS",
    "AclAccount",
    "AddressPattern",
    "Need",
    "Right",
    "address_pattern",
    "right_of",
]

# ---- Rights of accounts, with the numbers of RocketMQ's plain ACL


class Right(IntFlag):
    """Rights of an account on a topic, or as a group."""

    DENY = 1
    PUB = 4
    SUB = 8


Need = tuple[str, Right]
"""A resource and the right that a request needs on it. A group has the name of its retry topic."""

PERMISSION_TEXTS = {
    "DENY": Right.DENY,
    "PUB": Right.PUB,
    "SUB": Right.SUB,
    "PUB|SUB": Right.PUB | Right.SUB,
    "SUB|PUB": Right.PUB | Right.SUB,
}


def right_of(text: str | None) -> Right:
    """Return the rights for a text of a file; any unknown text means DENY."""
    return PERMISSION_TEXTS.get((text or "").strip(), Right.DENY)


# ---- Address patterns of white lists
#
# ::
#
#     10.1.2.3   fe80::1          one address          *   *.*.*.*        all
#     10.1.2.3,10.1.2.4           a list               10.1.2.{3,4}       a set in the last part
#     10.1.*.*   10.1.2.*         from a part on       10.1.2.1-100       a range; the parts behind
#                                                                         the first variable one do
#                                                                         not count

AddressPattern = Callable[[str], bool]
"""Returns True if the pattern matches an address without its port."""

_ALL = {"*", "*.*.*.*", "*:*:*:*:*:*:*:*"}


def address_pattern(text: str | None) -> AddressPattern:
    """Parse a pattern; a blank one matches no address. Raises `ConfigError`."""
    pattern = (text or "").strip()
    if not pattern:
        return lambda _address: False
    if pattern in _ALL:
        return lambda _address: True
    if "{" in pattern:
        return _any_of(_expanded(pattern), pattern)
    if "," in pattern:
        return _any_of([part.strip() for part in pattern.split(",")], pattern)
    if "*" in pattern or "-" in pattern:
        return _range(pattern)
    return _any_of([pattern], pattern)


def _bad(pattern: str) -> ConfigError:
    return ConfigError(f"Netaddress examine Exception netaddress is {pattern}")


def _any_of(texts: list[str], pattern: str) -> AddressPattern:
    try:
        wanted = frozenset(ipaddress.ip_address(text) for text in texts)
    except ValueError:
        raise _bad(pattern) from None

    def is_one(address: str) -> bool:
        try:
            return ipaddress.ip_address(address) in wanted
        except ValueError:
            return False

    return is_one


def _expanded(pattern: str) -> list[str]:
    """Return the addresses in ``10.1.2.{3,4}``."""
    head, _, tail = pattern.partition("{")
    parts = head.count(".") == 3 or ":" in head
    if not parts or not tail.endswith("}"):
        raise _bad(pattern)
    return [head + part.strip() for part in tail[:-1].split(",")]


def _range(pattern: str) -> AddressPattern:
    separator, base, top, count = (":", 16, 0xFFFF, 8) if ":" in pattern else (".", 10, 255, 4)
    parts = pattern.split(separator)
    variable = next(i for i, part in enumerate(parts) if "*" in part or "-" in part)
    if variable == 0 or len(parts) > count or (base == 10 and len(parts) != count):
        raise _bad(pattern)
    try:
        fixed = [int(part, base) for part in parts[:variable]]
        low, high = _bounds(parts[variable], base, top)
    except ValueError:
        raise _bad(pattern) from None
    if not 0 <= low <= high <= top or any(part not in ("*", "") for part in parts[variable + 1 :]):
        raise _bad(pattern)

    def is_in(address: str) -> bool:
        numbers = _numbers(address, base)
        if numbers is None or numbers[:variable] != fixed:
            return False
        return low <= numbers[variable] <= high

    return is_in


def _bounds(part: str, base: int, top: int) -> tuple[int, int]:
    if part == "*":
        return 0, top
    first, _, last = part.partition("-")
    return int(first, base), int(last, base)


def _numbers(address: str, base: int) -> list[int] | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    if base == 10 and parsed.version == 4:
        return list(parsed.packed)
    if base == 16 and parsed.version == 6:
        packed = parsed.packed
        return [int.from_bytes(packed[at : at + 2]) for at in range(0, 16, 2)]
    return None


MIN_KEY_LENGTH = 7


@dataclass(slots=True)
class AclAccount:
    """One ACL account."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    white_address: str | None = None
    default_topic_permission: Right = Right.DENY
    default_group_permission: Right = Right.DENY
    permissions: dict[str, Right] = field(default_factory=dict)
    """Rights by topic; a group has the name of its retry topic."""
    comes_from: AddressPattern = field(default=lambda _address: False)
    entry: dict[str, Any] = field(default_factory=dict)
    """Entry of the account in its file."""
    tag: str = field(init=False)
    """Id of the account in stored messages, so that their readers do not see its key."""

    def __post_init__(self) -> None:
        self.tag = hashlib.sha256(self.access_key.encode()).hexdigest()[:32]

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> AclAccount:
        """Build an account from an entry of a file; raises `ConfigError`."""
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
        """Return True if the file grants the right by name, None if the resource is not named."""
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
