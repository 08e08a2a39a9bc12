"""Bounds on the memory that all connections of a server together can take.

=================  ======================================================  =======================
Kept in memory     Action at the bound                                     Bound for all together
=================  ======================================================  =======================
incomplete and     the connections whose requests began to arrive the      256 MiB
waiting requests   longest ago are closed (`PartialFrames`)
requests in work   requests of peers with many requests are answered       256 MiB
                   SYSTEM_BUSY (`SharedBudget`)
unsent answers     the connections whose peers have read nothing for the   256 MiB, and one answer
                   longest time are closed (`Unsent`)
unparsed bytes     all connections stop reading until half of the bytes    64 MiB, and one read
                   are parsed; those of closed connections are dropped
=================  ======================================================  =======================

Each connection may keep another 64 KiB of each of the first three kinds. Together with the sockets'
own buffers this is the cost of a connection; their number is limited by the file descriptors (see
`listener`). Held pulls have their own limit (`broker/read/long_poll.py`).
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

# ---- Connections without a first request
#
# When connections have used all descriptors they may use (see `listener`), the oldest of these is
# closed: an honest peer sends a request soon after it connects, and a silent peer loses nothing.

_log = logging.getLogger(__name__)


class Newcomers:
    """Connections that have not sent a request, and the functions that close them."""

    def __init__(self) -> None:
        self._closers: dict[object, Callable[[], str | None]] = {}
        self._closed = RareLog(_log)

    def add(self, newcomer: object, close: Callable[[], str | None]) -> None:
        """Add a newcomer; `close` returns its address, or None if it has sent a request."""
        self._closers[newcomer] = close

    def discard(self, newcomer: object) -> None:
        """Remove a newcomer that is closed or has sent a request."""
        self._closers.pop(newcomer, None)

    def make_room(self) -> bool:
        """Close the oldest newcomer without a request; return False if none is left."""
        while self._closers:
            close = self._closers.pop(next(iter(self._closers)))
            if (address := close()) is not None:
                self._closed.warning(
                    "closing %s: it has sent no request, and a new connection needs its descriptor",
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
    """True while all connections stop reading, because too many bytes are unparsed."""

    def note_uncut(self, grown_bytes: int) -> None:
        """Add a change of the number of unparsed bytes; pause or resume reading at the bound."""
        self.uncut_bytes += grown_bytes
        is_full = self.uncut_bytes > (UNCUT_BYTES // 2 if self.is_full else UNCUT_BYTES)
        if is_full is not self.is_full:
            self.is_full = is_full
            for connection in self.connections:
                connection.read_or_not()
