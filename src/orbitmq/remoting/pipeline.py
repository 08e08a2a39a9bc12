"""Pipelined requests: several on one connection, each independent of the others' answers.

Theory of operation. `BlockingNetwork` has one request in progress per connection, which suits a
producer. A reader that requests each segment only after the previous one would wait a round trip
each time. A pipeline sends any number of requests from one thread and receives their answers by
opaque, in any order. Nothing runs in the background: answers wait in the socket until they are
received. So a slow reader slows its broker down, and memory is bounded by the requested amount.
Large answers are received directly into their final memory (see `SocketReader`); on TLS connections
Python decrypts them first.

Not thread-safe. After a fork the child must open its own pipeline (see `is_of_this_process`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import ssl
import time
from collections.abc import Sequence

from orbitmq._native import Command, FrameReader, SocketReader
from orbitmq.errors import ConnectionLost, RequestTimeout, WireError
from orbitmq.remoting.address import CONNECT_TIMEOUT_S, split_address
from orbitmq.remoting.hooks import RequestHook, prepare

__all__ = ["Pipeline"]

TLS_RECEIVE_BYTES = 1 << 20

_next_opaque = itertools.count(1).__next__


class Pipeline:
    """A connection with many requests in progress."""

    def __init__(
        self,
        address: str,
        *,
        hooks: Sequence[RequestHook] = (),
        tls: ssl.SSLContext | None = None,
        timeout_ms: float = 10_000,
    ) -> None:
        self.address = address
        self.timeout_ms = timeout_ms
        self.waiting: set[int] = set()
        """Opaque ids of requests without an answer."""
        self._hooks = tuple(hooks)
        self._ready: dict[int, Command] = {}
        self._pid = os.getpid()
        self._is_closed = False
        host, port = split_address(address)
        try:
            sock = socket.create_connection((host, port), min(CONNECT_TIMEOUT_S, timeout_ms / 1000))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {address}: {error}") from error
        self._socket: socket.socket = sock
        self._receiver = _Receiver(sock) if tls is None else _TlsReceiver(sock)

    @property
    def is_of_this_process(self) -> bool:
        """True if this process opened the connection, False after a fork."""
        return self._pid == os.getpid()

    @property
    def has_answers(self) -> bool:
        """True if answers have arrived that were not taken yet."""
        return bool(self._ready)

    def is_closed(self) -> bool:
        """Return True if the connection is closed here, broken, or closed by its peer while idle.

        The socket is not checked while answers are expected; receiving them reports an error.
        """
        if self._is_closed or self.waiting or self._ready:
            return self._is_closed
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        if not poller.poll(0):
            return False
        try:
            # On a TLS connection these are encrypted bytes, which may belong to the handshake.
            return not socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except OSError:
            return True

    def send(self, code: int, ext: dict[str, str]) -> int:
        """Send a request and return its opaque id for `receive`."""
        opaque = _next_opaque() & 0x7FFFFFFF
        frame = Command(code, opaque=opaque, ext=prepare(self._hooks, code, ext, None)).encode()
        try:
            self._socket.settimeout(self.timeout_ms / 1000)
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(error) from error
        self.waiting.add(opaque)
        return opaque

    def receive(self, opaque: int) -> Command:
        """Wait for the answer to a request and return it; keep other answers."""
        deadline = time.monotonic() + self.timeout_ms / 1000
        while opaque not in self._ready:
            if opaque not in self.waiting:
                raise ConnectionLost(f"another connection to {self.address} sent that request")
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                text = f"{self.address} did not answer a request within {self.timeout_ms:.0f} ms"
                raise RequestTimeout(text)
            self._fill(left_s)
        return self._ready.pop(opaque)

    def poll(self) -> dict[int, Command]:
        """Return the answers that have arrived, without waiting."""
        while self._fill(0):
            pass
        ready, self._ready = self._ready, {}
        return ready

    def _fill(self, timeout_s: float) -> bool:
        """Read the next commands; return False if no command arrived in time."""
        try:
            commands = self._receiver.receive(timeout_s)
        except EOFError:
            self._is_closed = True
            text = f"connection to {self.address} was closed by its peer"
            raise ConnectionLost(text) from None
        except OSError as error:
            raise self._broken(error) from error
        except WireError as error:
            self._is_closed = True
            raise ConnectionLost(f"{self.address} does not speak the protocol") from error
        for command in commands:
            if command.is_response and command.opaque in self.waiting:
                self.waiting.discard(command.opaque)
                self._ready[command.opaque] = command
        return bool(commands)

    def _broken(self, error: OSError) -> ConnectionLost:
        self._is_closed = True
        return ConnectionLost(f"connection to {self.address} broke: {error}")

    def close(self) -> None:
        """Close the connection; requests in progress get no answer."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.close()


class _Receiver:
    """Receives commands from a plain connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = SocketReader()

    def receive(self, timeout_s: float) -> list[Command]:
        """Wait for a complete command, up to a timeout; return all complete commands."""
        return self._reader.receive(self._socket.fileno(), timeout_s)


class _TlsReceiver:
    """Receives commands from a TLS connection, which Python's `ssl` must decrypt."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = FrameReader()
        self._room = bytearray(TLS_RECEIVE_BYTES)

    def receive(self, timeout_s: float) -> list[Command]:
        """Wait for a complete command, up to a timeout; return all complete commands."""
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(deadline - time.monotonic(), 0)
            self._socket.settimeout(left_s)
            try:
                count = self._socket.recv_into(self._room)
            except (TimeoutError, ssl.SSLWantReadError):
                return []
            if not count:
                raise EOFError
            commands = self._reader.feed(memoryview(self._room)[:count])
            if commands:
                return commands
            if self._reader.failure is not None:
                raise self._reader.failure
