"""Batches made ahead by another thread: the same ones, in order, and none left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from orbitmq.spark.source.range_reader import ahead

LIMIT_S = 30.0


class Batches(Iterator[int]):
    """Numbers, with the count of those made so far."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.made = threading.Semaphore(0)
        self.makers: list[threading.Thread] = []

    def __next__(self) -> int:
        if len(self.makers) == self.count:
            raise StopIteration
        self.makers.append(threading.current_thread())
        self.made.release()
        return len(self.makers)


def test_batches_come_in_order_from_one_other_thread() -> None:
    batches = Batches(100)
    assert list(ahead(batches)) == list(range(1, 101))
    (maker,) = set(batches.makers)
    assert maker is not threading.current_thread()
    assert not maker.is_alive()


def test_an_empty_iterator_gives_no_batches() -> None:
    assert list(ahead(iter(()))) == []


def test_exactly_one_batch_is_made_ahead() -> None:
    batches = Batches(10)
    asking = ahead(batches)
    assert next(asking) == 1
    for _ in range(2):
        assert batches.made.acquire(timeout=LIMIT_S), "the second is made while we have the first"
    assert not batches.made.acquire(timeout=0.1), "the third is not"
    assert list(asking) == list(range(2, 11))


def test_an_error_comes_after_the_batches_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("the broker is gone")

    asking = ahead(failing())
    assert [next(asking), next(asking)] == [1, 2]
    with pytest.raises(OSError, match="the broker is gone"):
        next(asking)


def test_the_thread_ends_when_the_reader_stops() -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended = []

    def slow() -> Iterator[int]:
        yield 1
        begun.set()
        assert may_end.wait(LIMIT_S)
        ended.append(True)
        yield 2
        raise AssertionError("nobody asked for a third")

    asking = ahead(slow())
    assert next(asking) == 1
    assert begun.wait(LIMIT_S)
    threading.Timer(0.05, may_end.set).start()
    asking.close()
    assert ended, "what was being made is done"
