"""A listening socket and the connections it has accepted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from orbitmq.remoting.connection import Connection
from orbitmq.remoting.handling import Router
from orbitmq.remoting.partial_frames import PartialFrames

__all__ = ["Server"]

_log = logging.getLogger(__name__)

BACKLOG = 1024
IDLE_SWEEP_S = 5.0
CLOSING_GRACE_S = 2.0


class Server:
    """Accepts connections and lets a router answer their requests."""

    def __init__(
        self,
        router: Router,
        *,
        max_idle_s: float = 120,
        on_close: Callable[[Connection], None] | None = None,
    ) -> None:
        self._router = router
        self._max_idle_s = max_idle_s
        self._on_close = on_close
        self._listeners: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._all_closed = asyncio.Event()
        self._partial_frames: PartialFrames[Connection] = PartialFrames()
        self.connections: set[Connection] = set()

    async def listen(self, host: str, port: int) -> int:
        """Listen on an address; port 0 takes a free one. Returns the port."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            self._accept, host or None, port, backlog=BACKLOG, reuse_address=True
        )
        self._listeners.append(listener)
        if self._sweeper is None:
            self._sweeper = loop.create_task(self._close_idle())
        bound: int = listener.sockets[0].getsockname()[1]
        return bound

    def _accept(self) -> Connection:
        return Connection(
            self._router,
            on_open=self._opened,
            on_close=self._closed,
            partial_frames=self._partial_frames,
        )

    def _opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        self._all_closed.clear()
        transport = connection._transport
        if transport is not None and (sock := transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._all_closed.set()
        if self._on_close is not None:
            self._on_close(connection)

    async def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(IDLE_SWEEP_S, self._max_idle_s / 2))
            oldest = loop.time() - self._max_idle_s
            for connection in [c for c in self.connections if c.last_active < oldest]:
                _log.info("closing %s, idle for %.0f s", connection.remote_text, self._max_idle_s)
                # What waits to be sent to a peer that has not read for so long would wait forever.
                connection.abort()

    async def stop_listening(self) -> None:
        """Accept no more connections."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
            self._sweeper = None

    async def close(self) -> None:
        """Stop listening, send what waits, close every connection."""
        await self.stop_listening()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_GRACE_S):
                    await self._all_closed.wait()
        for connection in list(self.connections):
            connection.abort()
