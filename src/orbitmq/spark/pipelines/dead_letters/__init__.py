"""``dead-letters``: report on dead letters by cause, topic, consumer and age, and their redrive.

::

    kind = "dead-letters"
    groups = ["billing"]                    # by default all groups
    cause_property = "error"                # a property in which your programs note the cause
    trace = true                            # read the outcome of the last try from the trace

    [select]                                # by default all dead letters
    topic = "orders"
    older_than = "1 hour"
    where = "cause LIKE 'gave up%' AND size(keys) > 0"      # any condition on the report's columns

    [redrive]                               # without this table there is only the report
    to = "group"                            # only this group; or "topic", or a topic's name
    ledger = "state/redriven"               # list of redriven messages: none is sent twice
    dry_run = true

RocketMQ does not store the cause of a dead letter. Known are the number of tries and whether the
consumer rejected the message before its last try. The trace may have the outcome of the last try,
and programs may note a cause in a property.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from orbitmq.protocol.names import DLQ_PREFIX, TRACE_TOPIC
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.pipelines.dead_letters.redrive import (
    PLACE,
    RedriveSpec,
    back_to,
    can_be_sent,
    not_yet_redriven,
    remember,
)
from orbitmq.spark.pipelines.plan import Job, Report, Table
from orbitmq.spark.pipelines.spec import Interval, Kind, PipelineSpec
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.spark.pipelines.topics import (
    check_reading,
    check_writing,
    names_server,
    reconnected,
    topic_options,
)
from orbitmq.spark.pipelines.trace_events import consumptions, events
from orbitmq.spark.schema import message_schema
from orbitmq.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from orbitmq.spark.pipelines.plan import Workspace

__all__ = ["KIND", "DeadLettersSpec", "build", "explained", "summary"]

AGES = ((60, "1 minute"), (3600, "1 hour"), (86_400, "1 day"), (604_800, "1 week"))
OLDEST_SHOWN = 10
MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class SelectSpec:
    """Criteria for dead letters."""

    topic: tuple[str, ...] = ()
    """Topics to which the messages were originally sent."""
    message_id: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    older_than: Interval | None = None
    newer_than: Interval | None = None
    where: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeadLettersSpec(PipelineSpec):
    """Keys of a ``dead-letters`` pipeline file."""

    groups: tuple[str, ...] = ()
    cause_property: str | None = None
    trace: bool = False
    trace_topic: str = TRACE_TOPIC
    select: SelectSpec = field(default_factory=SelectSpec)
    redrive: RedriveSpec | None = None
    options: dict[str, str] = field(default_factory=dict)

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that a nameserver is named and that group names have no prefix."""
        if self.name_server or names_server(self.options):
            check_reading(mistakes, "options", self.reader_options, streaming=False)
            if self.redrive is not None:
                back = self.redrive.writer_options(self.reader_options)
                check_writing(mistakes, "redrive.options", back)
        else:
            mistakes.add("name_server", "is needed, but not there, nor NAMESRV_ADDR")
        for at, group in enumerate(self.groups):
            if group.startswith("%"):
                mistakes.add(f"groups[{at}]", f"name the group, without {DLQ_PREFIX}")

    @property
    def reader_options(self) -> dict[str, str]:
        """Connector options for reading dead letters."""
        return topic_options(
            topic=tuple(DLQ_PREFIX + group for group in self.groups),
            pattern=None if self.groups else f"{DLQ_PREFIX}.+",
            name_server=self.name_server,
            options=self.options,
        )


def explained(
    messages: DataFrame, *, cause_property: str | None = None, tries: DataFrame | None = None
) -> DataFrame:
    """Return dead letters with their origin and, if it is known, their cause.

    `messages` are messages of ``%DLQ%`` topics with all their columns. `tries` are the
    `trace_events.consumptions` of the same time, if there is a trace. The added columns are
    ``group``, ``originTopic``, ``originMsgId``, ``ageSeconds`` and ``cause``.
    """
    properties = F.col("properties")
    group = F.expr(f"substring(topic, {len(DLQ_PREFIX) + 1})")
    rows = messages.select(
        "*",
        group.alias("group"),
        F.coalesce(properties["RETRY_TOPIC"], properties["DLQ_ORIGIN_TOPIC"]).alias("originTopic"),
        F.coalesce(properties["UNIQ_KEY"], F.col("msgId")).alias("originMsgId"),
        (F.unix_seconds(F.current_timestamp()) - F.unix_seconds("storeTimestamp")).alias(
            "ageSeconds"
        ),
    )
    if tries is not None:
        last = tries.where("succeeded = false").groupBy(
            F.col("msgId").alias("originMsgId"), "group"
        )
        ended = last.agg(F.max_by("outcome", "deliveredAt").alias("lastOutcome"))
        rows = rows.join(ended, ["originMsgId", "group"], "left")
    said = [properties[cause_property]] if cause_property else []
    seen = [_traced_cause()] if tries is not None else []
    cause = F.coalesce(*said, *seen, _counted_cause())
    return rows.withColumn("cause", cause).drop("lastOutcome")


def _traced_cause() -> Column:
    times = F.col("reconsumeTimes").cast("string")
    return F.when(
        F.col("lastOutcome").isNotNull(),
        F.concat(F.lit("gave up after "), times, F.lit(" tries, the last: "), F.col("lastOutcome")),
    )


def _counted_cause() -> Column:
    """Return the cause from the number of tries: one try means that the consumer rejected it."""
    times = F.col("reconsumeTimes")
    return F.when(times <= 1, F.lit("refused by its consumer at the first try")).otherwise(
        F.concat(F.lit("gave up after "), times.cast("string"), F.lit(" tries"))
    )


def chosen(rows: DataFrame, select: SelectSpec) -> DataFrame:
    """Return the selected dead letters, from rows of `explained`."""
    if select.topic:
        rows = rows.where(F.col("originTopic").isin(*select.topic))
    if select.message_id:
        rows = rows.where(
            F.col("originMsgId").isin(*select.message_id) | F.col("msgId").isin(*select.message_id)
        )
    if select.key:
        rows = rows.where(F.arrays_overlap("keys", F.array(*map(F.lit, select.key))))
    if select.older_than is not None:
        rows = rows.where(F.col("ageSeconds") * 1000 >= select.older_than.ms)
    if select.newer_than is not None:
        rows = rows.where(F.col("ageSeconds") * 1000 < select.newer_than.ms)
    return rows if select.where is None else rows.where(select.where)


def summary(rows: DataFrame) -> DataFrame:
    """Return counts of dead letters by cause, topic, consumer and age, the largest first."""
    age = F.lit("older")
    for seconds, name in reversed(AGES):
        age = F.when(F.col("ageSeconds") < seconds, F.lit(f"under {name}")).otherwise(age)
    grouped = rows.withColumn("age", age).groupBy("cause", "originTopic", "group", "age")
    return grouped.agg(
        F.count("*").alias("messages"),
        F.min("storeTimestamp").alias("first"),
        F.max("storeTimestamp").alias("last"),
    ).orderBy(F.desc("messages"), "group", "originTopic", "cause", "age")


def build(spec: DeadLettersSpec, workspace: Workspace) -> Job:
    """Plan the report and the redrive."""
    options = spec.reader_options
    spark = workspace.spark
    with workspace.planning("groups"):
        absent = _groups_without(spec)
        there = replace(spec, groups=tuple(one for one in spec.groups if one not in absent))
        if absent and not there.groups:
            messages = spark.createDataFrame([], message_schema())
        else:
            reader = spark.read.format("rocketmq")
            messages = reader.options(**there.reader_options).load()
    tries = None
    if spec.trace:
        with workspace.planning("trace_topic"):
            traced = reconnected(options, {"subscribe": spec.trace_topic})
            trace = spark.read.format("rocketmq").options(**traced).load()
            tries = consumptions(events(trace))
    with workspace.planning("select"):
        rows = chosen(
            explained(messages, cause_property=spec.cause_property, tries=tries), spec.select
        )
    return Job(lambda: _run(spec, workspace, rows, absent))


def _groups_without(spec: DeadLettersSpec) -> list[str]:
    """Return the groups without dead letters: their ``%DLQ%`` topics do not exist.

    Brokers create this topic with the first dead letter of a group.
    """
    if not spec.groups:
        return []
    options = SourceOptions.of(spec.reader_options, streaming=False)
    cluster = SourceCluster(
        options.connection, options.group, options.retries, options.retry_interval_ms
    )
    try:
        return [
            group
            for group in spec.groups
            if cluster.patiently(partial(cluster.route, DLQ_PREFIX + group)) is None
        ]
    finally:
        cluster.close()


def _run(spec: DeadLettersSpec, workspace: Workspace, rows: DataFrame, absent: list[str]) -> Report:
    rows = rows.persist()
    try:
        tables = [
            Table.of("dead letters", summary(rows)),
            Table.of(
                "the oldest of them",
                rows.orderBy("storeTimestamp")
                .limit(OLDEST_SHOWN)
                .select("originMsgId", "keys", "originTopic", "group", "cause", "storeTimestamp"),
            ),
        ]
        facts: dict[str, Any] = {"messages": rows.count()}
        notes = [f"group {group} has no dead letters" for group in absent]
        if spec.redrive is not None:
            sent, more = _redrive(spec, spec.redrive, workspace, rows)
            facts |= {"redriven": 0 if spec.redrive.dry_run else sent}
            notes += more
    finally:
        rows.unpersist()
    return Report(tables=tuple(tables), notes=tuple(notes), facts=facts)


def _redrive(
    spec: DeadLettersSpec, redrive: RedriveSpec, workspace: Workspace, rows: DataFrame
) -> tuple[int, list[str]]:
    """Send dead letters back and write them to the ledger; return their number and notes."""
    ledger = workspace.locate(redrive.ledger)
    waiting = not_yet_redriven(rows, ledger)
    can = can_be_sent(redrive.to)
    notes = _set_aside(waiting.where(~can))
    waiting = waiting.where(can)
    if redrive.max_messages is not None:
        waiting = waiting.orderBy("storeTimestamp").limit(redrive.max_messages)
    waiting = waiting.persist()
    try:
        count = waiting.count()
        if redrive.dry_run:
            note = f"{count} would be redriven to {redrive.target_in_words}; dry_run is on"
            return count, [note, *notes]
        if count:
            options = redrive.writer_options(spec.reader_options)
            back_to(redrive.to, waiting).write.format("rocketmq").options(**options).mode(
                "append"
            ).save()
            remember(waiting, ledger, datetime.now(UTC))
    finally:
        waiting.unpersist()
    return count, [f"{count} redriven to {redrive.target_in_words}", *notes]


def _set_aside(bad: DataFrame) -> list[str]:
    """Return a note with the dead letters that cannot be sent; they stay in their topics."""
    places = bad.select(F.concat_ws("/", *PLACE).alias("place")).limit(MOST_NAMED + 1).collect()
    if not places:
        return []
    named = ", ".join(row["place"] for row in places[:MOST_NAMED])
    more = " and others" if len(places) > MOST_NAMED else ""
    note = (
        "set aside, because their body is empty, their properties are too long or their topic is "
        f"unknown (topic/broker/queue/offset): {named}{more}"
    )
    return [note]


KIND = Kind("dead-letters", DeadLettersSpec, build)
