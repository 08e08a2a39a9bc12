"""Addresses that always work.

A broker that runs beside its nameserver and was not told by which address to be known (no
``brokerIP1``) can be reached wherever its nameserver can. So each client is given the host by which
*it* reached the nameserver, with the broker's port: behind a published container port, a tunnel or
on another interface, the route leads back the way the question came.

A broker says so with one more field in its registration, ``orbitAnyHost=true``, and is believed
when the registration comes from this machine. Inside, the registered address stays its name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from orbitmq.remoting.connection import Connection

__all__ = ["from_this_machine", "seen_from"]


def _plain(host: str) -> str:
    """Write an IPv4 address that a dual-stack socket has wrapped as what it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return host


def from_this_machine(connection: Connection) -> bool:
    """Say whether a peer runs on the machine we run on."""
    remote, local = _plain(connection.remote[0]), _plain(connection.local[0])
    try:
        return remote == local or ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


def seen_from(connection: Connection, is_any_host: Callable[[str], bool]) -> Callable[[str], str]:
    """Return the function that turns registered addresses into those a client is given."""
    host = _plain(connection.local[0])
    if ":" in host:
        host = f"[{host}]"

    def translate(address: str) -> str:
        if not host or not is_any_host(address):
            return address
        return f"{host}:{address.rpartition(':')[2]}"

    return translate
