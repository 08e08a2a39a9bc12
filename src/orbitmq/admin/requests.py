"""Requests to one server or to the first that answers; an error code becomes an exception."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from orbitmq._native import Command, loads_lenient
from orbitmq.errors import BrokerRefused, NoRoute, RemotingError
from orbitmq.protocol.codes import ResponseCode
from orbitmq.rpc.flow import Call, Flow
from orbitmq.rpc.refusals import access_hint

__all__ = ["TIMEOUT_MS", "Json", "ask", "ask_nameserver", "read"]

Json = dict[str, Any]

TIMEOUT_MS = 6000
QUERY_TIMEOUT_MS = 18_000
"""A search by key may have to look through many index files."""


def ask(
    address: str,
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes | None = None,
    *,
    also: Collection[int] = (),
    timeout_ms: float = TIMEOUT_MS,
) -> Flow[Command]:
    """Send a request; raise `BrokerRefused` for any code but success and those of `also`."""
    response: Command = yield Call(address, code, ext, body, timeout_ms)
    if response.code != ResponseCode.SUCCESS and response.code not in also:
        hint = access_hint(response.remark)
        raise BrokerRefused(response.code, response.remark, address=address, hint=hint)
    return response


def ask_nameserver(
    nameservers: Sequence[str],
    code: int,
    ext: dict[str, str] | None = None,
    *,
    also: Collection[int] = (),
) -> Flow[Command]:
    """Send a request to the nameservers in turn until one answers."""
    errors = []
    for address in nameservers:
        try:
            return (yield from ask(address, code, ext, also=also))
        except RemotingError as error:
            errors.append(str(error))
    raise NoRoute(
        f"no nameserver answers: {'; '.join(errors) or 'none is configured'}. "
        "Check the addresses, and that a nameserver runs there",
        cause="no_nameserver",
    )


def read(response: Command) -> Json:
    """Return the JSON object of a response's body, or an empty one without a body."""
    value = loads_lenient(response.body) if response.body else None
    return value if isinstance(value, dict) else {}
