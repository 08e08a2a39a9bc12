"""Choice of the address under which a machine registers itself.

RocketMQ's rule considers all interfaces except bridges and loopback. The first existing one of
these addresses is used:

1. the first IPv4 address outside ``127.0`` and ``192.168``
2. the last IPv4 address
3. the first IPv6 address, in brackets
4. the address of the host's name
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from orbitmq.errors import ConfigError

__all__ = ["choose_address", "interface_addresses", "local_address", "resolved"]

_SIOCGIFADDR = 0x8915
_NETWORKS = Path("/sys/class/net")
_IPV6_TABLE = Path("/proc/net/if_inet6")


def local_address() -> str:
    """Return the address of this machine that is sent to other machines."""
    chosen = choose_address(interface_addresses())
    if chosen is not None:
        return chosen
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def choose_address(addresses: Iterable[str]) -> str | None:
    """Apply the rule to the addresses of all interfaces, in their order."""
    usable = [a for a in map(ipaddress.ip_address, addresses) if not a.is_loopback]
    of_v4 = [str(address) for address in usable if address.version == 4]
    for address in of_v4:
        if not address.startswith(("127.0", "192.168")):
            return address
    if of_v4:
        return of_v4[-1]
    of_v6 = [str(address) for address in usable if address.version == 6]
    return f"[{of_v6[0]}]" if of_v6 else None


def resolved(host: str) -> str:
    """Return the IP address of a host name or of an address, which may be in brackets."""
    bare = host.strip("[]")
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(bare))
    try:
        found = socket.getaddrinfo(bare, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"brokerIP1={host} is neither an IP address nor a name that this machine resolves "
            f"({error}); messages are stored with the address of their broker"
        ) from None
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return str(found[0][4][0])


def interface_addresses() -> list[str]:
    """Return the addresses of this machine's interfaces except bridges; works on Linux only."""
    names = [
        name for _, name in socket.if_nameindex() if not (_NETWORKS / name / "bridge").exists()
    ]
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name in names:
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # an interface without an IPv4 address
                continue
            addresses.append(socket.inet_ntoa(answer[20:24]))
    try:
        table = _IPV6_TABLE.read_text()
    except OSError:
        return addresses
    for line in table.splitlines():
        digits, *_, name = line.split()
        if name in names:
            addresses.append(str(ipaddress.IPv6Address(int(digits, 16))))
    return addresses
