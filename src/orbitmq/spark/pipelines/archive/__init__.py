"""``archive``: writes topics to Parquet by topic, day and hour, each message exactly once.

::

    kind = "archive"
    name_server = "127.0.0.1:9876"
    path = "archive"                        # a directory, or a URL that Spark can write to
    trigger = "1 minute"                    # or "available-now": stored messages, then end
    file_size = "128 MB"                    # size of the files that compaction writes
    compact_files = 8                       # small files of an hour that cause a compaction
    keep_replaced = "1 hour"                # time until replaced files are deleted

    [source]
    topic = ["orders", "payments"]          # or pattern = "..."
    options = { maxOffsetsPerTrigger = 1000000 }

Days and hours are those of the store time, in UTC. The manifest (see `archive.manifest`) lists the
valid files. ``replay`` finds time ranges in the manifest, and any reader of Parquet can read the
listed files. After a crash, or without its checkpoint, the pipeline continues at its old position:
no message is lost, and no message is in the archive twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from orbitmq.errors import OrbitError
from orbitmq.spark.pipelines.archive.files import ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import ArchivedFile, Manifest
from orbitmq.spark.pipelines.archive.writer import ArchiveWriter, read_files
from orbitmq.spark.pipelines.plan import Report, Stream, Streams, Table, Trigger
from orbitmq.spark.pipelines.spec import Interval, Kind, PipelineSpec
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.spark.pipelines.topics import TopicSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from orbitmq.spark.pipelines.plan import Workspace

__all__ = [
    *("KIND", "ArchiveSpec", "Size", "archived_brokers", "archived_topics", "build"),
    "read_archive",
]

_SIZE = re.compile(r"(\d+)\s*(B|KB|MB|GB)", re.IGNORECASE)


@dataclass(frozen=True)
class Size:
    """Number of bytes such as ``128 MB``."""

    bytes: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text; a ValueError gives an example of a valid text."""
        found = _SIZE.fullmatch(text.strip())
        if found is None or int(found[1]) == 0:
            raise ValueError(f"{text!r} is not a size such as '128 MB'")
        return cls(int(found[1]) << {"B": 0, "KB": 10, "MB": 20, "GB": 30}[found[2].upper()])


EVERY_MINUTE = Trigger("interval", Interval(60_000))
USUAL_FILE = Size(128 << 20)
AN_HOUR = Interval(3_600_000)


@dataclass(frozen=True, kw_only=True)
class ArchiveSpec(PipelineSpec):
    """Keys of an ``archive`` pipeline file."""

    source: TopicSpec
    path: str
    trigger: Trigger = EVERY_MINUTE
    checkpoint: str | None = None
    """Directory of the checkpoint, by default inside the archive."""
    file_size: Size = USUAL_FILE
    compact_files: int = 8
    keep_replaced: Interval = AN_HOUR
    """Time for which replaced files stay, for readers that still use them."""

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check the options. The trigger ``batch`` has no checkpoint and could not be continued."""
        if self.trigger.mode == "batch":
            mistakes.add("trigger", "an archive is continued: say 'available-now' for one run")
        if self.compact_files < 2:
            mistakes.add("compact_files", "is 2 or more")
        if "columns" in map(str.lower, self.source.options):
            mistakes.add("source.options.columns", "an archive keeps every column")
        self.source.check_options(mistakes, "source", self.name_server, streaming=True)


def build(spec: ArchiveSpec, workspace: Workspace) -> Streams:
    """Plan the stream without starting it and without a change to the archive."""
    spark = workspace.spark
    root = workspace.locate(spec.path)
    checkpoint = workspace.locate(spec.checkpoint) if spec.checkpoint else f"{root}/_checkpoint"
    with workspace.planning("source"):
        # A new archive begins with the oldest messages that the brokers still have.
        options = {"startingOffsets": "earliest"} | spec.source.connector_options(spec.name_server)
        rows = spark.readStream.format("rocketmq").options(**options).load()
        workspace.sources.append(options)
    with workspace.planning("path"):
        writer = ArchiveWriter(
            spark,
            root,
            checkpoint=checkpoint,
            file_bytes=spec.file_size.bytes,
            compact_files=spec.compact_files,
            keep_replaced_ms=spec.keep_replaced.ms,
        )
    with workspace.planning("checkpoint"):
        writer.check_checkpoint()
    sink = rows.writeStream.queryName(spec.name).option("checkpointLocation", checkpoint)
    started = workspace.with_trigger(sink.foreachBatch(writer.write_batch), spec.trigger)

    def start() -> StreamingQuery:
        if orphans := writer.open():
            workspace.log.warning(
                "archive %s: removed %d files of an interrupted batch", root, orphans
            )
        return started.start()

    return Streams(
        (Stream(spec.name, start),),
        endless=workspace.trigger(spec.trigger).mode == "interval",
        report=lambda: compact_and_report(writer),
    )


def compact_and_report(writer: ArchiveWriter) -> Report:
    """Compact all hours that have enough small files; return a report on the archive."""
    for partition in sorted({file.partition for file in writer.manifest.current.values()}):
        writer.compact(partition, at_least=writer.compact_files)
    topics: dict[str, list[int]] = {}
    for file in writer.manifest.current.values():
        facts = topics.setdefault(file.topic, [0, 0, 0])
        for at, value in enumerate((file.rows, 1, file.bytes)):
            facts[at] += value
    rows = tuple((topic, *facts) for topic, facts in sorted(topics.items()))
    return Report(
        tables=(Table("archive", ("topic", "messages", "files", "bytes"), rows),),
        facts={"messages": sum(row[1] for row in rows), "files": sum(row[2] for row in rows)},
    )


def read_archive(
    spark: SparkSession,
    path: str,
    *,
    topics: str | Iterable[str] | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> DataFrame:
    """Return messages of an archive; only files that can contain them are read.

    The columns are those of the formats, and ``day`` and ``hour``. The end is exclusive. A missing
    archive raises `OrbitError`.
    """
    from pyspark.sql import functions as F

    files = ArchiveFiles(spark, path)
    wanted = [topics] if isinstance(topics, str) else topics
    found = _find(files, wanted, start_ms, end_ms)
    rows = read_files(spark, files, [file.path for file in found])
    stored = F.unix_millis("storeTimestamp")
    if start_ms is not None:
        rows = rows.where(stored >= start_ms)
    if end_ms is not None:
        rows = rows.where(stored < end_ms)
    return rows


def archived_topics(spark: SparkSession, path: str) -> set[str]:
    """Return the topics of the messages in an archive."""
    return {file.topic for file in _find(ArchiveFiles(spark, path), None, None, None)}


def archived_brokers(
    spark: SparkSession,
    path: str,
    *,
    topics: Iterable[str] | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> set[str]:
    """Return the brokers whose messages `read_archive` would return, perhaps with a few more."""
    found = _find(ArchiveFiles(spark, path), topics, start_ms, end_ms)
    return {broker for file in found for broker in file.queues}


def _find(
    files: ArchiveFiles, topics: Iterable[str] | None, start_ms: int | None, end_ms: int | None
) -> list[ArchivedFile]:
    manifest = Manifest.load(files)
    if not manifest.number:
        raise OrbitError(f"{files.root} is no archive: there is no manifest in it")
    return manifest.find(topics=topics, start_ms=start_ms, end_ms=end_ms)


KIND = Kind("archive", ArchiveSpec, build)
