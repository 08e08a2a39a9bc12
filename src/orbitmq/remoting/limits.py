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
`descriptors`). Pulls that are held have a limit of their own (`broker/longpoll.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbitmq.remoting.newcomers import Newcomers
from orbitmq.remoting.partial_frames import PartialFrames
from orbitmq.remoting.shared_budget import SharedBudget
from orbitmq.remoting.unsent import Unsent

if TYPE_CHECKING:
    from orbitmq.remoting.connection import Connection
    from orbitmq.remoting.in_work import InWork

__all__ = ["Limits"]

IN_WORK_BYTES = 256 << 20
UNCUT_BYTES = 64 << 20


@dataclass(slots=True, eq=False)
class Limits:
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
