"""Bodies of the nameserver's answers, with members in Java's order."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from orbitmq._native import Command, dumps_lenient
from orbitmq.nameserver.routes import BrokerData, TopicQueues
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import respond

__all__ = [
    "broker_json",
    "from_this_machine",
    "queue_json",
    "seen_from",
    "standard_json",
    "topic_list",
]


def topic_list(request: Command, topics: Iterable[str], broker: str | None = None) -> Command:
    """Build an answer with topic names, and a broker address for further requests if known."""
    value: dict[str, Any] = {} if broker is None else {"brokerAddr": broker}
    return respond(request, body=dumps_lenient({**value, "topicList": list(topics)}))


def broker_json(broker: BrokerData, given: Callable[[str], str]) -> dict[str, Any]:
    """Describe a broker with the addresses for one client."""
    return {
        "brokerAddrs": {
            broker_id: given(address) for broker_id, address in sorted(broker.addresses.items())
        },
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
    }


def queue_json(queues: TopicQueues) -> dict[str, Any]:
    """Describe a broker's queues of a topic."""
    return {
        "brokerName": queues.broker_name,
        "perm": queues.perm,
        "readQueueNums": queues.read_queue_nums,
        "topicSysFlag": queues.topic_sys_flag,
        "writeQueueNums": queues.write_queue_nums,
    }


def standard_json(value: dict[str, Any]) -> bytes:
    """Write JSON that any reader accepts: quoted, sorted, ASCII, with Java's capital digits."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"[^ -~]", _escaped, text).encode()


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


# ---- Broker addresses as seen from each client
#
# A broker on the nameserver's machine without a configured ``brokerIP1`` is reachable on every
# address of its nameserver. So each client gets the host by which *it* reached the nameserver,
# with the broker's port: behind a published container port, a tunnel or on another interface, the
# route uses the same path as the request.
#
# A broker asks for this by one more field in its registration, ``orbitAnyHost=true``; the
# nameserver accepts it from its own machine only. Internally the registered address stays the
# broker's name.


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
