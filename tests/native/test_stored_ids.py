"""What the log says of exactly-once senders."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq._native import NewMessage, Store, StoredIds, StoreOptions, parse_scope
from orbitmq.errors import BatchNotTaken, MalformedId, WireError

OPTIONS = StoreOptions(commit_log_file_size=4096, index_enabled=False)
LIMIT = 1_000_000


def name_of(number: int) -> str:
    return f"{number:032X}"


def put(store: Store, number: int, batch: int = 1, topic: str = "orders") -> None:
    properties = {"UNIQ_KEY": name_of(number), "ORBIT_BATCH": f"query/{batch}"}
    store.append(NewMessage(topic, b"x" * 300, properties=properties))


def known(
    ids: StoredIds, numbers: range, batch: int = 1, topic: str = "orders", account: str = ""
) -> list[bool]:
    names = [name_of(number) for number in numbers]
    return ids.stored("query", batch, names, limit=LIMIT, topic=topic, account=account)


def test_the_log_alone_is_enough(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        for number in range(100):  # many files
            put(store, number)
            store.append(NewMessage("others", b"y" * 99))
        ids = store.stored_ids()
        assert len(ids) == 100
        assert known(ids, range(101)) == [True] * 100 + [False]


def test_a_snapshot_and_the_log_behind_it(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        for number in range(50):
            put(store, number)
        snapshot = store.stored_ids().snapshot(store.max_physical_offset)
        for number in range(50, 60):
            put(store, number)
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        assert known(store.stored_ids(snapshot), range(61)) == [True] * 60 + [False]


def test_a_snapshot_that_is_ahead_of_the_log_is_not_believed(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        put(store, 1)
        ids = store.stored_ids()
        ids.add("query", 1, [name_of(2)], now_ms=1)
        lost = ids.snapshot(store.max_physical_offset + 1)
        assert known(store.stored_ids(lost), range(1, 3)) == [True, False]


def test_a_snapshot_that_does_not_fit_the_log_is_not_believed(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        for number in range(20):
            put(store, number)
        ids = StoredIds()
        ids.add("query", 1, [name_of(99)], now_ms=1)
        assert known(store.stored_ids(ids.snapshot(7)), range(19, 22)) == [True, False, False]


def test_an_expired_beginning_of_the_log_is_no_obstacle(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        for number in range(40):
            put(store, number)
        snapshot = store.stored_ids().snapshot(0)
        assert store.clean(due=True, reserved_ms=-1, used_ratio=0.1).log_files > 0
        assert known(store.stored_ids(snapshot), range(40)) == [True] * 40


def test_copies_for_another_try_are_not_the_senders(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        put(store, 1, topic="%RETRY%group")
        put(store, 2, topic="SCHEDULE_TOPIC_XXXX")
        ids = store.stored_ids()
        assert known(ids, range(1, 3), topic="%RETRY%group") == [False, False]
        assert known(ids, range(1, 3), topic="SCHEDULE_TOPIC_XXXX") == [False, True]


def test_older_batches_are_over(tmp_path: Path) -> None:
    with Store.open(tmp_path, OPTIONS, create=True) as store:
        put(store, 1, batch=6)
        put(store, 2, batch=7)
        ids = store.stored_ids()
    assert len(ids) == 1
    with pytest.raises(BatchNotTaken, match="batch 6 of sender query is over: batch 7"):
        known(ids, range(1), batch=6)


def test_limits_and_bad_ids() -> None:
    ids = StoredIds()
    with pytest.raises(BatchNotTaken, match="limit is 1"):
        ids.stored("query", 1, [name_of(1), name_of(2)], limit=1)
    with pytest.raises(MalformedId, match="32 hex digits"):
        ids.stored("query", 1, ["x"], limit=1)
    ids.add("query", 1, [name_of(1)], now_ms=10)
    assert ids.forget_before(10) == 0
    assert ids.forget_before(11) == 1
    assert len(ids) == 0


def test_bytes_that_are_no_snapshot(tmp_path: Path) -> None:
    with (
        Store.open(tmp_path, OPTIONS, create=True) as store,
        pytest.raises(WireError, match="snapshot"),
    ):
        store.stored_ids(b"garbage")


def test_scopes() -> None:
    assert parse_scope("query/7") == ("query", 7)
    assert parse_scope("query") is None
