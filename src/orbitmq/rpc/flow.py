"""Flows and the operations they yield.

A flow yields an operation: `Call`, `Notify` or `Pause`. The driver carries the operation out and
sends the result into the flow. If the operation fails, the driver throws the error into the flow,
as `ConnectionLost` or `RequestTimeout`. In the end the flow returns its own result::

    def ask(address: str) -> Flow[bytes]:
        response = yield Call(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return response.body

Operations are never changed after their construction. Their classes are not frozen, because that
would cost a microsecond per object.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

__all__ = ["Call", "Encoding", "Flow", "Notify", "Pause", "Wish"]

T = TypeVar("T")
Encoding = Literal["json", "binary"]


@dataclass(slots=True)
class Call:
    """Sends a request and waits for the response.

    The result is the response, a `Command`; an error code in the response raises nothing.
    """

    address: str
    code: int
    ext: dict[str, str] | None = None
    body: bytes | None = None
    timeout_ms: float = 3000
    encoding: Encoding = "json"
    """Format of the request's header; the response has the same. Sends use the binary format."""


@dataclass(slots=True)
class Notify:
    """Sends a one-way request, without waiting for a response; the flow receives None."""

    address: str
    code: int
    ext: dict[str, str] | None = None
    body: bytes | None = None
    encoding: Encoding = "json"
    remark: str | None = None
    """Text that the receiver may log."""


@dataclass(slots=True)
class Pause:
    """Waits for `ms` milliseconds; the flow receives None."""

    ms: float


Wish = Call | Notify | Pause
Flow = Generator[Wish, Any, T]
"""Generator that contains a decision: yields operations, receives results and returns a `T`."""
