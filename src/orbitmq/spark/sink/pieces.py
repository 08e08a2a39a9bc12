"""Cuts sends into pieces, so that the rows of a small task are spread over all queues.

A send goes to one queue. Most micro-batches have fewer sends per task than the topic has queues.
They would leave queues empty, and the consumers of these queues idle. So sends without a fixed
queue are cut while this matters: the last sends of a task, and the first ones up to the number of
queues. The sends in between stay whole, which is fastest.

A piece has at least `LEAST_ROWS` rows or `LEAST_BYTES` bytes, and cutting adds at most `MOST_MORE`
requests to a task. A request per row would cost more than the spreading is worth.
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
"""Length of a whole message, at the beginning of each message in the body of a batch."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a packed send: a batch of some of its messages."""

    topic: str
    broker_name: str | None
    body: bytes
    rows: int
    queue_id: None = None
    slot: None = None
    properties: None = None


Outbound = PackedSend | Piece
"""Messages of one request."""


class Pieces:
    """Cuts the sends of one task."""

    def __init__(self, queue_count: Callable[[PackedSend], int]) -> None:
        """Create the cutter; `queue_count` returns the number of queues a send may go to."""
        self._queue_count = queue_count
        self._seen: Counter[tuple[str, str | None]] = Counter()
        self._more = 0

    def of(self, send: PackedSend, *, is_last: bool) -> Sequence[Outbound]:
        """Return the pieces to send instead of `send`.

        `is_last` is true for the sends of `RowPacker.finish`, which do not wait for more rows.
        """
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
    """Return a batch in at most `most` pieces, each with about the same number of rows."""
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
