"""The sink: ``df.write.format("rocketmq")`` and ``writeStream``.

Theory of operation. Spark makes a writer from the options on the driver, which is where all that
can be wrong is found: options, columns, a topic that is not there, brokers that cannot do what is
asked. The writer then travels to the tasks. A task's rows come as Arrow batches, become packed
sends in Rust (`RowPacker`), and leave through a `Sender`; the task ends when a broker has taken
every one of them. So a task that has ended well has lost nothing; one that is run again repeats
rows, unless brokers suppress the repeats (`deduplicate`, see `sink_once`).

A worker process serves many tasks: its connections and routes are kept for the next one.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from orbitmq._native import RowPacker
from orbitmq.client.state.namespace import wrap
from orbitmq.client.state.unique_ids import make_unique_id
from orbitmq.errors import ConfigError, NoRoute, OrbitError
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.options import Connection
from orbitmq.spark.settling import settle_in
from orbitmq.spark.sink_brokers import ask_brokers
from orbitmq.spark.sink_once import Pins, Scope, query_scope, sender_name
from orbitmq.spark.sink_options import SinkOptions
from orbitmq.spark.sink_queues import RouteCache, SinkQueues
from orbitmq.spark.sink_rows import LEFT_OUT_PROPERTIES, check_columns, sendable
from orbitmq.spark.sink_sending import Counts, Sender, SendSettings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["batch_writer", "stream_writer"]

_log = logging.getLogger(__name__)

CHECK_AGAIN_S = 30.0
WAITING_BATCHES = 16
"""How many batches' worth of bytes may wait for more rows, over all topics and queues of a task."""


@dataclass(slots=True)
class SinkCommit(WriterCommitMessage):
    """What a task tells the driver."""

    counts: Counts = field(default_factory=Counts)
    topics: frozenset[str] = frozenset()
    """Those it has pinned brokers for."""


class _Process:
    """The connections and routes of this process, by the cluster they lead to."""

    def __init__(self, connection: Connection) -> None:
        settings = connection.client_settings()
        self.network = BlockingNetwork(settings.make_hooks(), settings.make_tls())
        self.routes = RouteCache(self.network, settings.nameservers, settings.namespace)
        self.pins = Pins(self.network, settings.nameservers)
        self.pid = os.getpid()


_processes: dict[Connection, _Process] = {}


def _process(connection: Connection) -> _Process:
    found = _processes.get(connection)
    if found is None or found.pid != os.getpid():
        found = _processes[connection] = _Process(connection)
    return found


@dataclass(frozen=True, slots=True)
class Sink:
    """What both kinds of writer do; travels to the tasks."""

    options: SinkOptions
    columns: frozenset[str]
    sender: str | None = None
    """Who the rows are of, for brokers that suppress repeats; None for the running query."""
    brokers: tuple[str, ...] = ()
    """The brokers that suppress them."""

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, is_query: bool) -> Sink:
        """Check everything that can be checked before a task starts."""
        settle_in()
        read = SinkOptions.of(options, is_query=is_query)
        columns = check_columns(schema, read.topic)
        if read.topic is not None:
            columns -= {"topic"}
        with read.connection.hiding_secrets():
            brokers = _check_cluster(read, columns)
        sender = None
        if read.deduplicate and not is_query:
            sender = wrap(read.connection.namespace, read.deduplicate_id or str(uuid.uuid4()))
        return cls(read, columns, sender, brokers)

    @property
    def is_nameless(self) -> bool:
        """Whether the rows are of a job that nobody can run again."""
        return self.sender is not None and self.options.deduplicate_id is None

    def write(self, batches: Iterator[pa.RecordBatch], *, at_once: bool = False) -> SinkCommit:
        """Send the rows of one task; returns when a broker has taken each of them.

        With `at_once` the rows of a batch do not wait for more, and the next batch is asked for
        when a broker has taken them.
        """
        settle_in()
        with self.options.connection.hiding_secrets():
            return self._write(batches, at_once=at_once)

    def _write(self, batches: Iterator[pa.RecordBatch], *, at_once: bool) -> SinkCommit:
        options = self.options
        process = _process(options.connection)
        partition = _partition()
        patience_s = options.retry_timeout_ms / 1000
        scope: Scope | None = None
        pinned: dict[str, Sequence[str]] = {}
        if options.deduplicate:
            scope = query_scope(self.sender, options.deduplicate_batch)
            queues = SinkQueues(
                process.routes,
                first=scope.batch + scope.partition,
                pinned=self._pinning(process, scope.sender, pinned),
                patience_s=patience_s,
            )
        else:
            queues = SinkQueues(process.routes, first=partition, patience_s=patience_s)
        packer = RowPacker(
            topic=options.topic,
            batch_bytes=options.batch_bytes,
            body_bytes=options.max_message_bytes,
            waiting_bytes=WAITING_BATCHES * options.batch_bytes,
            left_out=LEFT_OUT_PROPERTIES - ({"RETRY_TOPIC"} if options.redrive else set()),
            id_prefix=bytes.fromhex(make_unique_id()[:20]) if scope is None else None,
            scope=None if scope is None else str(scope),
        )
        settings = SendSettings(
            group=options.group,
            namespace=options.connection.namespace,
            max_in_flight=options.max_in_flight,
            send_timeout_ms=options.send_timeout_ms,
            retry_timeout_ms=options.retry_timeout_ms,
            once=None if scope is None else scope.of_batch,
        )
        with Sender(settings, process.network, queues) as sender:
            for batch in batches:
                self._pack(batch, packer, queues, sender)
                if at_once:
                    _send_all(packer, sender)
            _send_all(packer, sender)
        counts = sender.counts
        if counts.busy:
            _log.warning("partition %d: brokers were busy %d times", partition, counts.busy)
        return SinkCommit(counts, frozenset(pinned))

    def _pinning(
        self, process: _Process, sender: str, pinned: dict[str, Sequence[str]]
    ) -> Callable[[str], Sequence[str]]:
        """Return what tells the brokers of a topic; `pinned` collects what it has told."""
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
        """Have brokers and nameservers let go of a job that is over and that nobody can run again.

        `topics` are those its rows have named. What cannot be reached forgets it by itself, or has
        a few bytes too many.
        """
        if self.sender is None or not self.is_nameless:
            return
        process, options = _process(self.options.connection), self.options
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
                _log.info("ids of a job that is over stay with brokers for now: %s", hidden)

    def _pack(
        self, batch: pa.RecordBatch, packer: RowPacker, queues: SinkQueues, sender: Sender
    ) -> None:
        rows = sendable(batch, self.columns)
        counts = {}
        if "shardingKey" in self.columns:
            counts = {topic: queues.slots(topic) for topic in packer.topics(rows)}
        month_ms = int(make_unique_id()[20:28], 16)
        for send in packer.push(rows, queue_counts=counts, month_ms=month_ms):
            sender.submit(send)


def _send_all(packer: RowPacker, sender: Sender) -> None:
    """Send what waits for more rows, and wait until everything has been taken."""
    for send in packer.finish():
        sender.submit(send)
    sender.drain()


_checked: dict[tuple[SinkOptions, frozenset[str]], tuple[float, tuple[str, ...]]] = {}


def _check_cluster(options: SinkOptions, columns: frozenset[str]) -> tuple[str, ...]:
    """Refuse what the cluster cannot do; returns the brokers that the rows go to, if it matters.

    Spark makes a new writer for every micro-batch: what was found lately is not asked again, and a
    broker that is gone for a moment does not end a query that has begun well; one that has joined
    since, and breaks a promise, does.
    """
    key, now = (options, columns), time.monotonic()
    checked_at, brokers = _checked.get(key, (-CHECK_AGAIN_S, ()))
    if now - checked_at < CHECK_AGAIN_S:
        return brokers
    try:
        brokers = _ask_cluster(options, columns)
    except OrbitError as error:
        if key not in _checked or not error.retriable:
            raise
        hidden = options.connection.hide_secrets(str(error))
        _log.warning("the cluster was not asked again what it can do: %s", hidden)
    _checked[key] = now, brokers
    return brokers


def _ask_cluster(options: SinkOptions, columns: frozenset[str]) -> tuple[str, ...]:
    if options.topic is not None:
        _process(options.connection).routes.route(options.topic)
    if not (options.deduplicate or "deliverAt" in columns):
        return ()
    brokers = ask_brokers(options.connection, options.topic)
    for broker in brokers:
        if options.deduplicate:
            broker.must_suppress_repeats()
        if "deliverAt" in columns:
            broker.must_deliver_at()
    return tuple(broker.name for broker in brokers)


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _committed(messages: list[WriterCommitMessage | None], what: str) -> None:
    parts = [message.counts for message in messages if isinstance(message, SinkCommit)]
    total = sum(parts, Counts())
    _log.info("%s: %s", what, total)


def _pinned_topics(messages: list[WriterCommitMessage | None]) -> set[str]:
    return {topic for one in messages if isinstance(one, SinkCommit) for topic in one.topics}


class RocketMqWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Note what was sent."""
        _committed(messages, "job")
        self._sink.end(_pinned_topics(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say that rows of the tasks that ended well are in their topics."""
        _committed(messages, "aborted job, already sent")
        self._sink.end(_pinned_topics(messages))


class RocketMqStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send the rows of one task."""
        return self._sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Note what was sent."""
        _committed(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Say that rows of the tasks that ended well are in their topics."""
        _committed(messages, f"aborted batch {batchId}, already sent")


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """Return what writes a batch job's rows; raises for what cannot be written."""
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: use mode('append')")
    return RocketMqWriter(Sink.of(options, schema, is_query=False))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return what writes a query's micro-batches; raises for what cannot be written.

    In complete mode (`overwrite`) the whole result is sent anew with each batch, as Kafka's sink
    does: a topic has no rows to replace.
    """
    return RocketMqStreamWriter(Sink.of(options, schema, is_query=True))
