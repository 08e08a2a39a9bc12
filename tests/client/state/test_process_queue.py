"""Commit offsets of a process queue, for any order of completion."""

import random

import pytest

from orbitmq._native import ReceivedMessage, decode_messages, encode_record
from orbitmq.client.consumer.orderly_queue import LOCK_VALID_MS, OrderlyQueue
from orbitmq.client.consumer.process_queue import CacheLimits, ProcessQueue
from orbitmq.protocol.bodies import MessageQueue

QUEUE = MessageQueue("T", "b", 0)
LIMITS = CacheLimits(messages=10, size_bytes=5000, span=20)


def _messages(*offsets: int) -> list[ReceivedMessage]:
    data = b"".join(encode_record("T", b"x", queue_offset=offset) for offset in offsets)
    return decode_messages(data, QUEUE, topic="T")


def _queue() -> ProcessQueue:
    return ProcessQueue(QUEUE, 0, LIMITS)


def test_a_new_queue_has_nothing_to_commit() -> None:
    assert _queue().commit_offset == -1


def test_the_smallest_unfinished_offset_is_committed() -> None:
    queue = _queue()
    one, two, three = queue.add(_messages(3, 4, 5, 9, 10, 11), 600, run_length=2)
    queue.finish(two)
    assert queue.commit_offset == -1
    queue.finish(one)
    assert queue.commit_offset == 10
    queue.finish(three)
    assert queue.commit_offset == 12
    assert (queue.count, queue.size_bytes, queue.min_offset) == (0, 0, -1)


def test_messages_finished_in_any_order_are_committed_to_the_end() -> None:
    rng = random.Random(7)
    for _ in range(200):
        queue = _queue()
        runs = queue.add(_messages(*range(5, 25)), 2000, rng.choice([1, 3, 7, None]))
        if len(runs[0].messages) > 1:
            runs += queue.split(runs[0], 1, rng.choice([1, None]))
        rng.shuffle(runs)
        open_offsets = {message.queue_offset for run in runs for message in run.messages}
        for run in runs:
            queue.finish(run)
            open_offsets -= {message.queue_offset for message in run.messages}
            assert queue.commit_offset <= min(open_offsets, default=25)
        assert queue.commit_offset == 25
        assert (queue.count, queue.size_bytes) == (0, 0)


def test_unfinished_messages_hold_the_offset_back() -> None:
    queue = _queue()
    messages = _messages(0, 1, 2, 3)
    (run,) = queue.add(messages, sum(m.stored_size for m in messages))
    first, third = queue.finish(run, [messages[0], messages[2]])
    assert (queue.count, queue.commit_offset, queue.min_offset) == (2, -1, 0)
    queue.finish(first)
    assert queue.commit_offset == 2
    queue.finish(third)
    assert (queue.commit_offset, queue.count, queue.size_bytes) == (4, 0, 0)


def test_a_kept_message_behind_an_unfinished_run_holds_the_offset_back() -> None:
    queue = _queue()
    messages = _messages(0, 1, 2, 3)
    early, late = queue.add(messages, 400, run_length=2)
    (kept,) = queue.finish(late, [messages[2]])
    queue.finish(early)
    assert queue.commit_offset == 2
    queue.finish(kept)
    assert queue.commit_offset == 4


def test_an_empty_pull_moves_only_an_empty_queue() -> None:
    queue = _queue()
    queue.found_nothing(7)
    assert queue.commit_offset == 7
    (run,) = queue.add(_messages(8), 100)
    queue.found_nothing(20)
    assert queue.commit_offset == 7
    queue.finish(run)
    assert queue.commit_offset == 9
    queue.found_nothing(5)
    assert queue.commit_offset == 9


@pytest.mark.parametrize("offset", [3, 50])
def test_a_moved_queue_continues_at_the_new_offset(offset: int) -> None:
    queue = _queue()
    (run,) = queue.add(_messages(8, 9), 100)
    queue.moved(offset)
    assert queue.next_offset == offset
    assert queue.max_offset == min(9, offset - 1)
    queue.finish(run)
    (run,) = queue.add(_messages(offset), 100)
    queue.finish(run)
    assert queue.commit_offset == offset + 1
    queue.moved(7)
    assert queue.commit_offset == 7


@pytest.mark.parametrize(
    ("offsets", "size_bytes", "full"),
    [(range(10), 100, False), (range(11), 100, True), ([1], 5001, True), ([1, 22], 10, True)],
)
def test_a_queue_is_full_by_count_bytes_or_span(
    offsets: range, size_bytes: int, full: bool
) -> None:
    queue = _queue()
    runs = queue.add(_messages(*offsets), size_bytes)
    assert queue.is_full is full
    told: list[bool] = []
    queue.on_room = lambda: told.append(True)
    queue.finish(runs[0])
    assert not queue.is_full
    assert told == [True]


# ---- Orderly consumption


def _orderly() -> OrderlyQueue:
    return OrderlyQueue(QUEUE, 0, LIMITS)


def test_an_orderly_queue_has_one_worker_at_a_time() -> None:
    queue = _orderly()
    assert queue.add(_messages(0, 1), 200)
    assert not queue.add(_messages(2), 100)
    assert not queue.claim()
    assert [m.queue_offset for m in queue.take(2)] == [0, 1]
    queue.commit()
    assert [m.queue_offset for m in queue.take(2)] == [2]
    queue.commit()
    assert not queue.claim()  # Still held by the same worker.
    assert queue.take(2) == []
    assert queue.commit_offset == 3
    assert queue.count == 0
    assert queue.add(_messages(3), 100)


def test_messages_put_back_come_first() -> None:
    queue = _orderly()
    queue.add(_messages(0, 1, 2), 300)
    taken = queue.take(2)
    queue.put_back([message.with_reconsume_times(1) for message in taken])
    assert (queue.commit_offset, queue.count, queue.min_offset) == (-1, 3, 0)
    queue.release()
    assert queue.claim()
    again = queue.take(3)
    assert [m.queue_offset for m in again] == [0, 1, 2]
    assert [m.reconsume_times for m in again] == [1, 1, 0]


def test_kept_messages_are_committed_with_the_next_commit() -> None:
    queue = _orderly()
    queue.add(_messages(0, 1, 2, 3), 400)
    for _ in range(2):
        queue.take(1)
        queue.keep()
    assert (queue.commit_offset, queue.count, queue.min_offset) == (-1, 4, 0)
    assert [m.queue_offset for m in queue.uncommitted] == [0, 1]
    queue.take(1)
    queue.commit()
    assert (queue.commit_offset, queue.count, queue.min_offset) == (3, 1, 3)
    assert queue.uncommitted == []


def test_rolled_back_messages_come_again_in_order() -> None:
    queue = _orderly()
    queue.add(_messages(0, 1, 2, 3), 400)
    queue.take(1)
    queue.commit()
    queue.take(1)
    queue.keep()
    queue.take(1)
    queue.roll_back()
    assert (queue.commit_offset, queue.count, queue.min_offset) == (1, 3, 1)
    assert [m.queue_offset for m in queue.take(4)] == [1, 2, 3]


def test_messages_kept_before_a_failure_are_not_put_back() -> None:
    queue = _orderly()
    queue.add(_messages(0, 1), 200)
    queue.take(1)
    queue.keep()
    queue.put_back(queue.take(1))
    assert [m.queue_offset for m in queue.take(2)] == [1]
    queue.commit()
    assert (queue.commit_offset, queue.count) == (2, 0)


def test_a_lock_is_valid_for_a_limited_time() -> None:
    queue = _orderly()
    assert not queue.is_ours(0)
    queue.granted(1000)
    assert queue.is_ours(1000 + LOCK_VALID_MS)
    assert not queue.is_ours(1001 + LOCK_VALID_MS)
    queue.granted(50_000)
    queue.refused()
    assert not queue.is_ours(50_000)
    queue.needs_lock = False
    assert queue.is_ours(50_000)
