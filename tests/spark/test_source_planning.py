"""Division of offset ranges among tasks, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.offsets import QueueRange, as_json, from_json, least_in, tasks_in
from orbitmq.spark.source.task_plan import LEAST_PER_TASK, ONCE_LEAST_PER_TASK, pack, share, split


def queue(number: int) -> MessageQueue:
    return MessageQueue("t", "b", number)


def ranges_of(counts: list[int], start: int = 100) -> list[QueueRange]:
    return [QueueRange(queue(n), start, start + count) for n, count in enumerate(counts)]


def offsets_in(ranges: list[QueueRange]) -> list[tuple[MessageQueue, int]]:
    return sorted((each.queue, at) for each in ranges for at in range(each.start, each.end))


counts = st.lists(st.integers(0, 60), max_size=8)


@given(counts, st.integers(1, 9), st.none() | st.integers(1, 20), st.none() | st.integers(1, 30))
def test_every_offset_is_read_once(
    lengths: list[int], parallelism: int, least: int | None, most: int | None
) -> None:
    wanted = ranges_of(lengths)
    packed = pack(wanted, parallelism, least, most)
    assert offsets_in([each for task in packed for each in task]) == offsets_in(wanted)
    assert all(task == sorted(task, key=lambda each: (each.queue, each.start)) for task in packed)
    if least is not None:
        assert len(packed) >= min(least, sum(lengths))
    if most is not None:
        assert all(sum(each.count for each in task) <= most for task in packed)


@pytest.mark.parametrize(
    ("lengths", "tasks"),
    [
        ([100_000] * 64, 8),
        ([1000] * 8, 8),
        ([1000] * 5, 5),
        ([1000] * 5 + [0] * 60, 5),
        ([100_000], 1),
        ([LEAST_PER_TASK] * 8, 8),
        ([LEAST_PER_TASK // 4] * 8, 2),
        ([1] * 8, 1),
        ([10_000] + [1] * 8, 8),
        ([], 0),
        ([0, 0], 0),
    ],
)
def test_there_are_as_many_tasks_as_cores(lengths: list[int], tasks: int) -> None:
    assert len(pack(ranges_of(lengths), 8)) == tasks


@pytest.mark.parametrize(
    ("lengths", "tasks"), [([1000] * 8, 1), ([3000] * 8, 3), ([30_000] * 8, 8), ([1] * 8, 1)]
)
def test_batches_of_earlier_versions_keep_their_tasks(lengths: list[int], tasks: int) -> None:
    assert len(pack(ranges_of(lengths), 8, least=ONCE_LEAST_PER_TASK)) == tasks


def test_tasks_have_about_equal_sizes() -> None:
    packed = pack(ranges_of([50_000, 30_000, 30_000, 20_000, 10_000]), 2)
    assert sorted(sum(each.count for each in task) for task in packed) == [70_000, 70_000]


def test_the_longest_range_is_divided_first() -> None:
    pieces = split(ranges_of([100, 10]), 5, None)
    assert [each.count for each in pieces] == [25, 25, 25, 25, 10]


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 1000), max_size=8), st.integers(1, 3000))
def test_shares_are_proportional_to_the_backlog(waiting: dict[int, int], limit: int) -> None:
    backlogs = {queue(number): count for number, count in waiting.items()}
    shares = share(backlogs, limit)
    total = sum(backlogs.values())
    assert sum(shares.values()) == min(total, limit)
    for each, count in backlogs.items():
        assert (1 if limit >= len(backlogs) else 0) <= shares[each] <= count
        if total > limit >= len(backlogs):
            assert abs(shares[each] - count * limit / total) <= len(backlogs)
            assert all(shares[each] <= shares[more] for more in backlogs if backlogs[more] > count)


def test_a_small_queue_beside_a_large_one_is_read() -> None:
    large, small = queue(0), queue(1)
    assert share({large: 10_000_000, small: 100}, 1000) == {large: 999, small: 1}
    assert share({large: 10_000_000, small: 9_000_000}, 1900) == {large: 1000, small: 900}


@given(st.integers(2, 9), st.data())
def test_queues_take_turns_when_there_is_not_one_offset_for_each(count: int, data: Any) -> None:
    limit = data.draw(st.integers(1, count - 1))
    given_out = data.draw(st.integers(0, 99))
    busy = {queue(number): 1000 + number for number in range(count)}  # filled as fast as it is read
    seen: list[MessageQueue] = []
    for _ in range(count):
        shares = share(busy, limit, given_out)
        assert sum(shares.values()) == limit
        seen += [each for each, part in shares.items() if part]
        given_out += limit
    assert {each: seen.count(each) for each in busy} == dict.fromkeys(busy, limit)


@given(st.dictionaries(st.integers(0, 99), st.integers(0, 2**62)))
def test_offsets_are_written_in_a_fixed_order(numbers: dict[int, int]) -> None:
    offsets = {queue(number): offset for number, offset in numbers.items()}
    text = as_json(offsets, tasks=3, least=7)
    assert from_json(text) == offsets
    assert (tasks_in(text), least_in(text)) == (3, 7)
    assert str(text) == str(as_json(dict(reversed(offsets.items())), tasks=3, least=7))
