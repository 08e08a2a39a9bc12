"""A store directory as a table, without Spark: pyarrow, pandas, Polars and DuckDB read it."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

from orbitmq.errors import CorruptStore, FileExpired, MissingFile, StoreIOError, StoreLocked
from orbitmq.storelog import COLUMNS, StoreLog, parse_time_ms
from tests.spark.small_stores import (
    COUNT,
    STEP_MS,
    T0,
    body,
    fill,
    flip_byte_of,
    log_files,
    message,
    open_small,
    overwrite,
)


def bodies(table: pa.Table) -> list[bytes]:
    return table.column("body").to_pylist()  # type: ignore[no-any-return]


def test_every_column_equals_the_stored_message(store: Path) -> None:
    table = pa.table(StoreLog(store).scan(broker_name="broker-a"))
    assert table.column_names == list(COLUMNS)
    assert bodies(table) == [body(number) for number in range(COUNT)]
    row = table.slice(7, 1).to_pylist()[0]
    stored = datetime.fromtimestamp((T0 + 7 * STEP_MS) / 1000, UTC)
    assert row["storeTimestamp"] == stored
    assert (row["topic"], row["queueId"], row["queueOffset"]) == ("odd", 1, 1)
    assert (row["brokerName"], row["bornHost"]) == ("broker-a", "10.9.8.7:4007")
    assert (row["tags"], row["keys"], row["msgId"]) == ("tag1", ["k7", "ten7"], "U7")
    assert dict(row["properties"])["shop"] == "Zürich ☕"
    assert len(row["offsetMsgId"]) == 32


def test_polars_duckdb_and_pandas_read_a_scan(store: Path) -> None:
    scan = StoreLog(store).scan(topics=["odd"], columns=["topic", "queueId", "body"])
    frame = polars.DataFrame(scan)
    assert frame.height == COUNT // 2
    assert frame["body"].to_list() == [body(number) for number in range(1, COUNT, 2)]
    counted = duckdb.sql("select topic, queueId, count(*) from scan group by all order by all")
    assert counted is not None
    assert counted.fetchall() == [("odd", 0, COUNT // 4), ("odd", 1, COUNT // 4)]
    assert pa.table(scan).to_pandas().shape == (COUNT // 2, 3)
    report = scan.report()
    assert report is not None
    assert (report.matched, report.damaged) == (COUNT // 2, 0)


@pytest.mark.parametrize("splits", [1, 2, 7, 100, 5000])
def test_splits_together_are_the_whole(store: Path, splits: int) -> None:
    plan = pickle.loads(pickle.dumps(StoreLog(store).plan(splits=splits, columns=["body"])))
    assert 1 <= len(plan.splits) <= splits
    parts = [pa.table(plan.open(split)) for split in plan.splits]
    assert bodies(pa.concat_tables(parts)) == [body(number) for number in range(COUNT)]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads read a few messages at a time, so that a small store has many pieces."""
    monkeypatch.setattr("orbitmq.storelog.plan.PIECE_BYTES", 5000)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_several_threads_return_the_same_rows_in_the_same_order(store: Path, threads: int) -> None:
    log = StoreLog(store)
    alone, together = (log.scan(columns=["body"], threads=count) for count in (1, threads))
    batches = [pa.table(batch) for batch in together]
    assert len(batches) > 20, "there were pieces to share out"
    assert bodies(pa.concat_tables(batches)) == [body(number) for number in range(COUNT)]
    assert bodies(pa.table(together)) == bodies(pa.table(alone))
    one, several = alone.report(), together.report()
    assert one is not None
    assert several is not None
    assert (several.records, several.bytes, several.matched) == (COUNT, one.bytes, COUNT)
    with pytest.raises(ValueError, match="threads is 1 or more, not 0"):
        log.scan(threads=0)


@pytest.mark.usefixtures("small_pieces")
def test_the_report_of_threads_covers_the_batches_returned(store: Path) -> None:
    scan = StoreLog(store).scan(columns=["body"], threads=2)
    rows = 0
    for batch in scan:
        rows += batch.num_rows
        report = scan.report()
        assert report is not None
        assert report.matched == rows


@pytest.mark.usefixtures("small_pieces")
def test_threads_report_damage_in_the_order_of_the_log(tmp_path: Path) -> None:
    path = fill(tmp_path / "store", COUNT)
    for number in (41, 200):
        flip_byte_of(path, number)
    log = StoreLog(path)
    strict = iter(log.scan(columns=["body"], threads=4))
    read: list[bytes] = []
    with pytest.raises(CorruptStore, match="message 10 of queue 0 of topic odd"):
        read.extend(each for batch in strict for each in bodies(pa.table(batch)))
    assert read == [body(number) for number in range(len(read))]
    assert list(strict) == [], "nothing comes behind what could not be read"
    lenient = log.scan(columns=["body"], threads=4, fail_on_damage=False)
    undamaged = [body(number) for number in range(COUNT) if number not in {41, 200}]
    assert bodies(pa.table(lenient)) == undamaged
    report = lenient.report()
    assert report is not None
    assert [damage[4:] for damage in report.damages] == [("odd", 0, 10), ("even", 0, 50)]


def until_scan_threads(count: int) -> None:
    def threads() -> int:
        names = []
        for each in Path("/proc/self/task").glob("*/comm"):
            with suppress(OSError):  # It has just ended.
                names.append(each.read_text().strip())
        return names.count("orbitmq-scan")

    deadline = time.monotonic() + 30
    while threads() != count:
        assert time.monotonic() < deadline, f"there are {threads()}, not {count}"
        time.sleep(0.01)  # No event reports the end of a native thread.


@pytest.mark.usefixtures("small_pieces")
def test_threads_end_when_the_scan_is_dropped(store: Path) -> None:
    until_scan_threads(0)
    scans = [iter(StoreLog(store).scan(threads=4)) for _ in range(5)]
    for scan in scans:
        next(scan)
    until_scan_threads(20)
    scans.clear()
    del scan
    until_scan_threads(0)


@pytest.mark.usefixtures("small_pieces")
def test_threads_end_when_all_is_read(store: Path) -> None:
    scan = StoreLog(store).scan(threads=4)
    assert pa.table(scan).num_rows == COUNT
    until_scan_threads(0)
    report = scan.report()
    assert report is not None
    assert report.matched == COUNT, "it is still told what they met"


def test_the_number_of_splits_follows_the_size_of_the_log(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = StoreLog(store)
    assert len(log.plan(at_once=2).splits) == 1, "not worth a second task"
    monkeypatch.setattr("orbitmq.storelog.log.LEAST_SPLIT_BYTES", log.size // 100)
    assert len(log.plan(at_once=2).splits) == 2, "as many as run at once"
    monkeypatch.setattr("orbitmq.storelog.log.SPLIT_BYTES", log.size // 20)
    splits = log.plan(at_once=2).splits
    assert len(splits) == 22, "none is too large, and no task has nothing to do in the last round"


def test_times_offsets_queues_and_keys_select(store: Path) -> None:
    log = StoreLog(store)

    def numbers(**wishes: Any) -> list[int]:
        found = bodies(pa.table(log.scan(columns=["body"], **wishes)))
        return [int(text.split()[1]) for text in found]

    at = [datetime.fromtimestamp((T0 + n * STEP_MS) / 1000, UTC) for n in (100, 110)]
    assert numbers(start=at[0], end=at[1]) == list(range(100, 110))
    assert numbers(start=at[0].isoformat(), end=T0 + 110 * STEP_MS) == list(range(100, 110))
    assert numbers(topics={"odd": [1]}) == list(range(3, COUNT, 4))
    assert numbers(topic_pattern="o.*|nothing") == list(range(1, COUNT, 2))
    offsets = {"starting_offsets": {"even": {0: 10}}, "ending_offsets": {"even": {0: 12}}}
    assert numbers(topics={"even": [0]}, **offsets) == [40, 44]
    assert numbers(**offsets) == sorted([*range(2, COUNT, 4), 40, 44])
    assert numbers(topics=["odd"], keys=["U7", "k11", "k12"]) == [7, 11]
    assert numbers(keys=["ten3"], prune=False) == list(range(3, COUNT, 10))
    assert numbers(topics=[]) == []
    assert numbers(topics=["absent"]) == []


def test_invalid_arguments_are_refused_with_an_explanation(store: Path, tmp_path: Path) -> None:
    log = StoreLog(store)
    with pytest.raises(ValueError, match="not both"):
        log.plan(topics=["a"], topic_pattern="b")
    with pytest.raises(ValueError, match="neither epoch milliseconds nor a time"):
        log.plan(start="yesterday")
    with pytest.raises(ValueError, match="time zone"):
        log.plan(start=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="no column 'bodies'"):
        log.plan(columns=["bodies"])
    with pytest.raises(ValueError, match="not among the topics"):
        log.plan(topics=["odd"], starting_offsets={"even": {0: 1}})
    with pytest.raises(ValueError, match="not among the queues"):
        log.plan(topics={"odd": [0]}, starting_offsets={"odd": {1: 1}})
    with pytest.raises(ValueError, match="not a regular expression"):
        log.plan(topic_pattern="(")
    assert parse_time_ms("2023-11-14T22:13:20") == T0
    file = tmp_path / "o.avsc"
    file.touch()
    for path, told in (
        (tmp_path / "absent", f"there is no directory {tmp_path}/absent"),
        (file, f"{file} is a file, not a store directory"),
        (file / "below", f"there is no directory {file}/below"),
    ):
        with pytest.raises(StoreIOError) as raised:
            StoreLog(path)
        assert (str(raised.value), raised.value.path) == (told, path)
    with pytest.raises(StoreIOError, match=f"^{file} is a file, not a log directory$"):
        StoreLog(store, commit_log_paths=[file])


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"topics": 5}, "topics is a name or a list of names, and 5 is none"),
        ({"topics": {"odd": ["first"]}}, "a queue of topic 'odd' in topics is a whole number"),
        ({"topics": {"odd": 0.5}}, "a queue of topic 'odd' in topics is a whole number, not 0.5"),
        ({"topics": {"odd": [-1]}}, "a queue of topic 'odd' in topics is 0 or more, not -1"),
        ({"topics": {"odd": 2**31}}, "in topics is 2147483647 at most, not 2147483648"),
        ({"starting_offsets": {"odd": 5}}, "starting_offsets is such as {'orders': {0: 12}}"),
        ({"starting_offsets": "latest"}, "starting_offsets is such as {'orders': {0: 12}}"),
        ({"ending_offsets": {"odd": {0: None}}}, "an offset of topic 'odd' in ending_offsets is a"),
        ({"ending_offsets": {"odd": {0: -1}}}, "'odd' in ending_offsets is 0 or more, not -1"),
        ({"start": True}, "start is epoch milliseconds, ISO 8601 text, a date or a datetime"),
        ({"end": 1.5e12}, "end is epoch milliseconds, ISO 8601 text, a date or a datetime"),
        ({"end": str(10**20)}, "end is 9223372036854775807 at most"),
        ({"keys": ["k1", 5]}, "keys is a name or a list of names, and 5 is none"),
        ({"columns": [1]}, "columns is a name or a list of names, and 1 is none"),
        ({"splits": 0}, "splits is 1 or more, not 0"),
        ({"splits": True}, "splits is a whole number, not True"),
        ({"threads": "two"}, "threads is a whole number, not 'two'"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(store: Path, wish: dict[str, Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        StoreLog(store).scan(**wish)
    assert told in str(raised.value)


def test_single_values_are_accepted_as_lists(store: Path) -> None:
    log = StoreLog(store)

    def rows(**wishes: Any) -> list[dict[str, Any]]:
        return pa.table(log.scan(**wishes)).to_pylist()  # type: ignore[no-any-return]

    for alone, listed in (
        ({"topics": "odd"}, {"topics": ["odd"]}),
        ({"keys": "k12"}, {"keys": ["k12"]}),
        ({"columns": "keys"}, {"columns": ["keys"]}),
        ({"topics": {"odd": 0}}, {"topics": {"odd": [0]}}),
        ({"topics": {"odd": ["0"]}}, {"topics": {"odd": [0]}}),
        ({"starting_offsets": {"odd": {"1": 5}}}, {"starting_offsets": {"odd": {1: 5}}}),
        ({"ending_offsets": {"odd": {1: "5"}}}, {"ending_offsets": {"odd": {1: 5}}}),
        ({"threads": "2"}, {"threads": 2}),
        ({"end": date(2023, 11, 15)}, {"end": "2023-11-15T00:00:00Z"}),
    ):
        assert rows(**alone) == rows(**listed) != []
    assert parse_time_ms(date(2023, 11, 15)) == parse_time_ms("2023-11-15T00:00:00Z")
    log = StoreLog(store, commit_log_paths=store / "commitlog")
    assert len(rows()) == COUNT


def test_a_relative_path_is_resolved_when_the_log_is_opened(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    logs = [
        StoreLog(store.name),
        StoreLog(store.name, commit_log_paths=[f"{store.name}/commitlog"]),
    ]
    monkeypatch.chdir(tmp_path)
    for log in logs:
        assert log.path == store
        assert pa.table(log.scan()).num_rows == COUNT
        assert pa.table(log.scan(topics=["odd"])).num_rows == COUNT // 2


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("small_pieces")
def test_a_moved_store_is_not_reported_as_expired(tmp_path: Path, threads: int) -> None:
    path = fill(tmp_path / "store", 60)
    log = StoreLog(path)
    scans = [log.scan(threads=threads, fail_on_damage=wish) for wish in (True, False)]
    path.rename(tmp_path / "moved")
    for scan in scans:
        with pytest.raises(StoreIOError, match="commitlog failed: the directory was moved or dele"):
            list(scan)
    with pytest.raises(StoreIOError, match=f"^there is no directory {path}$"):
        log.scan(topics=["odd"])


def test_a_damaged_message_is_an_error_or_counted(tmp_path: Path) -> None:
    path = fill(tmp_path / "store", 60)
    flip_byte_of(path, 41)
    log = StoreLog(path)
    with pytest.raises(CorruptStore, match="message 10 of queue 0 of topic odd") as raised:
        list(log.scan())
    assert raised.value.path == log_files(path)[0]
    scan = log.scan(fail_on_damage=False, columns=["body"])
    assert bodies(pa.table(scan)) == [body(number) for number in range(60) if number != 41]
    report = scan.report()
    assert report is not None
    assert (report.damaged, report.damages[0][4:]) == (1, ("odd", 0, 10))
    unchecked = log.scan(verify_crc=False, columns=["body"])
    assert len(pa.table(unchecked)) == 60


def test_a_missing_log_file_is_an_error_or_counted(tmp_path: Path) -> None:
    path = fill(tmp_path / "store", 1200)
    files = log_files(path)
    lost = pa.table(StoreLog(path).scan(columns=["body", "topic", "physicalOffset"]))
    files[2].unlink()
    gap = (int(files[2].name), int(files[3].name))
    kept = lost.filter(
        pa.array([not gap[0] <= at < gap[1] for at in lost["physicalOffset"].to_pylist()])
    )
    log = StoreLog(path)
    for wishes in ({}, {"topics": ["even", "odd"]}, {"topics": ["even", "odd"], "prune": False}):
        with pytest.raises(MissingFile, match=f"{gap[0]} to {gap[1]}.*restore it") as raised:
            list(log.scan(**wishes))
        assert raised.value.path == files[1]
        scan = log.scan(fail_on_damage=False, columns=["body"], **wishes)
        assert bodies(pa.table(scan)) == bodies(kept)
        report = scan.report()
        assert report is not None
        assert (report.damaged, report.damages[0][:3]) == (1, ("gap", gap[0], gap[1] - gap[0]))


@pytest.mark.usefixtures("small_pieces")
def test_a_file_that_expires_while_threads_read_it_is_counted_once(tmp_path: Path) -> None:
    path = fill(tmp_path / "store", COUNT)
    scan = StoreLog(path).scan(fail_on_damage=False, columns=["body"], threads=3)
    log_files(path)[0].unlink()
    assert 0 < pa.table(scan).num_rows < COUNT
    report = scan.report()
    assert report is not None
    assert report.damaged == 1
    assert [damage[:3] for damage in report.damages] == [("expired", 0, 65536)]


def test_a_file_that_expires_while_it_is_read_is_an_error_or_counted(tmp_path: Path) -> None:
    path = fill(tmp_path / "store", COUNT)
    files = log_files(path)
    log = StoreLog(path)
    strict = log.scan()
    lenient = log.scan(fail_on_damage=False, columns=["body"])
    everything = bodies(pa.table(lenient))
    files[0].unlink()
    with pytest.raises(FileExpired, match=r"retention deleted 0 to 65536.*scan again") as raised:
        list(strict)
    assert raised.value.path == files[0]
    found = bodies(pa.table(lenient))
    assert 0 < len(found) < COUNT
    assert found == everything[-len(found) :]
    report = lenient.report()
    assert report is not None
    assert [damage[:3] for damage in report.damages] == [("expired", 0, 65536)]


def test_a_torn_tail_is_left_out_and_counted(tmp_path: Path) -> None:
    path = fill(tmp_path / "store", 20)
    end = StoreLog(path).snapshot.log_end
    overwrite(log_files(path)[0], end, b"\x00\x00\x01\x00\xda\xa3\x20\xa7half a message")
    log = StoreLog(path)
    assert (log.snapshot.log_end, log.torn_bytes) == (end, 22)
    assert len(pa.table(log.scan())) == 20


def test_a_copy_of_the_commit_log_alone_can_be_read(store: Path) -> None:
    log = StoreLog(store / "commitlog")
    assert bodies(pa.table(log.scan(topics=["odd"]))) == [body(n) for n in range(1, COUNT, 2)]
    with pytest.raises(ValueError, match="name the topics themselves"):
        log.plan(topic_pattern=".*")


HOLD_OPEN = """
import sys
from tests.spark.small_stores import *
with open_small(Path(sys.argv[1])) as store:
    for number in range(COUNT):
        store.append(message(number), now_ms=T0 + number * STEP_MS)
    print("filled", flush=True)
    sys.stdin.readline()
"""


def test_queues_are_used_while_another_process_runs_the_store(tmp_path: Path) -> None:
    def part_read(path: Path) -> float:
        log = StoreLog(path)
        return sum(split.size for split in log.plan(topics=["absent"]).splits) / log.size

    path = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_OPEN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"filled\n"
        # Files get their names when they are complete.
        half_made = shutil.ignore_patterns("*.creating-*")
        shutil.copytree(path, tmp_path / "copy", ignore=half_made)
        assert part_read(path) == 0
        with pytest.raises(StoreLocked):
            open_small(path)
        holder.stdin.close()
    assert part_read(path) == 0, "at rest"
    assert part_read(tmp_path / "copy") == 1, "its queues may be older than its log"


def test_a_store_is_read_while_it_is_written(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as written:
        written.append(message(0), now_ms=T0)
        done = threading.Event()

        def write() -> None:
            for number in range(1, 500):
                written.append(message(number), now_ms=T0 + number * STEP_MS)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = 1
        finished = False
        while not finished:
            finished = done.is_set()
            found = bodies(pa.table(StoreLog(tmp_path / "store").scan(columns=["body"])))
            assert len(found) >= seen
            seen = len(found)
            assert found == [body(number) for number in range(seen)]
        writer.join()
        assert seen == 500
