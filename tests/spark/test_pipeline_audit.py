"""The audit finds nothing in an intact store and every seeded fault, with its exit code."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import NewMessage, Store, StoreOptions
from orbitmq.errors import BadPipeline
from orbitmq.spark.pipelines import Exit, Report, parse, run
from orbitmq.storelog import StoreLog
from tests.spark.recording import Recorder
from tests.spark.small_stores import (
    HOST,
    INDEX_SLOTS,
    T0,
    fill,
    flip_byte_of,
    log_files,
    message,
    open_small,
    overwrite,
)

COUNT = 150
ENTRIES_AT = 40 + INDEX_SLOTS * 4


def audit(spark: SparkSession, directory: Path, **keys: Any) -> tuple[Exit, Report]:
    recorder = Recorder()
    tree = {"kind": "audit", "path": "store", "tasks": 3, **keys}
    code = run(parse(tree, file=directory / "audit.toml", environment={}), spark, recorder)
    assert not recorder.failures, recorder.failures
    (report,) = recorder.reports
    return code, report


def unit(directory: Path, offset: int) -> tuple[Path, int]:
    """Return the position of the unit of message `4 * offset`: queue files here hold 64."""
    queue = directory / "store/consumequeue/even/0"
    return queue / f"{offset // 64 * 64 * 20:020}", offset % 64 * 20


def index_file(directory: Path) -> Path:
    (file,) = (directory / "store/index").iterdir()
    return file


def empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


FAULTS: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "a flipped byte": (lambda d: flip_byte_of(d / "store", 41), {"damaged-record"}),
    "a missing unit": (
        lambda d: overwrite(*unit(d, 5), bytes(20)),
        {"missing-unit", "queue-gap"},
    ),
    "a unit that points wrong": (
        lambda d: overwrite(*unit(d, 5), bytes(8)),
        {"wrong-unit", "stray-unit"},
    ),
    "an index entry that points wrong": (
        lambda d: overwrite(index_file(d), ENTRIES_AT + 30 * 20 + 4, bytes(8)),
        {"missing-index-entry", "wrong-index-entry"},
    ),
    "a slot that leads nowhere": (
        lambda d: overwrite(index_file(d), 40 + 4 * 3, bytes(4)),
        {"missing-index-entry", "broken-index-chain"},
    ),
    "no queues": (lambda d: empty(d / "store/consumequeue"), {"no-queues"}),
    "no directory of queues": (lambda d: shutil.rmtree(d / "store/consumequeue"), {"no-queues"}),
    "no index": (lambda d: empty(d / "store/index"), {"no-index"}),
}


def test_an_intact_store_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as store:
        for number in range(COUNT):
            store.append(message(number), now_ms=T0 + number)
        assert audit(spark, tmp_path)[0] is Exit.DONE
    code, report = audit(spark, tmp_path)
    assert (code, report.faults, report.facts["findings"]) == (Exit.DONE, 0, {})
    assert report.facts["checked"] == {"records": 150, "units": 150, "index entries": 450}
    sizes = {row["topic"]: row for row in report.tables[0].as_dicts()}
    assert sizes["even"]["messages"] == sizes["odd"]["messages"] == COUNT // 2
    assert sizes["even"]["first stored"] == "2023-11-14T22:13:20.000+00:00"
    assert "everything agrees" in report.notes


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_seeded_fault_is_found(spark: SparkSession, tmp_path: Path, fault: str) -> None:
    fill(tmp_path / "store", COUNT)
    seed, kinds = FAULTS[fault]
    seed(tmp_path)
    code, report = audit(spark, tmp_path, findings="findings")
    assert code is Exit.FAULTS
    assert set(report.facts["findings"]) == kinds
    saved = spark.read.parquet(str(tmp_path / "findings"))
    assert {row.kind for row in saved.collect()} == kinds
    assert audit(spark, tmp_path, ignore=sorted(kinds))[0] is Exit.DONE


def test_missing_queues_or_index_are_one_finding_each(spark: SparkSession, tmp_path: Path) -> None:
    store = fill(tmp_path / "store", COUNT)
    empty(store / "consumequeue")
    empty(store / "index")
    code, report = audit(spark, tmp_path)
    assert (code, report.faults) == (Exit.FAULTS, 2)
    assert [row["detail"] for row in report.tables[2].as_dicts()] == [
        f"none of 150 messages has a queue unit: {store}/consumequeue has no queue of theirs",
        f"no key leads to its message: {store}/index has no entries",
    ]
    code, report = audit(spark, tmp_path, ignore=["no-queues"])
    assert (code, report.faults) == (Exit.FAULTS, 1)


def unchecked(report: Report) -> list[str]:
    assert report.facts["findings"] == {}
    told = [note for note in report.notes if note.startswith("NOT CHECKED: ")]
    assert ("everything agrees" in report.notes) == (not told)
    return told


def test_a_log_without_queues_is_checked_and_the_rest_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    fill(tmp_path / "store", COUNT)
    code, report = audit(spark, tmp_path, path="store/commitlog")
    assert code is Exit.DONE
    (told,) = unchecked(report)
    assert told.startswith(f"NOT CHECKED: queues and index, as {tmp_path}/store/commitlog is a log")
    assert report.facts["checked"] == {"records": COUNT}


@pytest.mark.parametrize("index_enabled", [True, False])
@pytest.mark.parametrize("properties", [{}, {"UNIQ_KEY": "U1"}, {"KEYS": "k1"}])
def test_a_store_without_an_index_is_no_fault(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str], index_enabled: bool
) -> None:
    options = StoreOptions(
        commit_log_file_size=64 << 10,
        index_enabled=index_enabled,
        index_slots=INDEX_SLOTS,
        index_entries=400,
    )
    with Store.open(tmp_path / "store", options, create=True) as store:
        made = NewMessage("t", b"x", store_host=HOST, properties=properties)
        store.append(made, now_ms=T0)
    code, report = audit(spark, tmp_path)
    assert code is Exit.DONE
    told = unchecked(report)
    if index_enabled or not properties:
        assert told == []
    else:
        (note,) = told
        assert "the index: messages have keys and none of them is indexed" in note
        assert "messageIndexEnable=false" in note


def test_an_empty_store_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "store", 0)
    code, report = audit(spark, tmp_path)
    assert (code, unchecked(report)) == (Exit.DONE, [])


def test_a_torn_tail_is_reported_but_no_fault(spark: SparkSession, tmp_path: Path) -> None:
    store = fill(tmp_path / "store", 20)
    overwrite(log_files(store)[0], StoreLog(store).snapshot.log_end, b"torn")
    code, report = audit(spark, tmp_path)
    assert (code, report.facts["torn_bytes"]) == (Exit.DONE, 4)
    assert any("unfinished message" in note for note in report.notes)


def test_mistakes_in_an_audit_file_are_reported_before_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    tree = {"kind": "audit", "path": "absent", "ignore": ["torn"], "tasks": 0}
    with pytest.raises(BadPipeline, match="'torn' is no kind of finding") as raised:
        parse(tree, file=tmp_path / "audit.toml", environment={})
    assert any("tasks" in line for line in raised.value.mistakes)
    recorder = Recorder()
    tree = {"kind": "audit", "path": "absent"}
    loaded = parse(tree, file=tmp_path / "audit.toml", environment={})
    assert run(loaded, spark, recorder) is Exit.NOT_STARTED
    assert f"audit.toml: path: there is no directory {tmp_path}/absent" in recorder.failures[0]
