"""Router: maps request codes to handlers and turns their exceptions into error answers.

A handler gets the request and the connection it arrived on. It returns the response; or None if
there is no response or `Connection.send` sends it later; or an awaitable of either. Most handlers
are plain functions, so that the common request costs no task; a handler that must wait is an
``async def``. A handler refuses a request by raising `Refused`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any

from orbitmq._native import Command
from orbitmq.errors import CorruptStore, Fault, OrbitError, StoreIOError, StorePanic
from orbitmq.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from orbitmq.remoting.connection import Connection

__all__ = [
    "Answer",
    "Handler",
    "PeerAwaited",
    "Refused",
    "Router",
    "answer_error",
    "awaits_peer",
    "respond",
    "without_content",
]

Answer = Command | None | Awaitable[Command | None]
Handler = Callable[[Command, "Connection"], Answer]

_log = logging.getLogger(__name__)


class Refused(OrbitError):
    """A request that is answered with an error code and a remark."""

    fault = Fault.PEER

    def __init__(
        self, code: ResponseCode, remark: str | None, ext: dict[str, str] | None = None
    ) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext = ext


def respond(
    request: Command,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    *,
    ext: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Command:
    """Make the response to a request, in the request's encoding."""
    return request.respond(code, remark, ext, body)


def answer_error(request: Command, error: BaseException) -> Command:
    """Build the error response for a request whose handler raised."""
    if isinstance(error, Refused):
        return respond(request, error.code, error.remark, ext=error.ext)
    if isinstance(error, CorruptStore | StoreIOError):
        # Log the file and the offset: operators must learn of a bad disk.
        _log.error("request %d failed and is answered with an error: %s", request.code, error)
    elif not isinstance(error, OrbitError) or isinstance(error, StorePanic):
        _log.error("request %d failed", request.code, exc_info=error)
    remark = f"{type(error).__name__}: {error}"
    return respond(request, ResponseCode.SYSTEM_ERROR, remark)


def without_content(request: Command) -> Command:
    """Return the request without body and ext fields, which a response that waits does not need."""
    return Command(
        request.code, opaque=request.opaque, flag=request.flag, encoding=request.encoding
    )


class PeerAwaited:
    """An answer that waits for another peer, and so takes memory but no work meanwhile."""

    __slots__ = ("_awaited",)

    def __init__(self, awaited: Awaitable[Command | None]) -> None:
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Command | None]:
        return self._awaited.__await__()

    def close(self) -> None:
        """Close the coroutine if it was never awaited."""
        if isinstance(self._awaited, Coroutine):
            self._awaited.close()


def awaits_peer(handler: Callable[[Command, Connection], Awaitable[Command | None]]) -> Handler:
    """Mark a handler whose answers wait for other peers."""

    def marked(request: Command, connection: Connection) -> PeerAwaited:
        return PeerAwaited(handler(request, connection))

    return marked


def not_supported(request: Command, _connection: Connection) -> Command:
    """Answer a code without a handler with Java's text, including its leading blank."""
    remark = f" request type {request.code} not supported"
    return respond(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


class Router:
    """Table of handlers by request code."""

    def __init__(self, fallback: Handler = not_supported) -> None:
        self._handlers: dict[int, Handler] = {}
        self.fallback = fallback

    def add(self, handler: Handler, codes: Iterable[int]) -> None:
        """Register a handler for codes; each code has one handler."""
        for code in codes:
            if code in self._handlers:
                raise ValueError(f"request code {code} has two handlers")
            self._handlers[code] = handler

    def merge(self, other: Router, *, without: Collection[int] = ()) -> None:
        """Add all handlers of another router."""
        for code, handler in other._handlers.items():
            if code not in without:
                self.add(handler, [code])

    def guard(self, guard: Callable[[Handler], Handler]) -> None:
        """Wrap all registered handlers."""
        self._handlers = {code: guard(handler) for code, handler in self._handlers.items()}
        self.fallback = guard(self.fallback)

    @property
    def codes(self) -> Collection[int]:
        """The registered codes."""
        return self._handlers.keys()

    def find(self, code: int) -> Handler:
        """Return the handler of a code."""
        return self._handlers.get(code, self.fallback)
