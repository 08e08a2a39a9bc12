"""Redrive of dead letters: sends each dead letter back once.

A redriven message is a new message with the body, tags, keys and properties of the dead letter. Its
property ``REDRIVEN_FROM`` identifies the dead letter. Messages are sent at least once. The sent
messages are then written to the ledger, a Parquet directory of topic, broker, queue and offset. The
next run leaves out all messages of the ledger. After a crash between sending and writing, the next
run repeats at most the messages of the crashed run.

By default, messages go to the retry topic of their group. Only this group then receives them, under
their original topic; other groups, which have handled the messages already, do not. The attempts
of a redriven message are counted from the start. The sink sets a limit for them. Without it, a
group with ``retryMaxTimes=0`` would make the message a dead letter again at once, and the ledger
would not contain this dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from orbitmq.message import RESERVED_PROPERTIES
from orbitmq.protocol.names import RETRY_PREFIX, topic_name_fault
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.spark.pipelines.topics import reconnected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["RedriveSpec", "back_to", "can_be_sent", "not_yet_redriven", "remember"]

PLACE: Final = ["topic", "brokerName", "queueId", "queueOffset"]
MAX_PROPERTIES_BYTES: Final = 32_767
MARKS_BYTES: Final = 500
"""Upper limit for the size of the added properties: position of the dead letter, topic, ids."""
LEDGER: Final = (
    "topic STRING, brokerName STRING, queueId INT, queueOffset LONG, redrivenAt TIMESTAMP"
)


@dataclass(frozen=True, kw_only=True)
class RedriveSpec:
    """The table ``[redrive]``."""

    ledger: str
    to: str = "group"
    dry_run: bool = False
    max_messages: int | None = None
    options: dict[str, str] = field(default_factory=dict)

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that the limit is above 0 and that the target is a valid topic name."""
        if fault := topic_name_fault(self.to):
            mistakes.add(f"{key}.to", f"{self.to!r} is not a topic's name: {fault}")
        if self.max_messages is not None and self.max_messages <= 0:
            mistakes.add(f"{key}.max_messages", "must be a number above 0")

    def writer_options(self, read_with: Mapping[str, str]) -> dict[str, str]:
        """Return the options of the sink, for the cluster of the dead letters."""
        back = {"redrive": "true"} if self.to == "group" else {}
        return reconnected(read_with, back | self.options)

    @property
    def target_in_words(self) -> str:
        """Target of the redrive, as text for reports."""
        names = {"group": "the groups they come from", "topic": "the topics they come from"}
        return names.get(self.to, self.to)


def back_to(target: str, rows: DataFrame) -> DataFrame:
    """Return dead letters, from rows of `dead_letters.explained`, as messages for the sink."""
    place = F.concat_ws("/", *(F.col(name).cast("string") for name in PLACE))
    own = F.map_filter(
        "properties", lambda name, _: ~name.isin(*sorted(RESERVED_PROPERTIES), "REDRIVEN_FROM")
    )
    marks = {"REDRIVEN_FROM": place}
    if target == "group":
        topic = F.concat(F.lit(RETRY_PREFIX), F.col("group"))
        marks["RETRY_TOPIC"] = F.col("originTopic")
    else:
        topic = F.col("originTopic") if target == "topic" else F.lit(target)
    pairs = [part for name, value in marks.items() for part in (F.lit(name), value)]
    return rows.select(
        topic.alias("topic"),
        "tags",
        "keys",
        "body",
        F.map_concat(own, F.create_map(*pairs)).alias("properties"),
    )


def can_be_sent(target: str) -> Column:
    """Return the condition for dead letters that the sink can send.

    Clients other than Java's store empty bodies, and stored properties may be too long for one more
    property. A single row of this kind would end the whole job.
    """
    text_bytes = F.aggregate(
        F.map_entries(F.coalesce(F.col("properties"), F.create_map())),
        F.lit(0),
        lambda sum_, pair: sum_ + F.octet_length(pair["key"]) + F.octet_length(pair["value"]) + 2,
    )
    can = (F.octet_length("body") > 0) & (text_bytes <= MAX_PROPERTIES_BYTES - MARKS_BYTES)
    if target in ("group", "topic"):
        can &= F.col("originTopic").rlike("^[%|a-zA-Z0-9_-]{1,127}$")
    return F.coalesce(can, F.lit(False))


def not_yet_redriven(rows: DataFrame, ledger: str) -> DataFrame:
    """Return the dead letters that are not in the ledger; a missing ledger is empty."""
    from pyspark.errors import AnalysisException

    # With a given schema, a directory that a crash left without a file is read as an empty ledger.
    try:
        known = rows.sparkSession.read.schema(LEDGER).parquet(ledger)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return rows
        raise
    return rows.join(known, PLACE, "left_anti")


def remember(rows: DataFrame, ledger: str, at: datetime) -> None:
    """Append redriven dead letters to the ledger."""
    known = rows.select(*PLACE, F.lit(at).alias("redrivenAt"))
    known.coalesce(1).write.mode("append").parquet(ledger)
