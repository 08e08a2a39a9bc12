"""Broker addresses as seen from each client.

A broker on the nameserver's machine without a configured ``brokerIP1`` is reachable on every
address of its nameserver. So each client gets the host by which *it* reached the nameserver, with
the broker's port: behind a published container port, a tunnel or on another interface, the route
uses the same path as the request.

A broker asks for this by one more field in its registration, ``orbitAnyHost=true``; the nameserver
accepts it from its own machine only. Internally the registered address stays the broker's name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from orbitmq.remoting.connection import Connection

__all__ = ["from_this_machine", "seen_from"]


def _plain(host: str) -> str:
    """Return the IPv4 address inside an IPv4-mapped IPv6 address; others unchanged."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return host


def from_this_machine(connection: Connection) -> bool:
    """Return True if a peer runs on this machine."""
    remote, local = _plain(connection.remote[0]), _plain(connection.local[0])
    try:
        return remote == local or ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


def seen_from(connection: Connection, is_any_host: Callable[[str], bool]) -> Callable[[str], str]:
    """Return a function that maps registered addresses to the addresses for one client."""
    host = _plain(connection.local[0])
    if ":" in host:
        host = f"[{host}]"

    def translate(address: str) -> str:
        if not host or not is_any_host(address):
            return address
        return f"{host}:{address.rpartition(':')[2]}"

    return translate
