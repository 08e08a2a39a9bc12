"""Address patterns of white lists.

::

    10.1.2.3   fe80::1          one address          *   *.*.*.*        all
    10.1.2.3,10.1.2.4           a list               10.1.2.{3,4}       a set in the last part
    10.1.*.*   10.1.2.*         from a part on       10.1.2.1-100       a range; the parts behind
                                                                        the first variable one do
                                                                        not count
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from orbitmq.errors import ConfigError

__all__ = ["AddressPattern", "address_pattern"]

AddressPattern = Callable[[str], bool]
"""Whether an address, without its port, is meant."""

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
    """Cut ``10.1.2.{3,4}`` into its addresses."""
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
