"""The store's verbs: append, read, look up, reopen, flush, clean."""

import asyncio
import os
import select
import tempfile
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq import NewMessage, Record, Store, StoreOptions, decode_records, errors
from orbitmq._native import tags_code

DAY_MS = 24 * 3600 * 1000


def read_all(store: Store, topic: str, queue_id: int) -> list[Record]:
    """Every record of a queue, over as many reads as it takes."""
    records: list[Record] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.read(topic, queue_id, offset)
        assert result.next_offset > offset
        records += result.records()
        offset = result.next_offset
    return records


def append_numbered(store: Store, count: int, topic: str = "T", queue_id: int = 0) -> None:
    store.append_many(
        [
            NewMessage(topic, b"%d" % number, queue_id=queue_id, properties={"KEYS": f"k{number}"})
            for number in range(count)
        ]
    )


def test_what_is_appended_is_readable_at_once(store: Store) -> None:
    message = NewMessage(
        "orders",
        b"hello",
        queue_id=3,
        flag=7,
        born_timestamp=1000,
        born_host=("10.0.0.1", 5000),
        store_host=("::1", 10911),
        reconsume_times=2,
        properties={"TAGS": "paid", "KEYS": "a b"},
    )
    (place,) = store.append_many([message], now_ms=2000)
    assert (place.physical_offset, place.queue_offset) == (0, 0)
    assert place.end == place.size == store.max_physical_offset

    result = store.read("orders", 3, 0)
    assert (result.status, result.count, result.next_offset) == ("FOUND", 1, 1)
    (record,) = result.records()
    assert len(result.data) == place.size
    assert (record.topic, record.queue_id, record.body) == ("orders", 3, b"hello")
    assert (record.flag, record.born_timestamp, record.store_timestamp) == (7, 1000, 2000)
    assert (record.born_host, record.store_host) == (("10.0.0.1", 5000), ("::1", 10911))
    assert (record.reconsume_times, record.tags, record.keys) == (2, "paid", ("a", "b"))
    assert store.record_at(0) == result.data
    assert store.unit_at("orders", 3, 0) == (0, place.size, tags_code("paid"))
    assert store.queues() == [("orders", 3)]


def test_offsets_go_on_where_they_were_after_reopening(reopen: Callable[[], Store]) -> None:
    for round_ in range(3):
        store = reopen()
        assert store.recovery.clean_exit
        assert store.max_offset("T", 0) == round_ * 120
        append_numbered(store, 120)
    store = reopen()
    records = read_all(store, "T", 0)
    assert [record.queue_offset for record in records] == list(range(360))
    assert [record.body for record in records] == [b"%d" % number for number in range(120)] * 3
    assert store.max_physical_offset > 16 * 1024, "the messages filled more than one log file"


def test_statuses_of_a_read(store: Store) -> None:
    assert store.read("T", 0, 0).status == "NO_MESSAGE_IN_QUEUE"
    append_numbered(store, 3)
    assert store.read("T", 0, 0).status == "FOUND"
    assert store.read("T", 0, 3).status == "OFFSET_OVERFLOW_ONE"
    badly = store.read("T", 0, 9)
    assert (badly.status, badly.next_offset, badly.count) == ("OFFSET_OVERFLOW_BADLY", 3, 0)
    too_small = store.read("T", 0, -1)
    assert (too_small.status, too_small.next_offset) == ("OFFSET_TOO_SMALL", 0)


def test_a_read_stops_at_its_limits_but_gives_one_message(store: Store) -> None:
    append_numbered(store, 10)
    assert store.read("T", 0, 0, max_messages=4).next_offset == 4
    one = store.read("T", 0, 0, max_bytes=1)
    assert (one.count, one.next_offset) == (1, 1)
    size = len(one.data)
    assert store.read("T", 0, 0, max_bytes=3 * size).count == 3
    assert store.read("T", 0, 0, memory_bytes=0, max_messages_on_disk=2).count == 2
    assert store.read("T", 0, 0, memory_bytes=0, max_bytes_on_disk=1).count == 1


def test_a_read_by_tags(store: Store) -> None:
    tags = ["a", "b", "c", "a", ""]
    store.append_many(
        [NewMessage("T", b"", properties={"TAGS": tag} if tag else None) for tag in tags]
    )
    chosen = store.read("T", 0, 0, tag_codes=[tags_code("a"), tags_code("c")])
    assert [record.tags for record in chosen.records()] == ["a", "c", "a"]
    assert chosen.next_offset == 5
    nothing = store.read("T", 0, 0, tag_codes=[tags_code("z")])
    assert (nothing.status, nothing.next_offset) == ("NO_MATCHED_MESSAGE", 5)


def test_keys_are_found_within_their_time(store: Store) -> None:
    for number in range(30):
        properties = {"KEYS": f"common own-{number}", "UNIQ_KEY": f"U{number}"}
        store.append_many(
            [NewMessage("T", b"%d" % number, properties=properties)], now_ms=10_000 * (1 + number)
        )
    assert [record.body for record in _found(store, "own-7")] == [b"7"]
    assert [record.body for record in _found(store, "U29")] == [b"29"]
    assert len(_found(store, "common")) == 30
    newest = [record.body for record in _found(store, "common", max_messages=2)]
    assert newest == [b"28", b"29"]
    timed = [record.body for record in _found(store, "common", begin_ms=60_000, end_ms=80_000)]
    assert timed == [b"5", b"6", b"7"]
    assert store.query("T", "absent") == []
    assert store.query("Other", "common") == []


def _found(store: Store, key: str, **limits: int) -> list[Record]:
    return decode_records(b"".join(store.query("T", key, **limits)))


def test_offsets_by_time(store: Store) -> None:
    assert store.offset_by_time("T", 0, 0) == 0
    assert store.earliest_store_time("T", 0) is None
    for number in range(120):
        store.append_many([NewMessage("T", b"")], now_ms=1000 * number)
    assert store.earliest_store_time("T", 0) == 0
    assert [store.offset_by_time("T", 0, 1000 * n) for n in (0, 1, 60, 119)] == [0, 1, 60, 119]
    assert store.offset_by_time("T", 0, 60_400) == 60
    assert store.offset_by_time("T", 0, 60_600) == 61
    assert store.offset_by_time("T", 0, 10**9) == 119


def test_an_atomic_batch_lies_in_one_file(store: Store) -> None:
    append_numbered(store, 100)
    for _ in range(20):
        places = store.append_many([NewMessage("B", bytes(500))] * 7, atomic=True)
        ends = {place.physical_offset // (16 * 1024) for place in places}
        assert len(ends) == 1
        for one, next_ in pairwise(places):
            assert next_.physical_offset == one.end
            assert next_.queue_offset == one.queue_offset + 1


def test_sync_flush_raises_the_watermark(root: Path) -> None:
    with Store.open(
        root, StoreOptions(flush="sync", commit_log_file_size=1 << 20), create=True
    ) as store:
        (place,) = store.append_many([NewMessage("T", b"hello")])
        assert store.wait_flushed(place.end, 10_000)
        assert store.flushed_offset >= place.end
        assert not store.wait_flushed(place.end + 1, 20)


def test_the_event_wakes_a_loop_when_the_watermark_rises(root: Path) -> None:
    async def flushed(store: Store, event: int, end: int) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def look() -> None:
            os.eventfd_read(event)
            if store.flushed_offset >= end:
                done.set()

        loop.add_reader(event, look)
        try:
            (place,) = store.append_many([NewMessage("T", b"hello")])
            assert place.end == end
            await asyncio.wait_for(done.wait(), 10)
        finally:
            loop.remove_reader(event)

    with Store.open(
        root, StoreOptions(flush="sync", commit_log_file_size=1 << 20), create=True
    ) as store:
        event = store.flushed_event()
        (first,) = store.append_many([NewMessage("T", b"hello")])
        assert store.wait_flushed(first.end, 10_000)
        asyncio.run(flushed(store, event, 2 * first.size))
    try:
        assert select.select([event], [], [], 10)[0], "closing is announced too"
    finally:
        os.close(event)


def test_waiting_for_a_flush_lets_other_threads_run(store: Store) -> None:
    outcome: list[BaseException] = []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        try:
            store.wait_flushed(2**40, 3_600_000)
        except errors.StoreError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    store.close()
    thread.join()
    # Either it was already waiting when the store was closed, or it came just too late.
    assert isinstance(outcome[0], (errors.FlushFailed, errors.StoreClosed))


def test_cleaning_drops_the_oldest_files_and_moves_the_minimum(store: Store) -> None:
    append_numbered(store, 600)
    before = read_all(store, "T", 0)
    assert store.clean(used_ratio=0.1, due=True).log_files == 0, "nothing is old enough"

    later_ms = before[-1].store_timestamp + 4 * DAY_MS
    assert store.clean(used_ratio=0.1, now_ms=later_ms).log_files == 0, "it is not due"
    cleaned = store.clean(used_ratio=0.1, now_ms=later_ms, due=True)
    assert cleaned.log_files > 0
    assert cleaned.queue_files > 0
    assert store.min_physical_offset == cleaned.log_files * 16 * 1024

    minimum = store.min_offset("T", 0)
    assert 0 < minimum < 600
    too_small = store.read("T", 0, 0)
    assert (too_small.status, too_small.next_offset) == ("OFFSET_TOO_SMALL", minimum)
    assert read_all(store, "T", 0) == before[minimum:]


def test_a_full_disk_stops_appends_until_there_is_room(store: Store) -> None:
    store.clean(used_ratio=0.95)
    with pytest.raises(errors.DiskFull, match="95 % full") as caught:
        append_numbered(store, 1)
    assert caught.value.retriable
    assert caught.value.path == store.path
    store.clean(used_ratio=0.5)
    append_numbered(store, 1)


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(errors.StoreClosed) as caught:
        store.read("T", 0, 0)
    assert caught.value.path == store.path
    with pytest.raises(errors.StoreClosed):
        _ = store.max_physical_offset


_MESSAGES = st.tuples(
    st.sampled_from(["a", "b", "c"]), st.integers(0, 2), st.binary(max_size=3000), st.integers(0, 9)
)


@settings(max_examples=25)
@given(st.lists(st.lists(_MESSAGES, min_size=1, max_size=8), max_size=12), st.booleans())
def test_every_queue_reads_back_in_order(
    calls: list[list[tuple[str, int, bytes, int]]], atomic: bool
) -> None:
    options = StoreOptions(
        commit_log_file_size=64 * 1024,
        consume_queue_file_size=60,
        index_slots=10,
        index_entries=50,
        populate_ahead_bytes=0,
    )
    model: dict[tuple[str, int], list[tuple[bytes, tuple[str, ...]]]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for call in calls:
            with Store.open(directory, options, create=True) as store:
                messages = []
                for topic, queue_id, body, key in call:
                    properties = {"KEYS": f"key{key}"}
                    message = NewMessage(topic, body, queue_id=queue_id, properties=properties)
                    messages.append(message)
                    model.setdefault((topic, queue_id), []).append((body, (f"key{key}",)))
                store.append_many(messages, atomic=atomic)
        with Store.open(directory, options, create=True) as store:
            assert store.queues() == sorted(model)
            for (topic, queue_id), expected in model.items():
                records = read_all(store, topic, queue_id)
                assert [(record.body, record.keys) for record in records] == expected
                assert [record.queue_offset for record in records] == list(range(len(expected)))
                for record in records:
                    assert record.encoded in store.query(topic, record.keys[0])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_path_that_is_no_store_is_left_as_it_is(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "stroe"
    if is_there:
        path.mkdir()
        (path / "letters.txt").write_text("mine")
    with pytest.raises(errors.NoStore, match="is no store") as refused:
        Store.open(path)
    assert refused.value.path == path
    assert [one.name for one in tmp_path.rglob("*")] == (
        ["stroe", "letters.txt"] if is_there else []
    )


def test_a_store_that_was_made_is_opened_without_asking_to_create(tmp_path: Path) -> None:
    Store.open(tmp_path / "made", create=True).close()
    with Store.open(tmp_path / "made") as store:
        assert list(store.queues()) == []
