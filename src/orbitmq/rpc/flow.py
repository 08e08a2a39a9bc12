"""What a flow may wish for.

A flow yields one of these and is sent the result; a wish that fails is thrown into it as
`ConnectionLost` or `RequestTimeout`. It returns its own result::

    def ask(address: str) -> Flow[bytes]:
        response = yield Call(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return response.body

Wishes are not changed once made; they are not frozen because that would cost each one a
microsecond.
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
    """Send a request and wait for its response, whatever its code; the result is the `Command`."""

    address: str
    code: int
    ext: dict[str, str] | None = None
    body: bytes | None = None
    timeout_ms: float = 3000
    encoding: Encoding = "json"
    """How the header travels; the answer's follows it. Binary is what sends are made of."""


@dataclass(slots=True)
class Notify:
    """Send a request that wants no response; the result is None."""

    address: str
    code: int
    ext: dict[str, str] | None = None
    body: bytes | None = None
    encoding: Encoding = "json"
    remark: str | None = None
    """A sentence for whoever reads the other side's log."""


@dataclass(slots=True)
class Pause:
    """Let some time pass; the result is None."""

    ms: float


Wish = Call | Notify | Pause
Flow = Generator[Wish, Any, T]
"""A decision that yields wishes, receives their results and returns a `T`."""
