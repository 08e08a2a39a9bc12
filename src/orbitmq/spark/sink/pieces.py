"""Sends cut into pieces, so that the rows of a small task lie on all queues of its topic.

A send goes to one queue. A task with fewer sends than its topic has queues, most micro-batches
among them, would leave queues empty, and with them the consumers that have these. So what leaves
the choice of its queue is cut while that matters: the first sends of a task, as many as there are
queues, and the last. Those between are whole, which is fastest.

A piece has `LEAST_ROWS` rows or `LEAST_BYTES` bytes at least, and a task has `MOST_MORE` requests
more than it has sends at most: a request for each row would cost more than it spreads.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from orbitmq._native import PackedSend

__all__ = ["Outbound", "Piece", "Pieces", "cut"]

LEAST_ROWS: Final = 4
LEAST_BYTES: Final = 16 << 10
MOST_MORE: Final = 512
_LENGTH: Final = struct.Struct(">i")
"""The length of a whole message, at the beginning of each in the body of a batch."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a packed send: a batch of some of its messages."""

    topic: str
    broker_name: str | None
    body: bytes
    rows: int
    queue_id: None = None
    slot: None = None
    properties: None = None


Outbound = PackedSend | Piece
"""A request's worth of messages."""


class Pieces:
    """Cuts the sends of one task."""

    def __init__(self, queue_count: Callable[[PackedSend], int]) -> None:
        """`queue_count` returns how many queues a send has the choice of."""
        self._queue_count = queue_count
        self._seen: Counter[tuple[str, str | None]] = Counter()
        self._more = 0

    def of(self, send: PackedSend, *, is_last: bool) -> Sequence[Outbound]:
        """Return what to send instead; `is_last` says that it did not wait for more rows."""
        if send.properties is not None or send.rows < 2 or self._more >= MOST_MORE:
            return (send,)
        count = self._queue_count(send)
        key = send.topic, send.broker_name
        self._seen[key] += 1
        if count < 2 or (self._seen[key] > count and not is_last):
            return (send,)
        pieces = cut(send, count)
        self._more += len(pieces) - 1
        return pieces


def cut(send: PackedSend, most: int) -> Sequence[Outbound]:
    """Return a batch in so many pieces at most, each with about as many rows."""
    worth = max(send.rows // LEAST_ROWS, len(send.body) // LEAST_BYTES)
    count = min(most, worth, send.rows)
    if count < 2:
        return (send,)
    pieces: list[Outbound] = []
    begin = end = row = 0
    for number in range(1, count + 1):
        first, last = row, number * send.rows // count
        while row < last:
            end += _LENGTH.unpack_from(send.body, end)[0]
            row += 1
        pieces.append(Piece(send.topic, send.broker_name, send.body[begin:end], row - first))
        begin = end
    return pieces
