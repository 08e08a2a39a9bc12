"""Server: listening sockets and accepted connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from orbitmq.remoting.coalesce import WriteCoalescer
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.limits import ServerLimits
from orbitmq.remoting.listener import SocketListener
from orbitmq.remoting.router import Router
from orbitmq.remoting.tls import ServerTls

__all__ = ["Server"]

_log = logging.getLogger(__name__)

IDLE_SWEEP_S = 5.0
CLOSING_GRACE_S = 2.0


class Server:
    """Accepts connections and has a router answer their requests.

    Without `tls` it accepts only plain connections. Servers with the same `limits` share them.
    """

    def __init__(
        self,
        router: Router,
        *,
        max_idle_s: float = 120,
        on_close: Callable[[Connection], None] | None = None,
        tls: ServerTls | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self._router = router
        self._max_idle_s = max_idle_s
        self._on_close = on_close
        self._tls = tls
        self._accepting: SocketListener | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._all_closed = asyncio.Event()
        self._limits = limits or ServerLimits()
        self.connections: set[Connection] = set()

    async def listen(self, host: str, port: int) -> int:
        """Listen on an address and return the port; port 0 selects a free port."""
        if self._accepting is None:
            self._accepting = SocketListener(self._accept, self._tls, self._limits.newcomers)
            WriteCoalescer.of(asyncio.get_running_loop()).stay_awake()
        bound = await self._accepting.listen(host, port)
        if self._sweeper is None:
            sweep = self._close_idle(self._accepting)
            self._sweeper = asyncio.get_running_loop().create_task(sweep)
        return bound

    def _accept(self) -> Connection:
        return Connection(
            self._router,
            on_open=self._opened,
            on_close=self._closed,
            limits=self._limits,
        )

    def _opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        self._limits.newcomers.add(connection, connection.abort_unless_asked)
        self._all_closed.clear()

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._limits.newcomers.discard(connection)
        if not self.connections:
            self._all_closed.set()
        if self._on_close is not None:
            self._on_close(connection)

    async def _close_idle(self, accepting: SocketListener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(IDLE_SWEEP_S, self._max_idle_s / 2))
            oldest = loop.time() - self._max_idle_s
            accepting.close_silent(oldest)
            for connection in [c for c in self.connections if c.last_active < oldest]:
                _log.info("closing %s, idle for %.0f s", connection.remote_text, self._max_idle_s)
                # Abort instead of close: output to a peer that does not read would wait for ever.
                connection.abort()

    async def stop_listening(self) -> None:
        """Accept no more connections."""
        if self._accepting is not None:
            self._accepting.stop_listening()
            await self._accepting.wait_connected()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
            self._sweeper = None

    async def close(self) -> None:
        """Stop listening, send collected output, and close every connection."""
        await self.stop_listening()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_GRACE_S):
                    await self._all_closed.wait()
        for connection in list(self.connections):
            connection.abort()
