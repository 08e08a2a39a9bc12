"""Busy-waiting receive: polls the socket for a moment before it blocks (see `patience`).

At most one thread of a process busy-waits at a time; others would compete for its processor.
"""

from __future__ import annotations

import socket
import threading
import time

from orbitmq.remoting.patience import Patience

__all__ = ["Spinning"]

SPIN_S = 0.0003

_turn = threading.Lock()


class Spinning:
    """Receives from one socket, and learns whether busy-waiting pays off."""

    __slots__ = ("_patience",)

    def __init__(self) -> None:
        self._patience = Patience()

    def receive(self, sock: socket.socket, max_bytes: int) -> bytes:
        """Receive the next bytes; the socket is a blocking one."""
        patience = self._patience
        if patience.for_this_one() and _turn.acquire(blocking=False):
            try:
                data = _receive_awake(sock, max_bytes)
            finally:
                _turn.release()
            if data is not None:
                patience.paid()
                return data
            patience.wasted()
        return sock.recv(max_bytes)


def _receive_awake(sock: socket.socket, max_bytes: int) -> bytes | None:
    until = time.monotonic() + SPIN_S
    while True:
        try:
            return sock.recv(max_bytes, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if time.monotonic() > until:
                return None
