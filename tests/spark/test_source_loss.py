"""Lost messages: each cause is named; the query fails, or continues without them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from orbitmq import Admin
from orbitmq.spark.offsets import BEGINS, QueueRange
from orbitmq.spark.source.data_loss import MessagesLost
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import bodies, frame, run_available, send, stream, written


@pytest.fixture(scope="module")
def small_files() -> Iterator[LocalCluster]:
    """A broker whose log files hold a few messages, so that they expire one by one."""
    settings = {"mappedFileSizeCommitLog": str(64 << 10), "mappedFileSizeConsumeQueue": "6000"}
    with LocalCluster(settings=settings) as running:
        yield running


def expire(cluster: LocalCluster, topic: str) -> int:
    """Delete the oldest files; return the first remaining offset."""
    store = cluster.brokers["broker-a"].store
    store.clean(now_ms=2**52, due=True, reserved_ms=0)
    store.clean(now_ms=2**52, due=True, reserved_ms=0)
    return int(store.min_offset(topic, 0))


def test_expired_offsets_fail_the_query_or_are_skipped(
    spark: SparkSession, small_files: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(small_files, queues=1)
    send(small_files, topic, ["x" * 1000 for _ in range(20)])
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 10}
    run_available(stream(spark, small_files, topic, **options), tmp_path)
    send(small_files, topic, ["y" * 1000 for _ in range(300)])
    first = expire(small_files, topic)
    assert first > 25
    starting = json.dumps({topic: {"0": 3}})
    with pytest.raises(Exception, match=rf"lost \(expired\). offsets 3 to {first - 1} of queue 0"):
        frame(spark, small_files, topic, startingOffsets=starting).count()
    lenient = frame(spark, small_files, topic, startingOffsets=starting, failOnDataLoss="false")
    assert lenient.count() == 320 - first
    query = stream(spark, small_files, topic, startingOffsets="earliest")
    with pytest.raises(Exception, match=rf"lost \(expired\). offsets 20 to {first - 1}"):
        run_available(query, tmp_path)
    run_available(stream(spark, small_files, topic, failOnDataLoss="false"), tmp_path)
    assert written(spark, tmp_path).count() == 20 + 320 - first


def test_a_stream_skips_expired_offsets_at_once(
    small_files: LocalCluster, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(small_files, queues=1)
    send(small_files, topic, ["x" * 1000 for _ in range(300)])
    first = expire(small_files, topic)
    assert first > 25
    limit = ReadMaxRows(10)
    began = {topic: {"broker-a": {"0": 3}}}

    def reader(fail: str) -> Any:
        options = {"subscribe": topic, "failOnDataLoss": fail, "maxOffsetsPerTrigger": "10"}
        source = RocketMQSource({"nameServer": small_files.address, **options})
        return source.streamReader(source.schema())

    lenient, strict = reader("false"), reader("true")
    end = lenient.latestOffset(began, limit)
    assert end[topic] == {"broker-a": {"0": first + 10}}, "a whole batch of what is left"
    assert end[BEGINS] == {topic: {"broker-a": {"0": first}}}
    with caplog.at_level(logging.WARNING):
        (part,) = lenient.partitions(began, end)
        assert sum(batch.num_rows for batch in lenient.read(part)) == 10
        following = lenient.latestOffset(end, limit)
        assert following[topic] == {"broker-a": {"0": first + 20}}
        lenient.partitions(end, following)
    (told,) = caplog.records
    assert f"offsets 3 to {first - 1} of queue 0" in told.getMessage()
    with pytest.raises(MessagesLost, match="offsets 3 to "):
        strict.partitions(began, strict.latestOffset(began, limit))
    for each in (lenient, strict):
        each.stop()


def test_expiry_between_attempts_keeps_the_division_into_tasks(
    small_files: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(small_files, queues=3)
    expire(small_files, topic)  # Messages left by other tests.
    send(small_files, topic, ["x" * 1000 for _ in range(300)])
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    source = RocketMQSource({"nameServer": small_files.address, "minPartitions": "10", **options})
    reader: Any = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(1000))
    planned = [part.ranges for part in reader.partitions(start, end)]
    store = small_files.brokers["broker-a"].store
    store.clean(now_ms=2**52, due=True, reserved_ms=0, max_log_files=3)
    firsts = [store.min_offset(topic, queue_id) for queue_id in range(3)]
    again = [part.ranges for part in reader.partitions(start, end)]
    reader.stop()
    assert len(planned) == 10
    assert [] in again, "some tasks have nothing left"
    assert any(again), "and some have"
    assert again == [
        [
            QueueRange(each.queue, max(each.start, firsts[each.queue.queue_id]), each.end)
            for each in ranges
            if each.end > firsts[each.queue.queue_id]
        ]
        for ranges in planned
    ]


def test_a_recreated_queue_fails_the_query_or_is_read_anew(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    with LocalCluster() as own:
        topic = new_topic(own, queues=1)
        send(own, topic, ["old"] * 10)
        run_available(stream(spark, own, topic, startingOffsets="earliest"), tmp_path)
        with Admin(own.address) as admin:
            admin.delete_topic(topic)
            admin.create_topic(topic, queues=1)
        send(own, topic, ["new"] * 4)
        with pytest.raises(Exception, match=r"lost \(queue shrunk\)"):
            run_available(stream(spark, own, topic), tmp_path)
        lenient = stream(spark, own, topic, failOnDataLoss="false")
        run_available(lenient, tmp_path)
        send(own, topic, ["newer"] * 2)
        run_available(stream(spark, own, topic, failOnDataLoss="false"), tmp_path)
    assert bodies(written(spark, tmp_path)) == ["newer"] * 2 + ["old"] * 10


def test_offsets_beyond_the_end_fail_the_query_or_are_cut(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, ["a", "b"])
    ending = json.dumps({topic: {"broker-a": {"0": 9}}})
    with pytest.raises(Exception, match=r"lost \(queue shrunk\). offset 9 of queue 0"):
        frame(spark, cluster, topic, endingOffsets=ending).count()
    lenient = frame(spark, cluster, topic, endingOffsets=ending, failOnDataLoss="false")
    assert bodies(lenient) == ["a", "b"]
