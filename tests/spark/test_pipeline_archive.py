"""An archive holds each message once after failures of its writer, in few files."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import Admin
from orbitmq.errors import BadPipeline, OrbitError
from orbitmq.spark.pipelines import Exit, parse
from orbitmq.spark.pipelines.archive.files import ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import ArchivedFile, Manifest, Reached
from orbitmq.testing import LocalCluster
from tests.spark.archiving import Archive, texts
from tests.spark.conftest import NewTopic
from tests.spark.topics import produce


def test_an_archive_continues_where_it_ended_and_compacts(
    archive: Archive, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=3)
    produce(cluster, topic, texts(0, 200))
    code, recorder = archive.fill(topic, compact_files=3)
    assert (code, recorder.failures) == (Exit.DONE, [])
    assert archive.bodies() == Counter(texts(0, 200))
    produce(cluster, topic, texts(200, 250))
    code, recorder = archive.fill(topic, compact_files=3)
    assert archive.bodies() == Counter(texts(0, 250))
    assert recorder.reports[0].facts["messages"] == 250
    kept = archive.manifest()
    assert len(kept.current) < 3, "three batches make three files at least"
    (file, *_) = kept.find(topics=[topic])
    assert file.path.startswith(f"topic={topic}/day=20")
    reached = [last for key, last in kept.reached().items() if key[0] == topic]
    assert sum(last.offset + 1 for last in reached) == 250
    assert kept.find(topics=["another"]) == []
    assert kept.find(end_ms=file.first_ms - 3_600_000) == []


class Died(Exception):
    pass


def die_in(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, at_call: int
) -> Callable[[], int]:
    """Let the writer die when a method is called for the n-th time, in the middle of its work.

    Returns how to learn how often it was called.
    """
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def dying(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at_call:
            raise Died(f"{name} {calls}")
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, dying)
    return lambda: calls


@pytest.mark.parametrize(
    ("owner", "name", "at_call"),
    [
        (ArchiveFiles, "move", 1),  # Before the first file has its name.
        (ArchiveFiles, "move", 3),  # The compaction of the files of two batches.
        (ArchiveFiles, "create_text", 2),  # Files are there, their commit is not.
        (Manifest, "commit_compaction", 1),
        (Manifest, "_apply", 2),  # The commit is there, but Spark does not know it yet.
    ],
)
def test_nothing_is_lost_or_repeated_when_a_writer_dies(
    archive: Archive,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    at_call: int,
) -> None:
    topic = new_topic(cluster, queues=2)
    produce(cluster, topic, texts(0, 200))
    with monkeypatch.context() as patch:
        calls = die_in(patch, owner, name, at_call)
        code, recorder = archive.fill(topic, compact_files=2)
        assert (code, calls()) == (Exit.FAILED, at_call), recorder.reports
    code, recorder = archive.fill(topic, compact_files=2)
    assert (code, recorder.failures) == (Exit.DONE, [])
    assert archive.bodies() == Counter(texts(0, 200))
    current = archive.manifest()
    root = archive.root
    there = {str(path.relative_to(root)) for path in root.glob("topic=*/**/*.parquet")}
    assert there == {*current.current, *current.garbage}, "nothing is left lying around"


def test_nothing_is_repeated_when_the_checkpoint_is_lost(
    archive: Archive,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(cluster, queues=2)
    produce(cluster, topic, texts(0, 100))
    archive.fill(topic)
    shutil.rmtree(archive.root / "_checkpoint")
    produce(cluster, topic, texts(100, 130))
    source = {"topic": topic, "options": {"maxOffsetsPerTrigger": 60}}
    with monkeypatch.context() as patch:
        die_in(patch, Manifest, "commit_batch", 2)
        code, _ = archive.fill(topic, source=source)
        assert code is Exit.FAILED
    # The new query is in the manifest now, but has not reached the earlier end.
    code, _ = archive.fill(topic, source=source)
    assert code is Exit.DONE
    assert archive.bodies() == Counter(texts(0, 130))


def test_the_checkpoint_of_another_archive_is_refused(
    archive: Archive, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=2)
    produce(cluster, topic, texts(0, 20))
    for _ in range(2):
        code, _ = archive.fill(topic, checkpoint="state")
        assert code is Exit.DONE
    code, recorder = archive.fill(topic, checkpoint="state", path="another")
    assert code is Exit.NOT_STARTED
    (told,) = recorder.failures
    assert "archive.toml: checkpoint: " in told
    assert "is of another archive" in told
    assert not (archive.directory / "another").exists()
    assert archive.bodies() == Counter(texts(0, 20))


def test_nothing_is_lost_or_repeated_with_an_older_checkpoint(
    archive: Archive,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(cluster, queues=2)
    checkpoint = archive.root / "_checkpoint"
    produce(cluster, topic, texts(0, 20))
    archive.fill(topic)
    shutil.copytree(checkpoint, archive.directory / "backup")
    produce(cluster, topic, texts(20, 30))
    archive.fill(topic)
    shutil.rmtree(checkpoint)
    shutil.copytree(archive.directory / "backup", checkpoint)
    produce(cluster, topic, texts(30, 40))
    # The clock was set back: messages that are archived seem to be later than the last of them.
    reached = Manifest.reached

    def earlier(self: Manifest) -> dict[Any, Reached]:
        return {key: Reached(at.offset, 0) for key, at in reached(self).items()}

    monkeypatch.setattr(Manifest, "reached", earlier)
    # The second batch of the query is 20 to 40 now, it was 20 to 30 before.
    code, recorder = archive.fill(topic)
    assert (code, recorder.failures) == (Exit.DONE, [])
    assert archive.bodies() == Counter(texts(0, 40))


def test_a_recreated_topic_is_refused(
    archive: Archive, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    produce(cluster, topic, texts(0, 10))
    archive.fill(topic)
    with Admin(cluster.address) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=1)
    produce(cluster, topic, texts(10, 30))
    shutil.rmtree(archive.root / "_checkpoint")
    code, recorder = archive.fill(topic)
    assert code is Exit.FAILED
    (told,) = recorder.failures
    assert "was deleted and made anew" in told
    assert "another path" in told
    assert archive.bodies() == Counter(texts(0, 10))


def test_a_manifest_survives_its_snapshots(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.spark.pipelines.archive.manifest.SNAPSHOT_EVERY", 5)
    files = ArchiveFiles(spark, str(tmp_path / "archive"))
    written = Manifest.load(files)
    for batch in range(12):
        path = f"topic=t/day=2026-01-01/hour=1/{batch}.parquet"
        written.commit_batch("q", batch, [ArchivedFile(path, "t", 1, 10, batch, batch, {})])
    replaced = [f"topic=t/day=2026-01-01/hour=1/{batch}.parquet" for batch in (3, 4)]
    written.commit_compaction([], replaced, now_ms=1000)
    read = Manifest.load(files)
    assert read.current == written.current
    assert read.garbage == written.garbage == dict.fromkeys(replaced, 1000)
    assert read.queries == {"q"}
    assert [file.first_ms for file in read.find(start_ms=9, end_ms=11)] == [10, 9]
    there = sorted(int(path.stem) for path in (tmp_path / "archive/_manifest").glob("*.json"))
    assert there == list(range(5, 15)), "the last two snapshots, and what came after the first"
    with pytest.raises(OrbitError, match="another archiver has been writing to"):
        Manifest(files, number=read.number - 1).commit_batch("q", 13, [])


def test_mistakes_in_an_archive_file_are_reported(tmp_path: Path) -> None:
    tree = {
        "kind": "archive",
        "path": "archive",
        "trigger": "batch",
        "compact_files": 1,
        "file_size": "128 MB",
        "source": {"topic": "t", "options": {"columns": "body"}},
    }
    with pytest.raises(BadPipeline) as raised:
        parse(tree, file=tmp_path / "archive.toml", environment={})
    told = "\n".join(raised.value.mistakes)
    for key in ("trigger", "compact_files", "source.options.columns", "name_server"):
        assert f"archive.toml: {key}: " in told
    with pytest.raises(BadPipeline, match="not a size such as"):
        parse({**tree, "file_size": "large"}, file=tmp_path / "archive.toml", environment={})
