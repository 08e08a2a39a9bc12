"""Client: one connection per address, opened at first use and reopened after a loss."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Literal

from orbitmq._native import Command
from orbitmq.errors import ConnectionLost, RequestTimeout
from orbitmq.remoting.address import CONNECT_TIMEOUT_S, split_address
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.hooks import RequestHook, prepare
from orbitmq.remoting.router import Router

__all__ = ["RemotingClient"]

CLOSING_GRACE_S = 1.0
NOTIFY_TIMEOUT_MS = 3000


class RemotingClient:
    """Sends requests to servers, and answers requests that servers send back.

    `hooks` run on every request before it is sent; `on_close` is called for closed connections.
    """

    def __init__(
        self,
        router: Router | None = None,
        *,
        hooks: Sequence[RequestHook] = (),
        tls: ssl.SSLContext | None = None,
        on_close: Callable[[Connection], None] | None = None,
    ) -> None:
        self._router = router or Router()
        self.hooks = tuple(hooks)
        self._tls = tls
        self._on_close = on_close
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    def open_connection(self, address: str) -> Connection | None:
        """Return the open connection to an address, or None."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_open else None

    def address_of(self, connection: Connection) -> str | None:
        """Return the address of a connection, or None if the connection was replaced."""
        for address, current in self._connections.items():
            if current is connection:
                return address
        return None

    def ready(self, address: str) -> Connection | None:
        """Return the connection to an address if it can send a request at once, or None."""
        connection = self._connections.get(address)
        if connection is None or self.hooks or not connection.takes_requests:
            return None
        return connection

    async def connection(self, address: str) -> Connection:
        """Return the connection to an address, and open it if necessary."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        if self._closed:
            raise ConnectionLost("this client is closed")
        attempt = self._connecting.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = attempt
            attempt.add_done_callback(lambda _: self._connecting.pop(address, None))
        # Callers share one attempt, which must continue when one of them is cancelled.
        return await asyncio.shield(attempt)

    async def _connect(self, address: str) -> Connection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                transport, connection = await loop.create_connection(
                    lambda: Connection(self._router, on_close=self._on_close),
                    host,
                    port,
                    ssl=self._tls,
                )
        except TimeoutError:
            text = f"cannot connect to {address} within {CONNECT_TIMEOUT_S:.0f} s"
            raise ConnectionLost(text) from None
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {address}: {error}") from error
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[address] = connection
        return connection

    async def invoke(
        self,
        address: str,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        timeout_ms: float = 3000,
        encoding: Literal["json", "binary"] = "json",
    ) -> Command:
        """Send a request to an address and wait for its response."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = await self._connect_within(address, timeout_ms)
        if connection.is_write_paused:
            await connection.writable(timeout_ms)
        if self.hooks:
            ext = prepare(self.hooks, code, ext, body)
        opaque = connection.next_opaque()
        frame = Command(code, opaque=opaque, ext=ext, body=body, encoding=encoding).encode()
        try:
            return await connection.request(frame, opaque, timeout_ms)
        except RequestTimeout:
            text = f"{address} did not answer request {code} within {timeout_ms:.0f} ms"
            raise RequestTimeout(text) from None

    async def _connect_within(self, address: str, timeout_ms: float) -> Connection:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.connection(address)
        except TimeoutError:
            text = f"cannot connect to {address} within {timeout_ms:.0f} ms"
            raise ConnectionLost(text) from None

    async def notify(
        self,
        address: str,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        encoding: Literal["json", "binary"] = "json",
        remark: str | None = None,
    ) -> None:
        """Send a one-way request; waits while the peer does not read."""
        connection = await self.connection(address)
        if connection.is_write_paused:
            # `Connection.notify` would drop it without an error.
            await connection.writable(NOTIFY_TIMEOUT_MS)
        if self.hooks:
            ext = prepare(self.hooks, code, ext, body)
        connection.notify(code, ext=ext, body=body, encoding=encoding, remark=remark)

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for attempt in list(self._connecting.values()):
            attempt.cancel()
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()
        # TLS connections end with an exchange, which needs the loop to run a little longer.
        await asyncio.gather(
            *(connection.wait_closed(CLOSING_GRACE_S) for connection in connections)
        )
