"""Pipelines that fill an archive and replay messages; the fixtures are `archive` and `replay`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from orbitmq.spark.pipelines import Exit, Loaded, Report, parse, run
from orbitmq.spark.pipelines.archive import read_archive
from orbitmq.spark.pipelines.archive.files import ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import Manifest
from orbitmq.testing import LocalCluster
from tests.spark.recording import Recorder

__all__ = ["Archive", "Replay", "texts"]


def texts(begin: int, end: int) -> list[bytes]:
    """Return the bodies of messages with these numbers."""
    return [b"message %d" % number for number in range(begin, end)]


@dataclass
class Archive:
    """The archive in a directory, and the pipeline that fills it from topics of the cluster."""

    spark: SparkSession
    cluster: LocalCluster
    directory: Path

    @property
    def root(self) -> Path:
        """Directory of the archive."""
        return self.directory / "archive"

    def pipeline(self, topic: str, **keys: Any) -> Loaded:
        """Return the pipeline for a topic, as written in its file."""
        tree = {
            "kind": "archive",
            "name": "archive-test",
            "name_server": self.cluster.address,
            "path": "archive",
            "trigger": "available-now",
            "source": {"topic": topic, "options": {"maxOffsetsPerTrigger": 100}},
            **keys,
        }
        return parse(tree, file=self.directory / "archive.toml", environment={})

    def fill(self, topic: str, **keys: Any) -> tuple[Exit, Recorder]:
        """Archive the messages of a topic."""
        recorder = Recorder()
        return run(self.pipeline(topic, **keys), self.spark, recorder), recorder

    def bodies(self) -> Counter[bytes]:
        """Return the number of times each body is archived."""
        rows = read_archive(self.spark, str(self.root)).select("body").collect()
        return Counter(bytes(row.body) for row in rows)

    def manifest(self) -> Manifest:
        """Return the present manifest."""
        return Manifest.load(ArchiveFiles(self.spark, str(self.root)))


@dataclass
class Replay:
    """Runs replays to their end; paths in them are relative to the directory."""

    spark: SparkSession
    directory: Path

    def __call__(self, **keys: Any) -> tuple[Exit, Report]:
        """Run a replay that is expected to succeed."""
        recorder, code = self._run(keys)
        assert not recorder.failures, recorder.failures
        (report,) = recorder.reports
        return code, report

    def refused(self, **keys: Any) -> str:
        """Run a replay that is expected not to start; return the reason."""
        recorder, code = self._run(keys)
        assert code is Exit.NOT_STARTED
        (told,) = recorder.failures
        return told

    def failed(self, **keys: Any) -> str:
        """Run a replay that is expected to start and fail; return the reason."""
        recorder, code = self._run(keys)
        assert code is Exit.FAILED
        (told,) = recorder.failures
        return told

    def _run(self, keys: dict[str, Any]) -> tuple[Recorder, Exit]:
        file, recorder = self.directory / "replay.toml", Recorder()
        loaded = parse({"kind": "replay", **keys}, file=file, environment={})
        return recorder, run(loaded, self.spark, recorder)
