"""Bounds on the memory that all connections of a server together can take.

=================  ======================================================  =======================
What is kept       When it becomes too much                                Bound for all together
=================  ======================================================  =======================
requests that are  the connections whose requests began to arrive the      256 MiB
not whole, or wait longest ago are closed (`PartialFrames`)
requests in work   those of peers that have many are answered              256 MiB
                   SYSTEM_BUSY (`SharedBudget`)
unsent answers     the connections whose peers have taken nothing for the  256 MiB, and one answer
                   longest time are closed (`Unsent`)
bytes that are not nobody is read from until half of them are requests;    64 MiB, and one read
requests yet       those of peers that are gone are dropped
=================  ======================================================  =======================

A connection may have 64 KiB of the first three kinds beside that; together with the sockets' own
buffers that is the price of a connection, and their number is limited by the descriptors (see
`descriptors`). Pulls that are held have a limit of their own (`broker/read/long_poll.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbitmq.remoting.partial_frames import PartialFrames
from orbitmq.remoting.rare_log import RareLog
from orbitmq.remoting.shared_budget import SharedBudget
from orbitmq.remoting.unsent import Unsent

if TYPE_CHECKING:
    from orbitmq.remoting.connection import Connection
    from orbitmq.remoting.in_work import InWork

__all__ = ["Newcomers", "ServerLimits"]

# ---- Connections without a first request, the oldest first
#
# When connections have used all descriptors they may use (see `descriptors`), the oldest of these
# is closed: an honest peer sends a request soon after it connects, and a silent one loses nothing.

_log = logging.getLogger(__name__)


class Newcomers:
    """Connections that have not sent a request, and the functions that close them."""

    def __init__(self) -> None:
        self._closers: dict[object, Callable[[], str | None]] = {}
        self._closed = RareLog(_log)

    def add(self, newcomer: object, close: Callable[[], str | None]) -> None:
        """Add a newcomer; `close` returns the peer's address, or None if it has asked meanwhile."""
        self._closers[newcomer] = close

    def discard(self, newcomer: object) -> None:
        """Forget a newcomer that is closed or has sent a request."""
        self._closers.pop(newcomer, None)

    def make_room(self) -> bool:
        """Close the oldest newcomer that has not asked for anything; False if there is none."""
        while self._closers:
            close = self._closers.pop(next(iter(self._closers)))
            if (address := close()) is not None:
                self._closed.warning(
                    "closing %s: it has not asked for anything, and others need its descriptor",
                    address,
                )
                return True
        return False


IN_WORK_BYTES = 256 << 20
UNCUT_BYTES = 64 << 20


@dataclass(slots=True, eq=False)
class ServerLimits:
    """Limits that all servers of a broker share."""

    partial_frames: PartialFrames[Connection] = field(default_factory=PartialFrames)
    in_work: SharedBudget[InWork] = field(default_factory=lambda: SharedBudget(IN_WORK_BYTES))
    unsent: Unsent[Connection] = field(default_factory=Unsent)
    newcomers: Newcomers = field(default_factory=Newcomers)
    connections: set[Connection] = field(default_factory=set)
    uncut_bytes: int = 0
    is_full: bool = False
    """True while no connection is read from, because too many bytes wait to become requests."""

    def note_uncut(self, grown_bytes: int) -> None:
        """Note how many more bytes, or fewer, wait to become requests."""
        self.uncut_bytes += grown_bytes
        is_full = self.uncut_bytes > (UNCUT_BYTES // 2 if self.is_full else UNCUT_BYTES)
        if is_full is not self.is_full:
            self.is_full = is_full
            for connection in self.connections:
                connection.read_or_not()
