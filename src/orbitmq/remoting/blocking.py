"""Blocking requests: the calling thread writes the frame and reads the answer itself.

Theory of operation. A thread takes a connection from the pool of its address, writes one request,
reads until the response with its opaque arrives, and returns the connection. No other thread has to
be woken, which is most of the cost of a call over loopback; for the same reason the thread
busy-waits for a moment before it sleeps (see `SpinReceiver`). Requests that brokers initiate never
arrive here: brokers send them on the connection that carried the heartbeat.

Bounds. An address has at most `MAX_PER_ADDRESS` connections; further callers wait, within their
timeout. A connection whose request timed out is closed, because its late answer would be read by
the next request. An idle connection is checked before reuse, because brokers close idle
connections, and is closed after a long time in the pool. After a fork the child starts with an
empty pool.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import ssl
import struct
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Literal

from orbitmq._native import Command, FrameReader
from orbitmq.errors import ConnectionLost, RequestTimeout
from orbitmq.protocol.flags import CommandFlag
from orbitmq.remoting.address import CONNECT_TIMEOUT_S, split_address
from orbitmq.remoting.busy_wait import SpinReceiver
from orbitmq.remoting.hooks import RequestHook, prepare

__all__ = ["BlockingNetwork"]

MAX_PER_ADDRESS = 64
LOOK_AFTER_S = 0.5
"""Idle time after which a connection is checked before reuse: its peer may have closed it."""
CLOSE_AFTER_S = 100.0
"""Idle time after which a connection is closed; brokers close idle connections after 120 s."""
RECEIVE_BYTES = 64 << 10

_next_opaque = itertools.count(1).__next__


class _Link:
    """One blocking connection."""

    __slots__ = ("_reader", "_spinning", "_timeout_s", "address", "rested_since", "socket")

    def __init__(self, address: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        host, port = split_address(address)
        self.address = address
        self.rested_since = 0.0
        self._reader = FrameReader()
        timeout_s = min(timeout_s, CONNECT_TIMEOUT_S)
        self._timeout_s = 0.0
        try:
            sock = socket.create_connection((host, port), timeout_s)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if tls is not None:
                    sock = tls.wrap_socket(sock, server_hostname=host)
                else:
                    sock.setblocking(True)
            except BaseException:
                sock.close()
                raise
        except TimeoutError:
            raise ConnectionLost(f"cannot connect to {address} within {timeout_s:.1f} s") from None
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {address}: {error}") from error
        self.socket: socket.socket = sock
        self._spinning = SpinReceiver() if tls is None else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()

    def is_dead(self) -> bool:
        """True if the peer closed the idle connection; data that it sent stays unread."""
        if not _readable(self.socket):
            return False
        try:
            if isinstance(self.socket, ssl.SSLSocket):
                return True  # an idle connection should have received nothing
            return not self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return True

    def send(self, frame: bytes, timeout_s: float) -> None:
        # Setting a timeout costs a system call, so a difference below a twentieth is ignored.
        if not 0.95 * timeout_s < self._timeout_s <= 1.05 * timeout_s:
            self._set_timeout(timeout_s)
        self.socket.sendall(frame)

    def _set_timeout(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket.settimeout(timeout_s)
            return
        # Python's own timeouts poll before each call. These are enforced by the kernel, which
        # ends a call with EAGAIN.
        micros = max(int(timeout_s * 1e6), 1000)
        value = struct.pack("@ll", *divmod(micros, 1_000_000))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    def receive(self, opaque: int, deadline: float) -> Command:
        feed = self._reader.feed
        while True:
            if self._spinning is None:
                data = self.socket.recv(RECEIVE_BYTES)
            else:
                data = self._spinning.receive(self.socket, RECEIVE_BYTES)
            if not data:
                raise ConnectionLost(f"connection to {self.address} was closed by its peer")
            for command in feed(data):
                if command.opaque == opaque and command.is_response:
                    return command
            if self._reader.failure is not None:
                raise ConnectionLost(f"{self.address} does not speak the protocol") from (
                    self._reader.failure
                )
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._set_timeout(left_s)


def _readable(sock: socket.socket) -> bool:
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return bool(poller.poll(0))


class _Pool:
    """The connections to one address.

    Taking and returning an idle connection needs no lock, as a list's `pop` and `append` are
    atomic; the lock guards the count of connections and the wait for one.
    """

    __slots__ = ("changed", "count", "free", "waiting")

    def __init__(self) -> None:
        self.free: list[_Link] = []
        self.count = 0
        self.waiting = 0
        self.changed = threading.Condition()

    def may_connect(self, deadline: float) -> _Link | None:
        """Wait for an idle connection, or return None: the caller may open a new one."""
        with self.changed:
            while True:
                if self.free:
                    with contextlib.suppress(IndexError):
                        return self.free.pop()
                if self.count < MAX_PER_ADDRESS:
                    self.count += 1
                    return None
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                self.waiting += 1
                try:
                    # `rest` reads `waiting` without the lock and can miss this thread: poll.
                    self.changed.wait(min(left_s, 0.01))
                finally:
                    self.waiting -= 1

    def rest(self, link: _Link) -> None:
        link.rested_since = time.monotonic()
        self.free.append(link)
        if self.waiting:
            with self.changed:
                self.changed.notify()

    def drop(self, link: _Link | None) -> None:
        """Close a connection, or return the permission to open one."""
        if link is not None:
            link.close()
        with self.changed:
            self.count -= 1
            self.changed.notify()


class BlockingNetwork:
    """Sends requests to servers from any thread; safe to share between threads and after a fork."""

    def __init__(
        self,
        hooks: Sequence[RequestHook] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.hooks = tuple(hooks)
        self._tls = tls
        self._pools: dict[str, _Pool] = {}
        self._closed = False
        _all_networks.add(self)

    def invoke(
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
        opaque = _next_opaque() & 0x7FFFFFFF
        if self.hooks:
            ext = prepare(self.hooks, code, ext, body)
        frame = Command(code, opaque=opaque, ext=ext, body=body, encoding=encoding).encode()
        return self.exchange(address, frame, opaque, timeout_ms)

    def exchange(self, address: str, frame: bytes, opaque: int, timeout_ms: float) -> Command:
        """Send an encoded frame and wait for the response with its opaque."""
        timeout_s = timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        pool, link = self._borrow(address, deadline)
        try:
            link.send(frame, timeout_s)
            response = link.receive(opaque, deadline)
        except (TimeoutError, BlockingIOError):
            pool.drop(link)
            text = f"{address} did not answer a request within {timeout_ms:.0f} ms"
            raise RequestTimeout(text) from None
        except OSError as error:
            pool.drop(link)
            raise ConnectionLost(f"connection to {address} broke: {error}") from error
        except BaseException:
            # The next caller must not read the answer of an interrupted call.
            pool.drop(link)
            raise
        pool.rest(link)
        if self._closed:
            self.close()
        return response

    def notify(
        self,
        address: str,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        timeout_ms: float = 3000,
        encoding: Literal["json", "binary"] = "json",
        remark: str | None = None,
    ) -> None:
        """Send a one-way request."""
        opaque = _next_opaque() & 0x7FFFFFFF
        if self.hooks:
            ext = prepare(self.hooks, code, ext, body)
        notice = Command(
            code,
            opaque=opaque,
            flag=CommandFlag.ONEWAY,
            remark=remark,
            ext=ext,
            body=body,
            encoding=encoding,
        )
        self.post(address, notice.encode(), timeout_ms)

    def post(self, address: str, frame: bytes, timeout_ms: float = 3000) -> None:
        """Send an encoded frame of a one-way request."""
        timeout_s = timeout_ms / 1000
        pool, link = self._borrow(address, time.monotonic() + timeout_s)
        try:
            link.send(frame, timeout_s)
        except OSError as error:
            pool.drop(link)
            raise ConnectionLost(f"connection to {address} broke: {error}") from error
        except BaseException:
            pool.drop(link)
            raise
        pool.rest(link)

    # ---- Pool

    def _borrow(self, address: str, deadline: float) -> tuple[_Pool, _Link]:
        if self._closed:
            raise ConnectionLost("this client is closed")
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools.setdefault(address, _Pool())
        while True:
            link: _Link | None
            try:
                link = pool.free.pop()
            except IndexError:
                link = self._wait_for_link(pool, address, deadline)
            if link is None:
                break
            rested_s = time.monotonic() - link.rested_since
            if rested_s < LOOK_AFTER_S or not (rested_s > CLOSE_AFTER_S or link.is_dead()):
                return pool, link
            pool.drop(link)
        try:
            return pool, _Link(address, self._tls, deadline - time.monotonic())
        except BaseException:
            pool.drop(None)
            raise

    def _wait_for_link(self, pool: _Pool, address: str, deadline: float) -> _Link | None:
        try:
            return pool.may_connect(deadline)
        except TimeoutError:
            text = f"{MAX_PER_ADDRESS} threads wait for answers of {address} already"
            raise RequestTimeout(text) from None

    def connection_count(self) -> int:
        """Return the number of idle connections in the pools."""
        return sum(len(pool.free) for pool in self._pools.values())

    def close_idle(self, rested_s: float = CLOSE_AFTER_S) -> None:
        """Close connections that have been idle for the given time."""
        oldest = time.monotonic() - rested_s
        for pool in list(self._pools.values()):
            # Connections are taken from the end, so the least recently used one comes first.
            while pool.free and pool.free[0].rested_since < oldest:
                with contextlib.suppress(IndexError):
                    pool.drop(pool.free.pop(0))

    def close(self) -> None:
        """Close all idle connections; those in use are closed when they are returned."""
        self._closed = True
        self.close_idle(-1)

    def _forget_parent(self) -> None:
        # Closing the child's copies of the sockets does not end the parent's connections.
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            for link in pool.free:
                link.close()


_all_networks: weakref.WeakSet[BlockingNetwork] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for network in list(_all_networks):
        network._forget_parent()


os.register_at_fork(after_in_child=_after_fork_in_child)
