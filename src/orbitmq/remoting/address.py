"""Server addresses and connection timeouts, shared by blocking and asyncio clients."""

from __future__ import annotations

__all__ = ["CONNECT_TIMEOUT_S", "split_address"]

CONNECT_TIMEOUT_S = 3.0


def split_address(address: str) -> tuple[str, int]:
    """Take ``host:port`` apart; an IPv6 host may stand in brackets."""
    host, colon, port = address.strip().rpartition(":")
    if "," in host:
        raise ValueError(f"{address!r} is not one address of the form host:port; put ; between two")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return host.strip("[]"), int(port)
