"""Options of the sink; every mistake raises one line before any task starts.

======================  ================  ==========================================================
 option                  default           meaning
======================  ================  ==========================================================
 topic                                     topic of all rows; replaces the column of that name
 producerGroup           orbitmq-spark     producer group of the sends
 batchBytes              256k              largest size of a send of several rows
 maxMessageBytes         4m                largest body; brokers have a limit of their own
 maxInFlight             4                 number of sends of a task that wait for answers
 sendTimeoutMs           10s               timeout of one request
 retryTimeoutMs          2m                timeout of one send with all attempts and pauses
 deduplicate             false             brokers suppress repeats: exactly once
 deduplicateId                             name of a batch job, so that repeating the job is a
                                           repeat, too (in as many partitions, see `runs`)
 deduplicateBatch                          number of a job's run; a later one ends the earlier
 redrive                 false             rows go back to a group: sends property RETRY_TOPIC
======================  ================  ==========================================================

The connection options are those of the source. Spark itself adds `path` and `checkpointLocation`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.errors import ConfigError
from orbitmq.protocol.names import NOT_ALLOWED_TO_SEND, RETRY_PREFIX, topic_name_fault
from orbitmq.spark.options import CONNECTION_OPTIONS, ConnectionOptions, Options

__all__ = ["SINK_OPTIONS", "SinkOptions"]

SINK_OPTIONS = (
    *("topic", "producerGroup", "batchBytes", "maxMessageBytes", "maxInFlight", "sendTimeoutMs"),
    *("retryTimeoutMs", "deduplicate", "deduplicateId", "deduplicateBatch", "redrive"),
)
_OF_SPARK = ("path", "checkpointLocation", "queryName")
_GROUP = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
DEFAULT_GROUP = "orbitmq-spark"
MOST_IN_FLIGHT = 64
LARGEST_MESSAGE_BYTES = 15 << 20
"""Limit below the 16 MiB of a frame; the rest is for the frame's header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All options of a sink."""

    connection: ConnectionOptions
    topic: str | None = None
    group: str = DEFAULT_GROUP
    batch_bytes: int = 256 << 10
    max_message_bytes: int = 4 << 20
    max_in_flight: int = 4
    send_timeout_ms: int = 10_000
    retry_timeout_ms: int = 120_000
    deduplicate: bool = False
    deduplicate_id: str | None = None
    deduplicate_batch: int | None = None
    redrive: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_query: bool = False) -> SinkOptions:
        """Parse Spark's options; their names may be written in any case."""
        given = Options(
            options, (*SINK_OPTIONS, *_OF_SPARK, *CONNECTION_OPTIONS), "the rocketmq sink"
        )
        most = given.size_if_given("maxMessageBytes") or 4 << 20
        return cls(
            connection=ConnectionOptions.of(given),
            topic=_topic(given),
            group=_group(given),
            batch_bytes=given.size_if_given("batchBytes") or min(256 << 10, most),
            max_message_bytes=most,
            max_in_flight=given.number("maxInFlight", 4),
            send_timeout_ms=given.duration_ms("sendTimeoutMs", 10_000),
            retry_timeout_ms=given.duration_ms("retryTimeoutMs", 120_000),
            deduplicate=given.flag("deduplicate", False),
            deduplicate_id=given.text("deduplicateId"),
            deduplicate_batch=given.number_if_given("deduplicateBatch", 0),
            redrive=given.flag("redrive", False),
        ).checked(is_query=is_query)

    def checked(self, *, is_query: bool) -> SinkOptions:
        """Return these options; raise `ConfigError` if they contradict each other."""
        if is_query and (self.deduplicate_id or self.deduplicate_batch is not None):
            raise ConfigError(
                "options deduplicateId and deduplicateBatch are for batch jobs: a query has its "
                "name and the numbers of its batches from its checkpoint, leave them out"
            )
        if not self.deduplicate and (self.deduplicate_id or self.deduplicate_batch is not None):
            raise ConfigError(
                "options deduplicateId and deduplicateBatch mean nothing without deduplicate=true"
            )
        if self.deduplicate_batch is not None and not self.deduplicate_id:
            raise ConfigError(
                "option deduplicateBatch counts the runs of a job: name it with deduplicateId"
            )
        if self.max_in_flight > MOST_IN_FLIGHT:
            raise ConfigError(f"option maxInFlight is at most {MOST_IN_FLIGHT}")
        if self.max_message_bytes > LARGEST_MESSAGE_BYTES:
            raise ConfigError(f"option maxMessageBytes is at most {LARGEST_MESSAGE_BYTES}")
        if min(self.send_timeout_ms, self.retry_timeout_ms) < 1:
            raise ConfigError("options sendTimeoutMs and retryTimeoutMs are more than nothing")
        if self.batch_bytes > self.max_message_bytes:
            raise ConfigError(
                f"option batchBytes ({self.batch_bytes}) may not exceed maxMessageBytes "
                f"({self.max_message_bytes}): brokers take a batch as one message"
            )
        return self


def _topic(given: Options) -> str | None:
    topic = given.text("topic")
    if topic is None:
        return None
    if fault := topic_name_fault(topic):
        raise ConfigError(f"option topic: {topic!r} is not a topic's name: {fault}")
    if topic in NOT_ALLOWED_TO_SEND or topic.startswith(RETRY_PREFIX):
        raise ConfigError(f"option topic: {topic!r} is the broker's own")
    return topic


def _group(given: Options) -> str:
    group = given.text("producerGroup") or DEFAULT_GROUP
    if not _GROUP.fullmatch(group):
        raise ConfigError(
            f"option producerGroup: {group!r} is not a name: 1 to 255 letters, digits, "
            "'%', '|', '_' and '-'"
        )
    return group
