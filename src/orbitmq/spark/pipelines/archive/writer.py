"""Writer of an archive: turns batches into files, and small files into larger ones.

A batch is archived in three steps: its rows are written to ``_staging``, the files get their names
under topic, day and hour, and a commit makes them valid. After a crash in any step, repeating the
batch gives the same archive. A stream whose checkpoint was lost starts at its starting offsets, and
a stream with an older checkpoint starts there. `ArchivedBefore` leaves out rows that are in the
archive already, by their offsets.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql import functions as F

from orbitmq.errors import OrbitError
from orbitmq.spark.pipelines.archive.files import STAGING, ArchiveFiles
from orbitmq.spark.pipelines.archive.manifest import ArchivedFile, Manifest
from orbitmq.spark.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.pipelines.archive.manifest import ArchivedFile, Manifest, QueueKey, Reached

__all__ = ["ARCHIVE_SCHEMA", "ArchiveWriter", "ArchivedBefore", "read_files"]

# ---- Rows that are already archived
#
# A stream can read archived messages again: its checkpoint was lost or is an older one, or Spark
# was stopped between a commit and its own note of it. Batch numbers do not help then, because the
# same number can stand for another range. Offsets do help: a batch is committed as a whole, and a
# queue is read in order. The archive therefore has every row of a queue that the stream supplied up
# to the last offset in the manifest.
#
# There is one exception: after a topic was deleted and created again, its offsets begin at 0 again.
# Messages of the new topic were stored later than all archived messages of the queue. Rows with
# archived offsets and later times are therefore *suspects*. They are written with the rest of the
# batch, which normally costs nothing because there are none, and are found when the files are
# described. The archive is then searched for them. A clock that was set back also causes suspects,
# and these are in the archive.

QUEUE = ("topic", "brokerName", "queueId")
_SCHEMA = "topic string, brokerName string, queueId int, archivedTo long, archivedMs long"


class ArchivedBefore:
    """Last archived position of each queue at the start of the stream."""

    def __init__(self, spark: SparkSession, manifest: Manifest) -> None:
        self._spark = spark
        self.reached: dict[QueueKey, Reached] = manifest.reached()

    def leave_out(self, rows: DataFrame, *, suspects: bool) -> DataFrame:
        """Return the rows that are not in the archive yet, with or without the suspects."""
        if not self.reached:
            return rows
        joined = rows.join(F.broadcast(self._table()), list(QUEUE), "left")
        wanted = F.col("archivedTo").isNull() | (F.col("queueOffset") > F.col("archivedTo"))
        if suspects:
            wanted |= F.unix_millis("storeTimestamp") > F.col("archivedMs")
        return joined.where(wanted).drop("archivedTo", "archivedMs")

    def has_suspects(self, written: Iterable[ArchivedFile]) -> bool:
        """Return True if written files contain suspects."""
        return any(
            key in self.reached and first <= self.reached[key].offset
            for file in written
            for key, first in file.first_offsets()
        )

    def clear_suspects(self, written: DataFrame, archived: DataFrame) -> None:
        """Raise `OrbitError` if a suspect in `written` is not an identical row of `archived`."""
        identity = [*QUEUE, "queueOffset", "storeTimestamp", "msgId"]
        again = written.join(F.broadcast(self._table()), list(QUEUE))
        again = again.where("queueOffset <= archivedTo").select(*identity)
        strange = again.exceptAll(archived.select(*identity)).limit(1).collect()
        if strange:
            (found,) = strange
            self._refuse(found["topic"], found["brokerName"], found["queueId"])

    def _table(self) -> DataFrame:
        values = [(*key, *reached) for key, reached in self.reached.items()]
        return self._spark.createDataFrame(values, _SCHEMA)

    def _refuse(self, topic: str, broker: str, queue: int) -> NoReturn:
        last = self.reached[topic, broker, queue].offset
        raise OrbitError(
            f"topic {topic!r} was deleted and made anew: queue {queue} on {broker} has other "
            f"messages than the archive at offsets up to {last}; archive it to another path, "
            "the messages here stay readable"
        )


PARTITION: Final = ("topic", "day", "hour")
ARCHIVE_SCHEMA: Final = ", ".join(
    [f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items() if name != "topic"]
    + ["topic string", "day string", "hour int"]
)


def read_files(spark: SparkSession, files: ArchiveFiles, paths: list[str]) -> DataFrame:
    """Return the rows of the given files of an archive, with topic, day and hour."""
    reader = spark.read.schema(ARCHIVE_SCHEMA).option("basePath", files.root)
    if not paths:
        return spark.createDataFrame([], ARCHIVE_SCHEMA)
    return reader.parquet(*map(files.url, paths))


class ArchiveWriter:
    """Only writer of an archive, from the call of `open` on."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        *,
        checkpoint: str,
        file_bytes: int,
        compact_files: int,
        keep_replaced_ms: int,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.spark = spark
        self.files = ArchiveFiles(spark, root)
        self.manifest = Manifest(self.files)
        self.checkpoint = ArchiveFiles(spark, checkpoint)
        self.file_bytes = file_bytes
        self.compact_files = compact_files
        self.keep_replaced_ms = keep_replaced_ms
        self._now_ms = now_ms
        self._before = ArchivedBefore(spark, self.manifest)
        self._token = uuid.uuid4().hex[:12]
        self._query: str | None = None

    def check_checkpoint(self) -> None:
        """Raise `OrbitError` for the checkpoint of another archive.

        Messages that its stream has read before would be missing in this archive.
        """
        if not self.checkpoint.below("commits"):
            return
        writers = Manifest.load(self.files).queries
        if writers is not None and self._query_id() not in writers:
            raise OrbitError(
                f"the checkpoint {self.checkpoint.root} is of another archive: what it has read is "
                f"not in {self.files.root}; give this archive a checkpoint of its own"
            )

    def open(self) -> int:
        """Become the archive's writer; delete uncommitted files and return their number.

        A previous writer cannot commit any more, so none of the deleted files can become valid.
        """
        self.manifest = Manifest.take(self.files)
        self._before = ArchivedBefore(self.spark, self.manifest)
        self.files.delete(STAGING)
        kept = {*self.manifest.current, *self.manifest.garbage}
        orphans = [path for path, _ in self.files.below("") if _is_data(path) and path not in kept]
        for path in orphans:
            self.files.delete(path)
        return len(orphans)

    def write_batch(self, rows: DataFrame, batch: int) -> None:
        """Archive a micro-batch; a function for `foreachBatch`."""
        try:
            self._write_batch(rows, batch)
        except Exception:
            # A new writer deletes uncommitted files. If that is the cause, report the new writer.
            self.manifest.check_writer()
            raise

    def _write_batch(self, rows: DataFrame, batch: int) -> None:
        # Commit number and the token of this writer make file names unique, even if an older
        # checkpoint counts batches again.
        name = f"{self.manifest.number:08}-{self._token}"
        added = self._write(self._new(rows, suspects=True), name)
        if self._before.has_suspects(added):
            topics = {file.topic for file in added}
            known = [file.path for file in self.manifest.find(topics=topics)]
            self._before.clear_suspects(
                self._read(added), read_files(self.spark, self.files, known)
            )
            for file in added:
                self.files.delete(file.path)
            added = self._write(self._new(rows, suspects=False), f"{name}-cleared")
        self.manifest.commit_batch(self._query_id(), batch, added)
        for partition in {file.partition for file in added}:
            self.compact(partition, at_least=self.compact_files)
        self.manifest.delete_garbage(self._now_ms() - self.keep_replaced_ms)

    def compact(self, partition: str, *, at_least: int = 2) -> bool:
        """Merge the small files of one hour into as few as possible; return True if it did so."""
        here = [file for file in self.manifest.current.values() if file.partition == partition]
        small = [file for file in here if file.bytes < self.file_bytes // 2]
        total = sum(file.bytes for file in small)
        count = max(1, -(-total // self.file_bytes))
        if len(small) < max(2, at_least) or count >= len(small):
            return False
        rows = self._read(small)
        name = f"{self.manifest.number:08}-{self._token}-compact"
        added = self._write(rows.coalesce(count), name, shuffle=False)
        self.manifest.commit_compaction(added, [file.path for file in small], self._now_ms())
        return True

    def _write(self, rows: DataFrame, name: str, *, shuffle: bool = True) -> list[ArchivedFile]:
        staged = f"{STAGING}/{name}"
        self.files.delete(staged)
        if shuffle:
            rows = rows.hint("rebalance", *PARTITION)
        rows = rows.sortWithinPartitions(*PARTITION, "brokerName", "queueId", "queueOffset")
        rows.write.partitionBy(*PARTITION).parquet(self.files.url(staged))
        sizes: dict[str, int] = {}
        for number, (path, size) in enumerate(self.files.below(staged)):
            partition = path.removeprefix(f"{staged}/").rpartition("/")[0]
            final = f"{partition}/{name}-{number}.parquet"
            self.files.move(path, final)
            sizes[final] = size
        self.files.delete(staged)
        return self._describe(sizes)

    def _describe(self, sizes: dict[str, int]) -> list[ArchivedFile]:
        """Return descriptions of files for the manifest, from the content of the files."""
        if not sizes:
            return []
        by_name = {path.rpartition("/")[2]: path for path in sizes}
        facts: dict[str, dict[str, Any]] = {}
        rows = read_files(self.spark, self.files, list(sizes))
        groups = rows.groupBy(F.col("_metadata.file_name"), "topic", "brokerName", "queueId").agg(
            F.count("*").alias("rows"),
            F.min("queueOffset").alias("first"),
            F.max("queueOffset").alias("last"),
            F.min(F.unix_millis("storeTimestamp")).alias("firstMs"),
            F.max(F.unix_millis("storeTimestamp")).alias("lastMs"),
        )
        for row in groups.collect():
            path = by_name[row["file_name"]]
            fact = facts.setdefault(path, {"rows": 0, "first": [], "last": [], "queues": {}})
            fact["topic"] = row["topic"]
            fact["rows"] += row["rows"]
            fact["first"].append(row["firstMs"])
            fact["last"].append(row["lastMs"])
            queues = fact["queues"].setdefault(row["brokerName"] or "", {})
            queues[str(row["queueId"])] = [row["first"], row["last"], row["lastMs"]]
        return [
            ArchivedFile(
                path=path,
                topic=fact["topic"],
                rows=fact["rows"],
                bytes=sizes[path],
                first_ms=min(fact["first"]),
                last_ms=max(fact["last"]),
                queues=fact["queues"],
            )
            for path, fact in sorted(facts.items())
        ]

    def _query_id(self) -> str:
        """Return the stream's id, which is stored in its checkpoint."""
        if self._query is None:
            self._query = str(json.loads(self.checkpoint.read_text("metadata"))["id"])
        return self._query

    def _new(self, rows: DataFrame, *, suspects: bool) -> DataFrame:
        return _with_partition(self._before.leave_out(rows, suspects=suspects))

    def _read(self, files: list[ArchivedFile]) -> DataFrame:
        return read_files(self.spark, self.files, [file.path for file in files])


def _with_partition(rows: DataFrame) -> DataFrame:
    """Return rows with day and hour of the store time, in UTC for any session time zone."""
    seconds = F.unix_seconds("storeTimestamp")
    day = F.date_add(F.lit("1970-01-01").cast("date"), F.floor(seconds / 86_400).cast("int"))
    hour = F.floor(F.pmod(seconds, F.lit(86_400)) / 3600).cast("int")
    return rows.withColumn("day", day.cast("string")).withColumn("hour", hour)


def _is_data(path: str) -> bool:
    return path.endswith(".parquet") and not path.startswith("_")
