"""The sink: ``df.write.format("rocketmq")`` and ``writeStream``.

Theory of operation. Spark creates a writer from the options on the driver. There the sink checks
everything that can be wrong: options, columns, a missing topic, brokers without a needed feature.
Spark then sends the writer to the tasks. A task gets its rows as Arrow batches, `RowPacker` (in
Rust) makes packed sends of them, and a `Sender` sends these. The task ends when brokers have stored
every send. So a task that has succeeded has lost nothing. A task that runs again repeats rows,
unless brokers suppress the repeats (`deduplicate`, see `exactly_once`).

A worker process runs many tasks and keeps its connections and routes for the next one
(`sink_process`). The classes that Spark calls, `RocketMQWriter` and `RocketMQStreamWriter`, are at
the end of this module.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq._native import PackedSend, RowPacker
from orbitmq.client.producer.message import make_unique_id
from orbitmq.errors import ConfigError, NoRoute, OrbitError
from orbitmq.protocol.codes import RequestCode
from orbitmq.rpc.namespace import wrap
from orbitmq.spark.sink.brokers import SinkProcess, check_cluster, sink_process
from orbitmq.spark.sink.exactly_once import Scope, query_scope, sender_name
from orbitmq.spark.sink.options import SinkOptions
from orbitmq.spark.sink.pieces import Outbound, Pieces
from orbitmq.spark.sink.queues import SinkQueues
from orbitmq.spark.sink.rows import LEFT_OUT_PROPERTIES, check_columns, sendable
from orbitmq.spark.sink.runs import EarlierRun, JobRun, note_run
from orbitmq.spark.sink.sender import Counts, Sender, SendSettings
from orbitmq.spark.worker import tune_worker

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Sink", "SinkCommit", "batch_writer", "stream_writer"]

_log = logging.getLogger(__name__)

WAITING_BATCHES = 16
"""Limit of a task's bytes that wait for more rows, as a multiple of option ``batchBytes``."""


@dataclass(slots=True)
class SinkCommit(WriterCommitMessage):
    """Result that a task returns to the driver."""

    counts: Counts = field(default_factory=Counts)
    topics: frozenset[str] = frozenset()
    """Topics for which the task has pinned brokers."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Sends the rows of both kinds of writer; Spark copies it to the tasks."""

    options: SinkOptions
    columns: frozenset[str]
    sender: str | None = None
    """Sender of the rows, for brokers that suppress repeats; None means the running query."""
    brokers: tuple[str, ...] = ()
    """Brokers that suppress the repeats."""

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, is_query: bool) -> Sink:
        """Check options, columns and brokers before a task starts, and return the sink."""
        tune_worker()
        read = SinkOptions.of(options, is_query=is_query)
        columns = check_columns(schema, read.topic)
        if read.topic is not None:
            columns -= {"topic"}
        with read.connection.hiding_secrets():
            brokers = check_cluster(read, columns)
        sender = None
        if read.deduplicate and not is_query:
            sender = wrap(read.connection.namespace, read.deduplicate_id or str(uuid.uuid4()))
        return cls(read, columns, sender, brokers)

    @property
    def is_nameless(self) -> bool:
        """True if the rows belong to a job without a name, whose repeats are not recognisable."""
        return self.sender is not None and self.options.deduplicate_id is None

    def write(self, batches: Iterator[pa.RecordBatch], *, at_once: bool = False) -> SinkCommit:
        """Send the rows of one task; return when brokers have stored all of them.

        With `at_once`, the rows of a batch do not wait for more rows. The next batch is then
        requested after brokers have stored this one.
        """
        tune_worker()
        with self.options.connection.hiding_secrets():
            return self._write(batches, at_once=at_once)

    def _write(self, batches: Iterator[pa.RecordBatch], *, at_once: bool) -> SinkCommit:
        options = self.options
        process = sink_process(options.connection)
        partition = _partition()
        scope: Scope | None = None
        if options.deduplicate:
            scope = query_scope(self.sender, options.deduplicate_batch)
        earlier = None if scope is None else self._earlier_run(process, scope)
        pinned: dict[str, Sequence[str]] = {}
        queues = SinkQueues(
            process.routes,
            turns=process.turns,
            first=0 if scope is None else scope.batch + scope.partition,
            pinned=None if scope is None else self._pinning(process, scope.sender, pinned),
            patience_s=options.retry_timeout_ms / 1000,
        )
        packer, pieces = self._packer(scope), Pieces(queues.choices)
        with Sender(self._send_settings(scope), process.network, queues, earlier=earlier) as sender:
            for batch in batches:
                for send in self._packed(batch, packer, queues):
                    _submit(pieces.of(send, is_last=False), sender)
                if at_once:
                    _send_all(packer, pieces, sender)
            _send_all(packer, pieces, sender)
        counts = sender.counts
        if counts.busy:
            _log.warning("partition %d: retried after %d busy answers", partition, counts.busy)
        return SinkCommit(counts, frozenset(pinned))

    def _earlier_run(self, process: SinkProcess, scope: Scope) -> EarlierRun | None:
        name = self.options.deduplicate_id
        if name is None:
            return None
        patience_s = self.options.retry_timeout_ms / 1000
        earlier = EarlierRun(process.runs, scope, name, patience_s)
        if self.options.topic is not None:
            earlier.leaves_only_repeats(self.options.topic)  # a partition may have no rows
        return earlier

    def note_run(self, topics: Collection[str], partitions: int, done: Collection[int]) -> None:
        """Note a finished run of a named job, with the partitions that have sent all rows.

        `topics` are the topics that its rows have named. Raises if the run differs from the one
        before.
        """
        name, options = self.options.deduplicate_id, self.options
        if self.sender is None or name is None:
            return
        scope = Scope(sender_name(self.sender), options.deduplicate_batch or 0, 0)
        named = topics if options.topic is None else [options.topic]
        run = JobRun(scope.batch, partitions, frozenset(done))
        patience_s = options.retry_timeout_ms / 1000
        with options.connection.hiding_secrets():
            runs = sink_process(options.connection).runs
            note_run(runs, scope, name, named, run, patience_s)

    def _packer(self, scope: Scope | None) -> RowPacker:
        options = self.options
        return RowPacker(
            topic=options.topic,
            batch_bytes=options.batch_bytes,
            body_bytes=options.max_message_bytes,
            waiting_bytes=WAITING_BATCHES * options.batch_bytes,
            left_out=LEFT_OUT_PROPERTIES - ({"RETRY_TOPIC"} if options.redrive else set()),
            id_prefix=bytes.fromhex(make_unique_id()[:20]) if scope is None else None,
            scope=None if scope is None else str(scope),
        )

    def _send_settings(self, scope: Scope | None) -> SendSettings:
        options = self.options
        return SendSettings(
            group=options.group,
            namespace=options.connection.namespace,
            max_in_flight=options.max_in_flight,
            send_timeout_ms=options.send_timeout_ms,
            retry_timeout_ms=options.retry_timeout_ms,
            once=None if scope is None else scope.of_batch,
        )

    def _pinning(
        self, process: SinkProcess, sender: str, pinned: dict[str, Sequence[str]]
    ) -> Callable[[str], Sequence[str]]:
        """Return a function from a topic to its brokers; `pinned` collects its results."""
        if self.is_nameless and self.options.topic is not None:
            return lambda _topic: self.brokers

        def wished(topic: str) -> Sequence[str]:
            if self.options.topic is not None:
                return self.brokers
            route = process.routes.route(topic)
            names = {queue.broker_name for queue in route.publish_queues} & set(self.brokers)
            if not names:
                raise NoRoute(
                    f"topic {topic!r} is on no broker that was there when the job started",
                    topic=topic,
                    cause="no_broker",
                )
            return sorted(names)

        def brokers(topic: str) -> Sequence[str]:
            if topic not in pinned:
                pinned[topic] = process.pins.brokers(sender, topic, lambda: wished(topic))
            return pinned[topic]

        return brokers

    def end(self, topics: Collection[str]) -> None:
        """Delete the ids and pins of a finished job without a name at brokers and nameservers.

        `topics` are the topics that its rows have named. An unreachable broker drops the ids by
        itself later; an unreachable nameserver keeps a few needless bytes.
        """
        if self.sender is None or not self.is_nameless:
            return
        process, options = sink_process(self.options.connection), self.options
        scope = Scope(sender_name(self.sender), 0, 0)
        process.pins.take_back(scope.sender, topics)
        for topic in [options.topic] if options.topic is not None else sorted(topics):
            try:
                process.routes.route(topic)
                ext = {
                    "a": wrap(options.connection.namespace, options.group),
                    "b": wrap(options.connection.namespace, topic),
                    "scope": scope.of_batch,
                }
                for name in self.brokers:
                    if address := process.routes.address(name):
                        process.network.invoke(address, RequestCode.ORBIT_END_BATCH, ext=ext)
            except OrbitError as error:
                hidden = options.connection.hide_secrets(str(error))
                _log.info("a broker keeps the ids of a finished job for now: %s", hidden)

    def _packed(
        self, batch: pa.RecordBatch, packer: RowPacker, queues: SinkQueues
    ) -> Sequence[PackedSend]:
        rows = sendable(batch, self.columns)
        counts = {}
        if "shardingKey" in self.columns:
            counts = {topic: queues.slots(topic) for topic in packer.topics(rows)}
        month_ms = int(make_unique_id()[20:28], 16)
        return packer.push(rows, queue_counts=counts, month_ms=month_ms)


def _send_all(packer: RowPacker, pieces: Pieces, sender: Sender) -> None:
    """Send the rows that wait for more, and wait until brokers have stored everything."""
    for send in packer.finish():
        _submit(pieces.of(send, is_last=True), sender)
    sender.drain()


def _submit(sends: Iterable[Outbound], sender: Sender) -> None:
    for send in sends:
        sender.submit(send)


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


# ---- Writers that Spark calls, for a batch job and for the batches of a query


class RocketMQWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the counts, and note the run and its number of partitions."""
        topics = _pinned_topics(messages)
        if _committed(messages, "job").rows:
            self._sink.note_run(topics, len(messages), range(len(messages)))
        self._sink.end(topics)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log the counts of the tasks that succeeded: their rows are in the topics."""
        _committed(messages, "aborted job, already sent")
        topics = _pinned_topics(messages)
        done = [number for number, one in enumerate(messages) if isinstance(one, SinkCommit)]
        try:
            self._sink.note_run(topics, len(messages), done)
        except OrbitError as error:
            _log.warning("%s", error)  # only logged: the job has already failed for another reason
        self._sink.end(topics)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log the counts of the batch."""
        _committed(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log the counts of the tasks that succeeded: their rows are in the topics."""
        _committed(messages, f"aborted batch {batchId}, already sent")


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """Return the writer of a batch job; raise for rows that cannot be sent."""
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: use mode('append')")
    return RocketMQWriter(Sink.of(options, schema, is_query=False))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer of a query's micro-batches; raise for rows that cannot be sent.

    In complete mode (`overwrite`), each batch sends the whole result again, as Kafka's sink does,
    because a topic has no rows to replace.
    """
    return RocketMQStreamWriter(Sink.of(options, schema, is_query=True))


def _committed(messages: list[WriterCommitMessage | None], what: str) -> Counts:
    parts = [message.counts for message in messages if isinstance(message, SinkCommit)]
    total = sum(parts, Counts())
    _log.info("%s: %s", what, total)
    return total


def _pinned_topics(messages: list[WriterCommitMessage | None]) -> set[str]:
    return {topic for one in messages if isinstance(one, SinkCommit) for topic in one.topics}
