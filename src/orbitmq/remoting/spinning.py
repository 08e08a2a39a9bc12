"""Waiting for an answer that is nearly there, without going to sleep (see `patience`).

One thread of a process waits awake at a time: the others would only take the processor from it.
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
    """Receives from one socket, and learns whether it is worth while to wait awake."""

    __slots__ = ("_patience",)

    def __init__(self) -> None:
        self._patience = Patience()

    def receive(self, sock: socket.socket, max_bytes: int) -> bytes:
        """Receive what comes next; the socket blocks."""
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
