"""Nameservers: their settings, key-value table, and write permissions of brokers.

Nameservers do not exchange data, so each change is sent to every nameserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.admin.requests import ask, ask_nameserver, read
from orbitmq.config import decode, format_properties, parse_properties
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.rpc.flow import Flow

__all__ = [
    "allow_writes",
    "delete_key_value",
    "deny_writes",
    "key_value",
    "key_values",
    "nameserver_configs",
    "put_key_value",
    "update_nameserver_configs",
]


def nameserver_configs(nameservers: Sequence[str]) -> Flow[dict[str, dict[str, str]]]:
    """Return all settings of each nameserver, under RocketMQ's keys."""
    configs = {}
    for address in nameservers:
        response = yield from ask(address, RequestCode.GET_NAMESRV_CONFIG)
        configs[address] = parse_properties(decode(response.body))
    return configs


def update_nameserver_configs(
    nameservers: Sequence[str], settings: Mapping[str, str]
) -> Flow[None]:
    """Change settings of all nameservers while they run."""
    body = format_properties(settings).encode()
    for address in nameservers:
        yield from ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=body)


def key_value(nameservers: Sequence[str], namespace: str, key: str) -> Flow[str | None]:
    """Return a value of the nameservers' table, or None for a missing key."""
    response = yield from ask_nameserver(
        nameservers,
        RequestCode.GET_KV_CONFIG,
        {"namespace": namespace, "key": key},
        also=(ResponseCode.QUERY_NOT_FOUND,),
    )
    return response.get_ext("value") if response.code == ResponseCode.SUCCESS else None


def key_values(nameservers: Sequence[str], namespace: str) -> Flow[dict[str, str]]:
    """Return all keys and values of a namespace of the nameservers' table."""
    response = yield from ask_nameserver(
        nameservers,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
        {"namespace": namespace},
        also=(ResponseCode.QUERY_NOT_FOUND,),
    )
    if response.code != ResponseCode.SUCCESS:
        return {}
    table = read(response).get("table") or {}
    return {str(key): str(value) for key, value in sorted(table.items())}


def put_key_value(nameservers: Sequence[str], namespace: str, key: str, value: str) -> Flow[None]:
    """Put a value into the table of every nameserver."""
    ext = {"namespace": namespace, "key": key, "value": value}
    for address in nameservers:
        yield from ask(address, RequestCode.PUT_KV_CONFIG, ext)


def delete_key_value(nameservers: Sequence[str], namespace: str, key: str) -> Flow[None]:
    """Delete a key from the table of every nameserver."""
    for address in nameservers:
        yield from ask(address, RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key})


def deny_writes(nameservers: Sequence[str], broker: str) -> Flow[dict[str, int]]:
    """Remove a broker's write permission on every nameserver; return counts of topics.

    Topics that the broker registers again afterwards can be written again.
    """
    return (
        yield from _change(
            nameservers, RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker, "wipeTopicCount"
        )
    )


def allow_writes(nameservers: Sequence[str], broker: str) -> Flow[dict[str, int]]:
    """Undo `deny_writes`."""
    return (
        yield from _change(
            nameservers, RequestCode.ADD_WRITE_PERM_OF_BROKER, broker, "addTopicCount"
        )
    )


def _change(nameservers: Sequence[str], code: int, broker: str, count: str) -> Flow[dict[str, int]]:
    counts = {}
    for address in nameservers:
        response = yield from ask(address, code, {"brokerName": broker})
        counts[address] = int(response.get_ext(count) or 0)
    return counts
