"""An archive has one writer: the one that started last."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq.errors import OrbitError
from orbitmq.spark.pipelines import Exit, Workspace
from orbitmq.spark.pipelines.archive.files import ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import Manifest
from orbitmq.spark.pipelines.archive.writer import ArchiveWriter
from orbitmq.spark.pipelines.runner import build
from orbitmq.testing import LocalCluster
from tests.spark.archiving import Archive, texts
from tests.spark.conftest import NewTopic
from tests.spark.topics import produce

pytestmark = pytest.mark.newest_spark


def before_commit(monkeypatch: pytest.MonkeyPatch, happens: Any) -> list[bool]:
    """Run a function when the files of the first batch are written but not committed."""
    commit_batch = Manifest.commit_batch
    done: list[bool] = []

    def commit(self: Manifest, *args: Any) -> None:
        if not done:
            done.append(True)
            happens()
        commit_batch(self, *args)

    monkeypatch.setattr(Manifest, "commit_batch", commit)
    return done


def test_planning_an_archive_changes_nothing_in_it(
    archive: Archive,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(cluster, queues=1)
    produce(cluster, topic, texts(0, 10))

    def plan() -> None:  # The work of ``orbitmq pipeline check --plan``.
        build(archive.pipeline(topic), Workspace(archive.spark, archive.directory))

    planned = before_commit(monkeypatch, plan)
    code, recorder = archive.fill(topic)
    assert (code, recorder.failures, planned) == (Exit.DONE, [], [True])
    assert archive.bodies() == Counter(texts(0, 10))


def test_the_writer_that_starts_later_takes_the_archive_over(
    archive: Archive,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(cluster, queues=1)
    produce(cluster, topic, texts(0, 10))
    root = str(archive.root)
    later = ArchiveWriter(
        archive.spark,
        root,
        checkpoint=f"{root}/_checkpoint",
        file_bytes=1 << 20,
        compact_files=2,
        keep_replaced_ms=0,
    )
    with monkeypatch.context() as patch:
        before_commit(patch, later.open)
        code, recorder = archive.fill(topic)
    assert code is Exit.FAILED
    (told,) = recorder.failures
    assert "another archiver has been writing to" in told
    assert "(process " in told
    assert archive.bodies() == Counter(), "its files are gone, and so they do not count"
    code, recorder = archive.fill(topic)
    assert (code, recorder.failures) == (Exit.DONE, [])
    assert archive.bodies() == Counter(texts(0, 10))
    with pytest.raises(OrbitError, match="another archiver"):
        later.manifest.commit_batch("q", 0, [])


def test_a_writer_replaced_while_it_slept_cannot_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.spark.pipelines.archive.manifest.SNAPSHOT_EVERY", 2)
    files = ArchiveFiles(spark, str(tmp_path / "archive"))
    asleep = Manifest.take(files)
    asleep.commit_batch("q", 0, [])
    awake = Manifest.take(files)
    for batch in range(10):  # Many snapshots later.
        awake.commit_batch("q", batch, [])
    with pytest.raises(OrbitError, match=r"another archiver has .* since 20"):
        asleep.commit_batch("q", 1, [])
    awake.commit_batch("q", 10, [])


def test_only_one_of_many_writers_creates_a_file(spark: SparkSession, tmp_path: Path) -> None:
    files = ArchiveFiles(spark, str(tmp_path / "archive"))
    everybody = 8
    ready = threading.Barrier(everybody)

    def want(number: int, path: str) -> bool:
        ready.wait()
        return files.create_text(path, f"mine, says {number}")

    with ThreadPoolExecutor(everybody) as threads:
        for turn in range(20):
            path = f"_manifest/{turn}.json"
            got = list(threads.map(want, range(everybody), [path] * everybody))
            assert got.count(True) == 1
            assert files.read_text(path) == f"mine, says {got.index(True)}"
    assert files.below("_staging") == [], "nothing is left lying around"
