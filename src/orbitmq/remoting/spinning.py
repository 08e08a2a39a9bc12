"""Waiting for an answer that is nearly there, without going to sleep.

Theory of operation. To put a thread to sleep and to wake it up again costs more than a broker
nearby takes to answer. So a thread that has sent a request asks the socket again and again for a
moment, and sleeps only then. Where answers take longer, that moment is wasted; so after a few
answers in a row that did not come in time the next requests go to sleep at once: one, then two,
then four … up to `MOST_SKIPPED`, until an answer comes in time again. It takes a few, because a
broker that was let sleep between requests answers the first one late, and would do so for ever.
One thread of a process waits awake at a time, because the others would only take the processor
from it, and none on a machine with one processor.
"""

from __future__ import annotations

import os
import socket
import threading
import time

__all__ = ["Spinning"]

SPIN_S = 0.0003
TRIES = 8
MOST_SKIPPED = 1024

_turn = threading.Lock()
_has_processors_to_spare = len(os.sched_getaffinity(0)) > 1


class Spinning:
    """Receives from one socket, and learns whether it is worth while to wait awake."""

    __slots__ = ("_skip_next", "_to_skip", "_tries_left")

    def __init__(self) -> None:
        self._to_skip = 0 if _has_processors_to_spare else -1
        self._skip_next = 1
        self._tries_left = TRIES

    def receive(self, sock: socket.socket, max_bytes: int) -> bytes:
        """Receive what comes next; the socket blocks."""
        if self._to_skip:
            self._to_skip -= self._to_skip > 0
        elif _turn.acquire(blocking=False):
            try:
                data = _receive_awake(sock, max_bytes)
            finally:
                _turn.release()
            if data is not None:
                self._skip_next, self._tries_left = 1, TRIES
                return data
            self._tries_left -= 1
            if not self._tries_left:
                self._to_skip, self._tries_left = self._skip_next, TRIES
                self._skip_next = min(2 * self._skip_next, MOST_SKIPPED)
        return sock.recv(max_bytes)


def _receive_awake(sock: socket.socket, max_bytes: int) -> bytes | None:
    until = time.monotonic() + SPIN_S
    while True:
        try:
            return sock.recv(max_bytes, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if time.monotonic() > until:
                return None
