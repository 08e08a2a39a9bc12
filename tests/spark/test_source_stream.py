"""Streams: offsets, limits, added and removed queues, restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from orbitmq import Admin
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import (
    bodies,
    overhearing,
    run_available,
    send,
    send_to_queue,
    start,
    stream,
    until,
    written,
)
from tests.spark.topics import produce


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:04}" for number in range(count)]


def offsets_of(query: StreamingQuery, which: str = "endOffset") -> Any:
    progress = query.lastProgress
    assert progress is not None
    return json.loads(progress["sources"][0][which])


def test_available_now_reads_up_to_the_end_at_its_start(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=3)
    send(cluster, topic, names("a", 50))
    source = stream(spark, cluster, topic, startingOffsets="earliest")
    run_available(source, tmp_path)
    assert bodies(written(spark, tmp_path)) == names("a", 50)
    # The checkpoint takes precedence over the starting offsets, and nothing is repeated.
    send(cluster, topic, names("b", 7))
    query = run_available(stream(spark, cluster, topic, startingOffsets="latest"), tmp_path)
    assert bodies(written(spark, tmp_path)) == names("a", 50) + names("b", 7)
    ends = offsets_of(query)
    assert list(ends) == ["#tasks", "#least", topic]
    assert list(ends[topic]) == ["broker-a"]
    assert list(ends[topic]["broker-a"]) == ["0", "1", "2"]
    assert sum(ends[topic]["broker-a"].values()) == 57


def test_once_reads_all_messages(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=2)
    for text in ("a", "b"):
        send(cluster, topic, names(text, 20))
        query = start(
            stream(spark, cluster, topic, startingOffsets="earliest"), tmp_path, once=True
        )
        assert query.awaitTermination(60)
    assert bodies(written(spark, tmp_path)) == names("a", 20) + names("b", 20)


def test_max_offsets_are_shared_in_proportion_to_the_backlog(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=2)
    send_to_queue(cluster, topic, 0, names("a", 60))
    send_to_queue(cluster, topic, 1, names("b", 20))
    source = stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    query = run_available(source, tmp_path)
    steps = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert steps == [20, 20, 20, 20]
    first = json.loads(query.recentProgress[0]["sources"][0]["endOffset"])
    assert first == {"#tasks": 2, "#least": 32, topic: {"broker-a": {"0": 15, "1": 5}}}
    assert bodies(written(spark, tmp_path)) == names("a", 60) + names("b", 20)


def test_max_bytes_limit_each_batch(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, ["x" * 2000 for _ in range(40)])
    source = stream(spark, cluster, topic, startingOffsets="earliest", maxBytesPerTrigger="25k")
    query = run_available(source, tmp_path)
    steps = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(steps) == 40
    assert all(10 <= step <= 13 for step in steps[:-1]), steps


def test_tasks_of_all_batches_share_the_connections_of_workers(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, names("a", 60))
    source = stream(spark, cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    with overhearing(cluster) as heard:
        query = run_available(source, tmp_path)
    steps = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert steps == [5] * 12
    readers = {connection for code, connection in heard if code == RequestCode.ORBIT_BULK_READ}
    # Two concurrent tasks have two workers.
    assert 1 <= len(readers) <= 2


def test_a_batch_waits_for_the_minimum_of_offsets(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, names("a", 3))
    source = stream(
        spark,
        cluster,
        topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger=10,
        maxOffsetsPerTrigger=12,
        maxTriggerDelay="1h",
    )
    query = start(source, tmp_path / "patient")
    hurried = start(
        stream(
            spark,
            cluster,
            topic,
            startingOffsets="earliest",
            minOffsetsPerTrigger=10,
            maxTriggerDelay="300ms",
        ),
        tmp_path / "hurried",
    )
    try:
        until(hurried, 3)
        assert sum(p["numInputRows"] for p in query.recentProgress) == 0
        # All at once: ten of them would be enough.
        produce(cluster, topic, [name.encode() for name in names("b", 9)], batch=9)
        until(query, 12)
    finally:
        query.stop()
        hurried.stop()
    assert bodies(written(spark, tmp_path / "patient")) == names("a", 3) + names("b", 9)


def test_a_stream_begins_at_the_latest_offsets_by_default(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=2)
    send(cluster, topic, names("before", 5))
    query = start(stream(spark, cluster, topic), tmp_path)
    try:
        query.processAllAvailable()
        send(cluster, topic, names("after", 5))
        until(query, 5)
        progress = query.lastProgress
        assert progress is not None
        latest = json.loads(progress["sources"][0]["latestOffset"])
        assert sum(latest[topic]["broker-a"].values()) == 10
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == names("after", 5)


def test_added_queues_and_topics_begin_at_their_first_message(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=1)
    pattern = topic + "(-more)?"
    query = start(
        stream(spark, cluster, None, subscribePattern=pattern, routeCacheTtlMs="50"), tmp_path
    )
    try:
        query.processAllAvailable()
        with Admin(cluster.address) as admin:
            admin.update_topic(topic, queues=4)
            admin.create_topic(f"{topic}-more", queues=1)
        send_to_queue(cluster, topic, 3, names("added", 5))
        send(cluster, f"{topic}-more", names("more", 5))
        until(query, 10)
        ends = offsets_of(query)
        assert set(ends[topic]["broker-a"]) == {"0", "1", "2", "3"}
        assert set(ends) == {"#tasks", "#least", topic, f"{topic}-more"}
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == names("added", 5) + names("more", 5)


def test_committed_progress_shows_as_lag_of_the_group(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=2)
    send(cluster, topic, names("a", 10))
    group = f"{topic}-spark"
    options = {"consumerGroup": group, "commitOffsets": "progress", "startingOffsets": "earliest"}
    run_available(stream(spark, cluster, topic, **options), tmp_path)
    with Admin(cluster.address) as admin:
        assert sum(admin.committed_offsets(group, topic).values()) == 10
        assert admin.group_lag(group, topic).total == 0
        send(cluster, topic, names("b", 4))
        assert admin.group_lag(group, topic).total == 4
        quiet = f"{topic}-quiet"
        run_available(
            stream(spark, cluster, topic, consumerGroup=quiet, startingOffsets="earliest"),
            tmp_path / "quiet",
        )
        assert not any(admin.committed_offsets(quiet, topic).values())


def test_offsets_advance_over_filtered_messages(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, names("a", 40), tags="no")
    send(cluster, topic, names("b", 2), tags="yes")
    send(cluster, topic, names("c", 40), tags="no")
    options = {"tags": "yes", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 25}
    query = run_available(stream(spark, cluster, topic, **options), tmp_path)
    assert bodies(written(spark, tmp_path)) == names("b", 2)
    assert offsets_of(query)[topic] == {"broker-a": {"0": 82}}


@pytest.mark.parametrize("bulk", ["true", "false"])
def test_a_stream_continues_when_its_broker_restarts(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path, bulk: str
) -> None:
    with LocalCluster() as own:
        topic = new_topic(own, queues=2)
        query = start(
            stream(spark, own, topic, startingOffsets="earliest", bulkRead=bulk), tmp_path
        )
        try:
            send(own, topic, names("before", 20))
            until(query, 20)
            own.stop_broker("broker-a")
            own.start_broker("broker-a")
            send(own, topic, names("later", 20))
            until(query, 40)
        finally:
            query.stop()
    assert bodies(written(spark, tmp_path)) == names("before", 20) + names("later", 20)
