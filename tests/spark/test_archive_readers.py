"""Readers of an archive are not disturbed by its writer."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from orbitmq.errors import OrbitError
from orbitmq.spark.pipelines.archive import read_archive
from orbitmq.spark.pipelines.archive.files import ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import ArchivedFile, Manifest
from orbitmq.spark.pipelines.archive.writer import ArchiveWriter
from orbitmq.spark.schema import message_schema

pytestmark = pytest.mark.newest_spark

HOUR_MS = 3_600_000
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def messages(spark: SparkSession, begin: int, end: int) -> DataFrame:
    """Return the rows of a stream: messages of one queue."""
    names = ("topic", "brokerName", "queueId", "queueOffset", "msgId", "body", "storeTimestamp")
    rows = [
        ("t", "b", 0, number, f"M{number}", b"%d" % number, NOON) for number in range(begin, end)
    ]
    return spark.createDataFrame(rows, message_schema(names))


def bodies(rows: DataFrame) -> Counter[bytes]:
    return Counter(bytes(row.body) for row in rows.select("body").collect())


def test_replaced_files_are_kept_for_their_readers(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, root = tmp_path / "checkpoint", tmp_path / "archive"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id": "q"}')
    clock_ms = 1_000_000
    writer = ArchiveWriter(
        spark,
        str(root),
        checkpoint=str(checkpoint),
        file_bytes=1 << 20,
        compact_files=2,
        keep_replaced_ms=HOUR_MS,
        now_ms=lambda: clock_ms,
    )
    writer.open()
    writer.write_batch(messages(spark, 0, 10), 0)
    reading = read_archive(spark, str(root))
    for batch in (1, 2):  # Each is compacted with the files that were there.
        writer.write_batch(messages(spark, 10 * batch, 10 * batch + 10), batch)
        assert len(writer.manifest.current) == 1
    assert bodies(reading) == Counter(b"%d" % number for number in range(10))
    assert len(list(root.glob("topic=*/**/*.parquet"))) == 5
    clock_ms += HOUR_MS + 1
    writer.write_batch(messages(spark, 30, 40), 3)
    assert bodies(read_archive(spark, str(root))) == Counter(b"%d" % number for number in range(40))
    there = {str(path.relative_to(root)) for path in root.glob("topic=*/**/*.parquet")}
    assert there == {*writer.manifest.current, *writer.manifest.garbage}
    assert len(there) == 3


def test_the_manifest_is_read_whole_when_a_snapshot_appears_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ArchiveFiles(spark, str(tmp_path / "archive"))
    written = Manifest.take(files)
    for batch in range(3):
        path = f"topic=t/day=2026-01-01/hour=1/{batch}.parquet"
        written.commit_batch("q", batch, [ArchivedFile(path, "t", 1, 10, batch, batch, {})])
    below, lists = ArchiveFiles.below, 0

    def slow(self: ArchiveFiles, directory: str) -> list[tuple[str, int]]:
        nonlocal lists
        lists += 1
        listed = below(self, directory)
        if lists == 1:
            for _ in range(2):  # the second deletes the listed files
                written._snapshot()
        return listed

    monkeypatch.setattr(ArchiveFiles, "below", slow)
    read = Manifest.load(files)
    assert (read.current, read.number, lists) == (written.current, written.number, 2)
    written.commit_batch("q", 3, [])
    written.commit_batch("q", 4, [])
    (tmp_path / "archive/_manifest" / f"{written.number - 2:020}.json").unlink()
    with pytest.raises(OrbitError, match="lacks commits"):
        Manifest.load(files)


def test_reading_a_missing_archive_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OrbitError, match="is no archive"):
        read_archive(spark, str(tmp_path / "archiv"))
