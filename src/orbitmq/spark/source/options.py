"""Options of a reader: topics, start and end, limits, filters, columns.

Names follow Spark's Kafka connector where the meaning is the same. This module checks everything
that can be checked without a request to the cluster, before anything starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from orbitmq._native import Filter as SqlFilter
from orbitmq.errors import ConfigError, MalformedFilter
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.spark.offsets import EARLIEST, LATEST, Offsets, parse_assignment, parse_offsets
from orbitmq.spark.options import CONNECTION_OPTIONS, ConnectionOptions, Options
from orbitmq.spark.source.data_loss import AwayStrategy

__all__ = ["DEFAULT_GROUP", "SOURCE_OPTIONS", "BatchLimits", "Position", "SourceOptions", "Topics"]

SOURCE_OPTIONS = (
    *CONNECTION_OPTIONS,
    *("subscribe", "topic", "subscribePattern", "assign"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy",),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *(
        "failOnDataLoss",
        "failOnCorruption",
        "maxBrokerAbsence",
        "brokerAbsenceStrategy",
        "minPartitions",
        "maxRecordsPerPartition",
    ),
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("tags", "sql", "columns", "pushFilters"),
    *("consumerGroup", "commitOffsets"),
    *("pullBatchSize", "pullTimeoutMs", "prefetch", "bulkRead"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "routeCacheTtlMs"),
)

DEFAULT_GROUP = "ORBIT_SPARK"
"""Prefix of the group of a reader without ``consumerGroup``; it commits and subscribes nothing."""

_STRATEGIES: dict[str, Literal["error", "latest"]] = {"error": "error", "latest": "latest"}
_WHEN_AWAY: dict[str, AwayStrategy] = {"fail": "fail", "wait": "wait", "skip": "skip"}
_COMMITS: dict[str, Literal["none", "progress"]] = {"none": "none", "progress": "progress"}
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Topics:
    """Selection of queues to read; exactly one of the three fields is given."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()

    @classmethod
    def of(cls, options: Options) -> Topics:
        """Parse the options that select topics."""
        subscribe = options.text("subscribe", "topic")
        pattern, assign = options.text("subscribePattern"), options.text("assign")
        given = {"subscribe": subscribe, "subscribePattern": pattern, "assign": assign}
        names = [name for name, text in given.items() if text is not None]
        if len(names) != 1:
            raise ConfigError(
                "one of the options subscribe (or topic), subscribePattern and assign says what "
                f"to read; {'none is' if not names else ' and '.join(names) + ' are'} given"
            )
        if assign is not None:
            return cls(queues=parse_assignment("assign", assign))
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(
                    f"option subscribePattern is not a regular expression: {error}"
                ) from None
            return cls(pattern=pattern)
        topics = tuple(dict.fromkeys(t.strip() for t in (subscribe or "").split(",") if t.strip()))
        if not topics:
            raise ConfigError("option subscribe names no topic")
        return cls(names=topics)

    def has(self, queue: MessageQueue) -> bool:
        """Return True if a queue belongs to the selection, whether or not it still exists."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, queue.topic) is not None
        if self.queues:
            short = MessageQueue(queue.topic, "", queue.queue_id)
            return queue in self.queues or short in self.queues
        return queue.topic in self.names


@dataclass(frozen=True, slots=True)
class Position:
    """Start or end of reading: a word for all queues, offsets or times for single ones."""

    option: str
    default: int
    """`EARLIEST` or `LATEST`, for queues that are not named."""
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None

    @classmethod
    def of(cls, options: Options, which: Literal["starting", "ending"], default: int) -> Position:
        """Parse the options of the start or end.

        A time for all queues has priority over times per queue, these over offsets.
        """
        everywhere = options.number_if_given(f"{which}Timestamp", 0)
        if everywhere is not None:
            return cls(f"{which}Timestamp", default, timestamp_ms=everywhere)
        name = f"{which}OffsetsByTimestamp"
        text = options.text(name)
        if text is not None:
            return cls(name, default, timestamps_ms=parse_offsets(name, text, least=0))
        name = f"{which}Offsets"
        text = options.text(name)
        if text is None:
            return cls(name, default)
        if text.lower() in _WORDS:
            return cls(name, _WORDS[text.lower()])
        if not text.startswith("{"):
            raise ConfigError(
                f'option {name} is earliest, latest or JSON such as {{"topic": {{"broker": '
                f'{{"0": 12}}}}}}, not {text!r}'
            )
        return cls(name, default, offsets=parse_offsets(name, text))


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Least and greatest size of one micro-batch."""

    max_offsets: int | None
    max_bytes: int | None
    min_offsets: int | None
    max_delay_ms: int

    @classmethod
    def of(cls, options: Options) -> BatchLimits:
        """Parse the options of triggers."""
        limits = cls(
            options.number_if_given("maxOffsetsPerTrigger"),
            options.size_if_given("maxBytesPerTrigger"),
            options.number_if_given("minOffsetsPerTrigger"),
            options.duration_ms("maxTriggerDelay", 15 * 60_000),
        )
        least, most = limits.min_offsets, limits.max_offsets
        if least is not None and most is not None and least > most:
            raise ConfigError(
                f"option minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})"
            )
        return limits


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of a reader."""

    connection: ConnectionOptions
    topics: Topics
    starting: Position
    ending: Position
    when_no_message_is_later: Literal["error", "latest"]
    fail_on_data_loss: bool
    fail_on_corruption: bool
    max_broker_absence_ms: int
    when_broker_away: AwayStrategy
    limits: BatchLimits
    min_partitions: int | None
    max_records_per_partition: int | None
    tags: str | None
    sql: str | None
    columns: tuple[str, ...] | None
    push_filters: bool
    group: str
    commits: Literal["none", "progress"]
    pull_batch_size: int
    pull_timeout_ms: int
    prefetch: int | None
    bulk_read: bool
    retries: int
    retry_interval_ms: int
    route_ttl_ms: int

    @classmethod
    def of(
        cls, given: Mapping[str, str], *, streaming: bool | None, default_group: str = DEFAULT_GROUP
    ) -> SourceOptions:
        """Parse a reader's options; every mistake raises a `ConfigError` of one line.

        `streaming` stays None until Spark requests a reader for a batch or a stream.
        """
        options = Options(given, SOURCE_OPTIONS, "the rocketmq source")
        if streaming:
            _check_endless(options)
        ending = Position.of(options, "ending", LATEST)
        starting = Position.of(options, "starting", LATEST if streaming else EARLIEST)
        if streaming is False:
            _check_ends(starting, ending)
        tags, sql = _tags(options), _sql(options)
        if tags is not None and sql is not None:
            raise ConfigError("options tags and sql are two kinds of filter, give one of them")
        group = options.text("consumerGroup")
        commits = options.choice("commitOffsets", _COMMITS, "none")
        if commits == "progress" and group is None:
            raise ConfigError(
                "option commitOffsets=progress writes offsets to a consumer group: name it with "
                "consumerGroup"
            )
        fail_on_data_loss = options.flag("failOnDataLoss", True)
        return cls(
            connection=ConnectionOptions.of(options),
            topics=Topics.of(options),
            starting=starting,
            ending=ending,
            when_no_message_is_later=options.choice(
                "startingOffsetsByTimestampStrategy", _STRATEGIES, "error"
            ),
            fail_on_data_loss=fail_on_data_loss,
            fail_on_corruption=options.flag("failOnCorruption", True),
            max_broker_absence_ms=options.duration_ms("maxBrokerAbsence", 60_000),
            # A query that continues after a loss also continues when nothing is lost.
            when_broker_away=options.choice(
                "brokerAbsenceStrategy", _WHEN_AWAY, "fail" if fail_on_data_loss else "wait"
            ),
            limits=BatchLimits.of(options),
            min_partitions=options.number_if_given("minPartitions"),
            max_records_per_partition=options.number_if_given("maxRecordsPerPartition"),
            tags=tags,
            sql=sql,
            columns=_columns(options),
            push_filters=options.flag("pushFilters", False),
            group=group or default_group,
            commits=commits,
            pull_batch_size=options.number("pullBatchSize", 32),
            pull_timeout_ms=options.number("pullTimeoutMs", 10_000),
            prefetch=options.number_if_given("prefetch"),
            bulk_read=options.flag("bulkRead", True),
            retries=options.number("fetchOffset.numRetries", 10, least=0),
            retry_interval_ms=options.number("fetchOffset.retryIntervalMs", 500, least=0),
            route_ttl_ms=options.duration_ms("routeCacheTtlMs", 1000),
        )


def _check_endless(options: Options) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if options.text(name) is not None:
            raise ConfigError(f"option {name} is for batch reads: a stream has no end")


def _check_ends(starting: Position, ending: Position) -> None:
    if starting.option == "startingOffsets" and starting.default == LATEST:
        raise ConfigError("option startingOffsets=latest is for streams: a batch would be empty")
    if LATEST in (starting.offsets or {}).values():
        raise ConfigError("option startingOffsets: -1 (latest) is for streams")
    if ending.option == "endingOffsets" and ending.default == EARLIEST:
        raise ConfigError("option endingOffsets=earliest would make every batch empty")
    if EARLIEST in (ending.offsets or {}).values():
        raise ConfigError("option endingOffsets: -2 (earliest) would make the batch empty")


def _tags(options: Options) -> str | None:
    """Return the text of option tags, None if it selects all tags."""
    tags = options.text("tags")
    try:
        wanted = Subscription.of_tags("", tags)
    except ValueError:
        raise ConfigError(
            f"option tags: {tags!r} names no tag; it looks like 'created || paid'"
        ) from None
    return tags if wanted.tags else None


def _sql(options: Options) -> str | None:
    """Return the filter of option sql; raise `ConfigError` if it is invalid.

    A broker that cannot parse a filter would let every message pass.
    """
    sql = options.text("sql")
    if sql is not None:
        try:
            SqlFilter(sql)
        except MalformedFilter as error:
            reason = str(error).splitlines()[0].rpartition("Exception: ")[2]
            raise ConfigError(f"option sql: {sql!r} is not a filter: {reason}") from None
    return sql


def _columns(options: Options) -> tuple[str, ...] | None:
    text = options.text("columns")
    if text is None:
        return None
    from orbitmq.storelog.plan import check_columns  # most readers and all tasks do not need it

    try:
        return check_columns(name.strip() for name in text.split(","))
    except ValueError as error:
        raise ConfigError(f"option columns: {error}") from None
