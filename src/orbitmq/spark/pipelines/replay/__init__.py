"""``replay``: sends stored messages again.

::

    kind = "replay"
    name_server = "127.0.0.1:9876"
    topics = ["orders"]                     # of the source; by default all users' topics
    start = "2026-11-16T08:00:00Z"          # store time; ISO 8601 or epoch milliseconds
    end = "2026-11-16T09:00:00Z"            # exclusive
    where = "tags = 'paid'"                 # any condition on the columns of a message
    speed = 10.0                            # keep the original gaps, ten times as fast
    rate = 5000.0                           # maximum number of messages per second
    dry_run = true                          # count only

    [source]                                # exactly one of these
    archive = "archive"                     # the archive of a pipeline ``archive``
    store = "/var/lib/rocketmq/store"       # a store directory, or a copy of one
    topic = "orders"                        # a topic of a cluster

    [sink]
    topic = "orders-again"                  # by default the message's own topic
    name_server = "other:9876"              # another cluster
    keep_queues = true                      # send to the original queues (and brokers)
    mark = "replayed-from"                  # a property for the original message id

Messages get new ids, offsets and store times. Tags, keys, body and the user's properties stay.
Messages are sent at least once. Without ``speed`` and ``rate``, the brokers limit the speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from orbitmq.errors import ConfigError, NoRoute
from orbitmq.message import RESERVED_PROPERTIES
from orbitmq.spark.pipelines.archive import archived_brokers, archived_topics, read_archive
from orbitmq.spark.pipelines.plan import Job, Report, Table, moment
from orbitmq.spark.pipelines.replay.sender import ReplayPace, TopicCount, send, send_paced
from orbitmq.spark.pipelines.spec import Kind, Moment, PipelineSpec
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.spark.pipelines.topics import (
    check_reading,
    check_writing,
    names_server,
    topic_options,
)
from orbitmq.spark.sink.options import SinkOptions
from orbitmq.spark.sink.writer import Sink
from orbitmq.spark.source.options import SourceOptions
from orbitmq.spark.table.options import StoreOptions
from orbitmq.storelog import parse_time_ms
from orbitmq.storelog.selection import INTERNAL_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from orbitmq.spark.options import ConnectionOptions
    from orbitmq.spark.pipelines.plan import Workspace

__all__ = ["KIND", "ReplaySpec", "build", "queue_columns"]


@dataclass(frozen=True, kw_only=True)
class ReplaySource:
    """Source of the messages: an archive, a store directory or a topic."""

    archive: str | None = None
    store: str | None = None
    topic: str | None = None
    name_server: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that there is exactly one source."""
        if sum(way is not None for way in (self.archive, self.store, self.topic)) != 1:
            mistakes.add(key, "needs exactly one of archive, store and topic")
        if self.archive is not None and self.options:
            mistakes.add(f"{key}.options", "an archive has none")


@dataclass(frozen=True, kw_only=True)
class ReplaySink:
    """Destination of the messages."""

    topic: str | None = None
    name_server: str | None = None
    keep_queues: bool = False
    mark: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that the mark is a property that users may set."""
        if self.mark is not None and (not self.mark or self.mark in RESERVED_PROPERTIES):
            mistakes.add(f"{key}.mark", f"{self.mark!r} is no property of one's own")


@dataclass(frozen=True, kw_only=True)
class ReplaySpec(PipelineSpec):
    """Keys of a ``replay`` pipeline file."""

    source: ReplaySource
    sink: ReplaySink = field(default_factory=ReplaySink)
    topics: tuple[str, ...] = ()
    start: Moment | None = None
    end: Moment | None = None
    where: str | None = None
    speed: float | None = None
    rate: float | None = None
    dry_run: bool = False

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that the times are a range, that speeds are positive and that options are valid."""
        start = None if self.start is None else self.start.check(mistakes, "start")
        end = None if self.end is None else self.end.check(mistakes, "end")
        if start is not None and end is not None and start >= end:
            mistakes.add("end", f"{self.end} is not after start, {self.start}")
        for name in ("speed", "rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                mistakes.add(name, f"is a number above 0, not {value}")
        if self.source.topic is not None and self.topics:
            mistakes.add("topics", "the source is one topic already")
        self._check_options(mistakes)

    def _check_options(self, mistakes: Mistakes) -> None:
        """Check that nameservers are named and that formats and sink accept their options."""
        source, sink = self.source, self.sink
        missing = "is needed, but not there, nor NAMESRV_ADDR"
        if source.store is not None:
            try:
                StoreOptions.of({"path": source.store} | source.options)
            except ConfigError as error:
                mistakes.add("source.options", str(error))
        elif source.topic is not None:
            server = source.name_server or self.name_server
            options = topic_options(
                topic=(source.topic,), name_server=server, options=source.options
            )
            if server or names_server(options):
                check_reading(mistakes, "source.options", options, streaming=False)
            else:
                mistakes.add("source.name_server", missing)
        if sink.name_server or self.name_server or names_server(sink.options):
            check_writing(mistakes, "sink", _sink_options(self))
        elif not self.dry_run:
            mistakes.add("sink.name_server", missing)

    @property
    def start_ms(self) -> int | None:
        """First store time in epoch milliseconds."""
        return None if self.start is None else parse_time_ms(self.start)

    @property
    def end_ms(self) -> int | None:
        """End of the store times in epoch milliseconds, exclusive."""
        return None if self.end is None else parse_time_ms(self.end)


def build(spec: ReplaySpec, workspace: Workspace) -> Job:
    """Plan the replay without sending a message."""
    with workspace.planning("source"):
        rows = _source(spec, workspace)
    if spec.where is not None:
        with workspace.planning("where"):
            rows = rows.where(spec.where)
    with workspace.planning("sink.keep_queues"):
        queue = queue_columns(spec, _sink_options(spec), workspace)
    messages = _messages(rows, spec.sink, queue)
    sink = None
    if not spec.dry_run:
        with workspace.planning("sink"):
            sink = Sink.of(_sink_options(spec), messages.schema, is_query=False)

    def run() -> Report:
        if sink is None:
            return _report(_counted(rows), spec.sink, is_dry=True)
        sent: list[TopicCount] = []
        try:
            if spec.speed is None and spec.rate is None:
                sent = send(messages, sink)
            else:
                pace = partial(ReplayPace, speed=spec.speed, rate=spec.rate)
                sent = send_paced(messages, sink, pace, workspace.spark)
        finally:
            sink.end([count.topic for count in sent])
        return _report(sent, spec.sink, is_dry=False)

    return Job(run)


def _source(spec: ReplaySpec, workspace: Workspace) -> DataFrame:
    spark, source = workspace.spark, spec.source
    topics = spec.topics or None
    if source.archive is not None:
        path = workspace.locate(source.archive)
        if spec.topics and (missing := set(spec.topics) - archived_topics(spark, path)):
            workspace.log.warning(
                "archive %s has no messages of %s; the replay continues without them",
                path,
                ", ".join(sorted(missing)),
            )
        return read_archive(
            spark, path, topics=topics, start_ms=spec.start_ms, end_ms=spec.end_ms
        ).drop("day", "hour")
    options = dict(source.options)
    if source.store is not None:
        if topics is not None:
            options["topics"] = ",".join(topics)
        if spec.start is not None:
            options["startTime"] = spec.start
        if spec.end is not None:
            options["endTime"] = spec.end
        path = workspace.locate(source.store)
        rows = spark.read.format("rocketmq-store").options(**options).load(path)
        if _names_topics(options):
            return rows
        # Internal topics are left out. Brokers would reject their messages, or messages would be
        # sent twice: a delayed message is in an internal topic and in its own topic.
        return rows.where(~F.col("topic").rlike(f"^(?:{INTERNAL_TOPICS})$"))
    assert source.topic is not None
    made = topic_options(
        topic=(source.topic,), name_server=source.name_server or spec.name_server, options=options
    )
    rows = spark.read.format("rocketmq").options(**_time_range(spec) | made).load()
    stored = F.unix_millis("storeTimestamp")
    if spec.start_ms is not None:
        rows = rows.where(stored >= spec.start_ms)
    return rows if spec.end_ms is None else rows.where(stored < spec.end_ms)


def _names_topics(options: dict[str, str]) -> bool:
    """Return True if the options of a store select topics."""
    given = {name.lower() for name in options}
    ways = {"topics", "subscribe", "topic", "topicpattern", "subscribepattern", "queues", "assign"}
    return not given.isdisjoint(ways | {"startingoffsets", "endingoffsets"})


def _time_range(spec: ReplaySpec) -> dict[str, str]:
    """Return options that skip messages before and after the selected times."""
    # Messages that arrive during the replay, perhaps its own, are not part of the replay.
    made = {"endingOffsets": "latest"}
    given = {name.lower() for name in spec.source.options}
    if spec.start_ms is not None and not any(name.startswith("starting") for name in given):
        made["startingTimestamp"] = str(spec.start_ms)
        made["startingOffsetsByTimestampStrategy"] = "latest"
    if spec.end_ms is not None and not any(name.startswith("ending") for name in given):
        made["endingTimestamp"] = str(spec.end_ms)
    return made


def _messages(rows: DataFrame, sink: ReplaySink, queue: tuple[str, ...]) -> DataFrame:
    """Return rows as messages for the sink, with store time and queue for the pace."""
    properties = F.col("properties")
    if sink.mark is not None:
        marked = F.create_map(F.lit(sink.mark), F.col("msgId"))
        others = F.map_filter(properties, lambda name, _: name != F.lit(sink.mark))
        properties = F.map_concat(others, marked)
    kept = ["topic", "tags", "keys", "body", "storeTimestamp", "queueOffset"]
    return rows.select(*kept, *queue, properties.alias("properties"))


def _sink_options(spec: ReplaySpec) -> dict[str, str]:
    topic = {} if spec.sink.topic is None else {"topic": spec.sink.topic}
    server = spec.sink.name_server or spec.name_server
    return topic | topic_options(name_server=server, options=spec.sink.options)


def _counted(rows: DataFrame) -> list[TopicCount]:
    stored = F.unix_millis("storeTimestamp")
    counts = rows.groupBy("topic").agg(
        F.count("*"), F.sum(F.length("body")), F.min(stored), F.max(stored)
    )
    found = counts.orderBy("topic").collect()
    return [TopicCount(row[0], row[1], row[2] or 0, row[3], row[4]) for row in found]


def _report(counts: list[TopicCount], sink: ReplaySink, *, is_dry: bool) -> Report:
    table = Table(
        "messages that would be sent" if is_dry else "messages sent",
        ("from", "to", "messages", "body bytes", "first stored", "last stored"),
        tuple(
            (topic, sink.topic or topic, messages, size, moment(first), moment(last))
            for topic, messages, size, first, last in counts
        ),
    )
    messages = sum(count.messages for count in counts)
    return Report(
        tables=(table,),
        notes=(f"{messages} messages {'would be sent' if is_dry else 'sent'}",),
        facts={"messages": messages, "bytes": sum(count.body_bytes for count in counts)},
    )


KIND = Kind("replay", ReplaySpec, build)


# ---- Columns that keep messages in their original queues
#
# If one broker has the target topic, the queue number is enough. With several brokers, the broker
# name is needed as well, and the target must have a broker of this name. This is checked before the
# first message is sent.


def queue_columns(
    spec: ReplaySpec, sink_options: Mapping[str, str], workspace: Workspace
) -> tuple[str, ...]:
    """Return the columns to keep; raise `ConfigError` if queues cannot be kept."""
    if spec.dry_run or not spec.sink.keep_queues:
        return ()
    sink = SinkOptions.of(sink_options)
    # If only the source has the names of the topics, every broker is a possible target.
    named = (spec.source.topic,) if spec.source.topic is not None else spec.topics
    topics = named if sink.topic is None else (sink.topic,)
    targets = _brokers(sink.connection, topics, writing=True)
    if all(len(brokers) == 1 for brokers in targets):
        return ("queueId",)
    for brokers in targets:
        if missing := _source_brokers(spec, workspace) - brokers:
            if missing == {""}:
                raise ConfigError(
                    f"the target has brokers {', '.join(sorted(brokers))}, and no file of a store "
                    "says whose it was: add brokerName to source.options"
                )
            raise ConfigError(
                f"messages of {', '.join(sorted(missing))} cannot keep their queues, the target "
                f"has them on {', '.join(sorted(brokers))}: leave keep_queues out, or send to a "
                "topic that is on one broker"
            )
    return ("queueId", "brokerName")


def _source_brokers(spec: ReplaySpec, workspace: Workspace) -> set[str]:
    source = spec.source
    if source.archive is not None:
        return archived_brokers(
            workspace.spark,
            workspace.locate(source.archive),
            topics=spec.topics or None,
            start_ms=spec.start_ms,
            end_ms=spec.end_ms,
        )
    if source.store is not None:
        given = {name.lower(): value for name, value in source.options.items()}
        return {given.get("brokername", "")}
    assert source.topic is not None
    name_server = source.name_server or spec.name_server
    options = topic_options(topic=(source.topic,), name_server=name_server, options=source.options)
    connection = SourceOptions.of(options, streaming=False).connection
    (brokers,) = _brokers(connection, [source.topic], writing=False)
    return brokers


def _brokers(
    connection: ConnectionOptions, topics: Iterable[str], *, writing: bool
) -> list[set[str]]:
    """Return the brokers of each topic; without topics, or for a new topic, all brokers."""
    # Imported late, as in `sink.brokers`: tasks load this module, too, and do not need the import.
    from orbitmq.admin.admin import Admin

    found = []
    with connection.hiding_secrets(), Admin(connection.client_settings()) as admin:
        everywhere = set(admin.cluster_info().brokers)
        for topic in topics:
            try:
                route = admin.topic_route(topic)
            except NoRoute:
                found.append(everywhere)
                continue
            queues = route.publish_queues if writing else route.subscribe_queues
            found.append({queue.broker_name for queue in queues} or everywhere)
    return found or [everywhere]
