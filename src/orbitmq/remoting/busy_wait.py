"""Adaptive busy-waiting, which depends on the outcome of the last waits.

Theory of operation. Putting a thread to sleep and waking it up costs more than a peer on a near
machine takes for an answer. So a waiter polls for a moment before it sleeps. If the answer takes
longer, that moment is wasted. After `TRIES` wasted moments in a row the next wait sleeps at once,
later the next two waits, then four … up to `MOST_SKIPPED`, until a busy wait pays off again. One
wasted wait is not enough to skip, because a peer that was itself asleep is late once.

A machine with one processor never busy-waits: the peer needs that processor.
"""

from __future__ import annotations

import os
import socket
import threading
import time

__all__ = ["AdaptiveSpin", "SpinReceiver"]

TRIES = 8
MOST_SKIPPED = 1024

_has_processors_to_spare = len(os.sched_getaffinity(0)) > 1


class AdaptiveSpin:
    """Decides whether to busy-wait, from the outcome of the last waits."""

    __slots__ = ("_skip_next", "_to_skip", "_tries_left")

    def __init__(self) -> None:
        self._to_skip = 0 if _has_processors_to_spare else -1
        self._skip_next = 1
        self._tries_left = TRIES

    def for_this_one(self) -> bool:
        """Return whether to busy-wait now; the caller then reports `paid()` or `wasted()`."""
        if self._to_skip:
            self._to_skip -= self._to_skip > 0
            return False
        return True

    def paid(self) -> None:
        """Report that the answer arrived during the busy wait."""
        self._skip_next, self._tries_left = 1, TRIES

    def wasted(self) -> None:
        """Report that the busy wait ended without an answer."""
        self._tries_left -= 1
        if not self._tries_left:
            self._to_skip, self._tries_left = self._skip_next, TRIES
            self._skip_next = min(2 * self._skip_next, MOST_SKIPPED)


# ---- Busy-waiting receive
#
# Polls the socket for a moment before it blocks (see `AdaptiveSpin`). At most one thread of a
# process busy-waits at a time; others would compete for its processor.

SPIN_S = 0.0003

_turn = threading.Lock()


class SpinReceiver:
    """Receives from one socket, and busy-waits while that pays off."""

    __slots__ = ("_patience",)

    def __init__(self) -> None:
        self._patience = AdaptiveSpin()

    def receive(self, sock: socket.socket, max_bytes: int) -> bytes:
        """Receive the next bytes from a blocking socket."""
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
