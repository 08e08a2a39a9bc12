"""Helpers for tests of the source: sending, reading, streaming."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.query import StreamingQuery

from orbitmq import Message, Producer
from orbitmq._native import Command
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Handler, Refused
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.stream_reader import RocketMQStreamReader
from orbitmq.testing import LocalCluster

# Errors end sooner in tests.
PATIENCE = {"fetchOffset.numRetries": "20", "fetchOffset.retryIntervalMs": "100"}


def send(
    cluster: LocalCluster | str, topic: str, bodies: Iterable[bytes | str], **parts: Any
) -> None:
    """Send messages one after the other, over all queues in turn."""
    address = cluster if isinstance(cluster, str) else cluster.address
    with Producer(address, group="spark-tests") as producer:
        for body in bodies:
            content = body.encode() if isinstance(body, str) else body
            producer.send(Message(topic, content, **parts))


def send_to_queue(
    cluster: LocalCluster, topic: str, queue_id: int, bodies: Iterable[str], **parts: Any
) -> None:
    """Send messages to one queue."""
    with Producer(cluster.address, group="spark-tests") as producer:
        (queue, *_) = [q for q in producer.queues(topic) if q.queue_id == queue_id]
        for body in bodies:
            producer.send(Message(topic, body.encode(), **parts), queue=queue)


def frame(
    spark: SparkSession, cluster: LocalCluster | str, topic: str | None, **options: Any
) -> DataFrame:
    """Read a batch, lazily."""
    return spark.read.format("rocketmq").options(**_options(cluster, topic, options)).load()


def stream(
    spark: SparkSession, cluster: LocalCluster | str, topic: str | None, **options: Any
) -> DataFrame:
    """Read a stream."""
    return spark.readStream.format("rocketmq").options(**_options(cluster, topic, options)).load()


def reader(cluster: LocalCluster | str, **options: Any) -> RocketMQStreamReader:
    """Return the planner's reader for the options of a stream."""
    address = cluster if isinstance(cluster, str) else cluster.address
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    source = RocketMQSource({"nameServer": address, **named})
    made = source.streamReader(source.schema())
    assert isinstance(made, RocketMQStreamReader)
    return made


def count_rows(made: RocketMQStreamReader, tasks: Iterable[InputPartition]) -> int:
    """Read the tasks of a batch as Spark's workers do; return the number of rows."""
    return sum(batch.num_rows for task in tasks for batch in made.read(task))


def _options(
    cluster: LocalCluster | str, topic: str | None, options: Mapping[str, Any]
) -> dict[str, str]:
    address = cluster if isinstance(cluster, str) else cluster.address
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    base = {"nameServer": address, **PATIENCE}
    return base | ({} if topic is None else {"subscribe": topic}) | named


def bodies(rows: DataFrame | Iterable[Row]) -> list[str]:
    """Return the bodies of rows, sorted."""
    collected = rows.select("body").collect() if isinstance(rows, DataFrame) else rows
    return sorted(bytes(row.body).decode() for row in collected)


def run_available(source: DataFrame, out: Path, *, limit_s: float = 60) -> StreamingQuery:
    """Run a stream over all present messages, to Parquet below `out`."""
    query = start(source, out, availableNow=True)
    assert query.awaitTermination(int(limit_s)), "the stream did not end"
    return query


def start(source: DataFrame, out: Path, **trigger: Any) -> StreamingQuery:
    """Start a stream to Parquet below `out`."""
    return (
        source.writeStream.format("parquet")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(**(trigger or {"processingTime": "0 seconds"}))
        .start(str(out / "rows"))
    )


def until(query: StreamingQuery, count: int) -> None:
    """Wait until a stream has read a number of rows in all; Spark has no event for that."""
    deadline = time.monotonic() + 60
    while sum(p["numInputRows"] for p in query.recentProgress) < count:
        error = query.exception()
        assert error is None, error
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.02)


def written(spark: SparkSession, out: Path) -> DataFrame:
    """Return the rows a stream has written below `out`."""
    return spark.read.parquet(str(out / "rows"))


@contextmanager
def overhearing(cluster: LocalCluster) -> Iterator[list[tuple[int, Connection]]]:
    """Record the requests to the broker of a cluster, with their connections, from now on."""
    router = cluster.brokers["broker-a"].router
    heard: list[tuple[int, Connection]] = []
    find = router.find

    def noting(code: int) -> Handler:
        handler = find(code)

        def handle(request: Command, connection: Connection) -> Answer:
            heard.append((code, connection))
            return handler(request, connection)

        return handle

    router.find = noting  # type: ignore[method-assign]
    try:
        yield heard
    finally:
        router.find = find  # type: ignore[method-assign]


@contextmanager
def refusing(
    cluster: LocalCluster, wanted: int, topic: str, refusal: Refused
) -> Iterator[Counter[str]]:
    """Have the broker refuse requests of one code for a topic; count them for all topics."""
    router = cluster.brokers["broker-a"].router
    find, asked = router.find, Counter[str]()

    def find_refusing(code: int) -> Handler:
        handler = find(code)

        def handle(request: Command, connection: Connection) -> Answer:
            if code == wanted:
                of_topic = request.get_ext("topic") or ""
                asked[of_topic] += 1
                if of_topic == topic:
                    raise refusal
            return handler(request, connection)

        return handle

    router.find = find_refusing  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        router.find = find  # type: ignore[method-assign]
