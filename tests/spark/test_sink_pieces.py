"""Sends cut into pieces: the same messages, over all queues, with few extra requests."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from orbitmq._native import PackedSend, RowPacker, decode_batch
from orbitmq.spark.sink.pieces import LEAST_BYTES, MOST_MORE, Pieces, cut


def packed(rows: int, body_bytes: int = 10, topic: str = "t") -> PackedSend:
    packer = RowPacker(
        topic=topic,
        batch_bytes=4 << 20,
        body_bytes=4 << 20,
        waiting_bytes=8 << 20,
        left_out=set(),
        id_prefix=b"0123456789",
    )
    bodies = [b"%d" % number + b"." * body_bytes for number in range(rows)]
    batch = pa.record_batch({"body": pa.array(bodies, pa.binary())})
    assert packer.push(batch, queue_counts={}, month_ms=1) == []
    (send,) = packer.finish()
    return send


@pytest.mark.parametrize(
    ("rows", "body_bytes", "most", "sizes"),
    [
        (100, 10, 8, [12, 13, 12, 13, 12, 13, 12, 13]),
        (802, 10, 4, [200, 201, 200, 201]),
        (11, 10, 8, [5, 6]),
        (7, 10, 8, [7]),
        (3, LEAST_BYTES, 8, [1, 1, 1]),
        (100, 10, 1, [100]),
    ],
)
def test_pieces_hold_every_message_once_in_order(
    rows: int, body_bytes: int, most: int, sizes: list[int]
) -> None:
    send = packed(rows, body_bytes)
    pieces = cut(send, most)
    assert [piece.rows for piece in pieces] == sizes
    assert b"".join(piece.body for piece in pieces) == send.body
    assert [len(decode_batch(piece.body)) for piece in pieces] == sizes


def test_only_the_first_and_the_last_sends_are_cut() -> None:
    pieces = Pieces(lambda _send: 3)
    send = packed(300)
    assert [len(pieces.of(send, is_last=False)) for _ in range(5)] == [3, 3, 3, 1, 1]
    assert len(pieces.of(send, is_last=True)) == 3


def test_single_messages_and_sends_to_one_queue_are_not_cut() -> None:
    send, alone = packed(300), packed(1)
    assert Pieces(lambda _send: 1).of(send, is_last=True) == (send,)
    assert Pieces(lambda _send: 8).of(alone, is_last=True) == (alone,)


def test_the_number_of_extra_requests_is_limited() -> None:
    pieces = Pieces(lambda _send: 8)
    requests = Counter[int]()
    for topic in range(200):
        requests[len(pieces.of(packed(100, topic=f"t{topic}"), is_last=True))] += 1
    assert requests[1] > 100
    assert sum((count - 1) * times for count, times in requests.items()) < MOST_MORE + 8
