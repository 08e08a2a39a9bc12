"""Listener: accepts plain and TLS connections on one port.

Theory of operation. The first byte of a connection shows whether it is TLS. It is read with
`MSG_PEEK`, which leaves it in the socket, so that the protocol that takes over reads the stream
from its start. A peer that sends nothing costs one socket and is closed with the idle connections.

Connections may not use the last file descriptors (see `RESERVED`). At that limit a new connection
replaces the oldest one that has never sent a request; if every connection has sent a request, the
new one is closed. So silent peers cannot lock other peers out, and no connection in use is closed
for a new one.

A handshake is one task and must end within `HANDSHAKE_TIMEOUT_S`. The number of handshakes in
progress is limited: a new one cancels the oldest, because an honest handshake ends within
milliseconds. So peers with unfinished handshakes use bounded memory and do not lock others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import resource
import socket
import ssl
from collections.abc import Callable

from orbitmq.remoting.limits import Newcomers
from orbitmq.remoting.rare_log import RareLog
from orbitmq.remoting.tls import ServerTls

__all__ = ["SocketListener", "connections_have_all"]

_log = logging.getLogger(__name__)

BACKLOG = 1024
ACCEPTS_PER_TURN = 128
ACCEPT_AGAIN_S = 1.0
FIRST_BYTE_OF_TLS = b"\x16"
HANDSHAKE_TIMEOUT_S = 10.0
GOODBYE_TIMEOUT_S = 2.0
MAX_HANDSHAKES = 256
_TOO_MANY = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketListener:
    """Listening sockets, and accepted sockets before the end of their handshake."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        tls: ServerTls | None,
        newcomers: Newcomers,
    ) -> None:
        self._make = make
        self._newcomers = newcomers
        self._full = RareLog(_log)
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._silent: dict[socket.socket, float] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._handshakes: dict[asyncio.Task[None], None] = {}

    async def listen(self, host: str, port: int) -> int:
        """Listen on every address of a host and return the port; port 0 selects a free port."""
        found = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                try:
                    sock = socket.socket(family, kind, protocol)
                except OSError:
                    continue  # a machine without IPv6 may still resolve IPv6 addresses
                bound.append(sock)
                _bind(sock, address)
        except BaseException:
            for sock in bound:
                sock.close()
            raise
        if not bound:
            raise OSError(errno.EADDRNOTAVAIL, f"{host!r} has no address to listen on")
        for sock in bound:
            self._loop.add_reader(sock, self._accept, sock)
        self._listening += bound
        chosen: int = bound[0].getsockname()[1]
        return chosen

    def stop_listening(self) -> None:
        """Accept no more connections; close sockets before the end of their handshake."""
        for sock in self._listening:
            self._loop.remove_reader(sock)
            sock.close()
        self._listening.clear()
        for sock in list(self._silent):
            self._take_from_silent(sock)
            sock.close()
        for task in list(self._handshakes):
            task.cancel()

    async def wait_connected(self) -> None:
        """Wait until every accepted socket has become a connection or has failed."""
        if self._connecting:
            await asyncio.wait(self._connecting)

    def close_silent(self, accepted_before_s: float) -> None:
        """Close sockets that have sent nothing since the given time."""
        for sock, accepted_s in list(self._silent.items()):
            if accepted_s < accepted_before_s:
                self._take_from_silent(sock)
                sock.close()

    # ---- From a listening socket to a protocol

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            is_full = connections_have_all(listening)
            if is_full and self._newcomers.make_room():
                return  # the descriptor is free in the next turn
            try:
                sock, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _TOO_MANY:
                    raise
                _log.error(
                    "cannot accept connections; next try in %.0f s: %s", ACCEPT_AGAIN_S, error
                )
                self._loop.remove_reader(listening)
                self._loop.call_later(ACCEPT_AGAIN_S, self._accept_again, listening)
                return
            if is_full:
                self._full.warning(
                    "closing %s: connections use all descriptors except those reserved for files; "
                    "raise `ulimit -n` to allow more", _peer(sock),
                )  # fmt: skip
                sock.close()
                continue
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                self._serve(sock, None)
            else:
                self._look(sock, self._tls)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def _look(self, sock: socket.socket, tls: ServerTls) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            if sock not in self._silent:
                self._silent[sock] = self._loop.time()
                self._newcomers.add(sock, functools.partial(self._close_silent, sock))
                self._loop.add_reader(sock, self._look, sock, tls)
            return
        except OSError:
            first = b""
        self._take_from_silent(sock)
        if first == FIRST_BYTE_OF_TLS:
            self._serve(sock, tls.context())
        elif first and not tls.is_enforcing:
            self._serve(sock, None)
        else:
            if first:
                _log.warning("closing %s: it does not speak TLS", _peer(sock))
            sock.close()

    def _close_silent(self, sock: socket.socket) -> str:
        address = _peer(sock)
        self._take_from_silent(sock)
        sock.close()
        return address

    def _take_from_silent(self, sock: socket.socket) -> None:
        self._newcomers.discard(sock)
        if self._silent.pop(sock, None) is not None:
            self._loop.remove_reader(sock)

    def _serve(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        task = self._loop.create_task(self._connect(sock, context))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        if context is None:
            return
        self._handshakes[task] = None
        task.add_done_callback(lambda done: self._shaken(done, sock))
        if len(self._handshakes) > MAX_HANDSHAKES:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()

    def _shaken(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # The handshake had not begun, so there is no transport that closes the socket.
            with contextlib.suppress(OSError):
                sock.close()

    async def _connect(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        peer = _peer(sock)
        try:
            if context is None:
                await self._loop.connect_accepted_socket(self._make, sock)
            else:
                await self._loop.connect_accepted_socket(
                    self._make,
                    sock,
                    ssl=context,
                    ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                    ssl_shutdown_timeout=GOODBYE_TIMEOUT_S,
                )
        except OSError as error:
            _log.warning("closing %s: TLS handshake failed: %s", peer, error)


def _bind(sock: socket.socket, address: tuple[object, ...]) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        sock.bind(address)
    except OSError as error:
        reason = (error.strerror or "").lower()
        text = f"error while attempting to bind on address {address!r}: {reason}"
        raise OSError(error.errno, text) from None
    sock.listen(BACKLOG)
    sock.setblocking(False)


def _peer(sock: socket.socket) -> str:
    try:
        host, port, *_ = sock.getpeername()
    except OSError:
        return "a peer that is gone"
    return f"{host}:{port}"


# ---- File descriptors reserved for files
#
# The kernel limits the number of open files and sockets of a process. The store keeps no file
# open, but it opens one whenever it grows, and so does every save of a table. If connections used
# the last descriptor, acknowledged work would fail. So servers keep a reserve.
#
# The kernel assigns the lowest free number to a new descriptor. So a number above the limit for
# connections proves that at least that many descriptors are in use, without counting them.

RESERVED = 128


def connections_have_all(listening: socket.socket) -> bool:
    """Return True if the next connection would use up a descriptor reserved for files."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return False
    try:
        lowest = os.dup(listening.fileno())
    except OSError:
        return True
    os.close(lowest)
    return lowest >= soft - min(RESERVED, soft // 4)
