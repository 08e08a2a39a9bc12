"""What of a batch is in the archive already.

A stream may read again what is archived: its checkpoint was lost, or is an older one, or a batch
was committed and Spark had no time to note it. Numbers of batches say nothing then, the same number
can be another range. Offsets do: a batch is committed as a whole and a queue is read in order, so
of each queue the archive has all that the stream gave up to the last offset in the manifest.

Unless the topic was deleted and made anew, when its offsets begin at 0 again. Messages of the new
topic were stored later than anything that the archive has of the queue, so rows with archived
offsets and later times are *suspects*. They are written with the rest of the batch, which costs
nothing as there are none, and found when the files are described; then the archive is asked whether
it has them. A clock that was set back makes suspects, too, and those it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import functions as F

from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.pipelines.archive_manifest import ArchivedFile, Manifest, QueueKey, Reached

__all__ = ["ArchivedBefore"]

QUEUE = ("topic", "brokerName", "queueId")
_SCHEMA = "topic string, brokerName string, queueId int, archivedTo long, archivedMs long"


class ArchivedBefore:
    """How far the archive had come in each queue when the stream started."""

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
        """Whether there are suspects in files."""
        return any(
            key in self.reached and first <= self.reached[key].offset
            for file in written
            for key, first in file.first_offsets()
        )

    def clear_suspects(self, written: DataFrame, archived: DataFrame) -> None:
        """Raise unless the archive has each suspect among what was written as it is."""
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
