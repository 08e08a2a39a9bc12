"""Topics, queues and brokers that disappear while a stream reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from orbitmq import Admin
from orbitmq.testing import LocalCluster
from tests.spark.broker_process import BrokerProcess
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import (
    bodies,
    run_available,
    send,
    send_to_queue,
    start,
    stream,
    until,
    written,
)
from tests.spark.topics import produce

LIMIT_S = 60.0
STRICT = pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])


@pytest.fixture
def own() -> Iterator[LocalCluster]:
    """Two brokers for one test, which may stop them."""
    with LocalCluster(brokers=2) as running:
        yield running


def fails(query: StreamingQuery) -> str:
    """Wait until a stream has failed; return the reason."""
    deadline = time.monotonic() + LIMIT_S
    while (error := query.exception()) is None:
        assert time.monotonic() < deadline, "the stream goes on"
        time.sleep(0.05)
    return str(error)


def options(strict: bool) -> dict[str, str]:
    return {
        "startingOffsets": "earliest",
        "failOnDataLoss": str(strict).lower(),
        "maxBrokerAbsence": "1s",
        "routeCacheTtlMs": "50",
    }


@STRICT
def test_a_deleted_topic_fails_the_query_or_is_left_out(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, strict: bool
) -> None:
    topic, other = new_topic(cluster, queues=2), new_topic(cluster, queues=1)
    query = start(stream(spark, cluster, f"{topic},{other}", **options(strict)), tmp_path)
    try:
        send_to_queue(cluster, topic, 1, ["first", "second"])
        until(query, 2)
        with Admin(cluster.address) as admin:
            admin.delete_topic(topic)
        if strict:
            assert f"lost (topic deleted). queue 0 of topic '{topic}'" in fails(query)
            return
        send(cluster, other, ["still here"])
        until(query, 3)
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == ["first", "second", "still here"]


@STRICT
def test_removed_queues_fail_the_query_or_are_left_out(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, strict: bool
) -> None:
    topic = new_topic(cluster, queues=2)
    query = start(stream(spark, cluster, topic, **options(strict)), tmp_path)
    try:
        send_to_queue(cluster, topic, 1, ["first"])
        until(query, 1)
        with Admin(cluster.address) as admin:
            admin.update_topic(topic, queues=1, shrink=True)
        if strict:
            reason = f"lost (queue removed). queue 1 of topic '{topic}' on broker broker-a from "
            assert reason + "offset 1 on" in fails(query)
            return
        send_to_queue(cluster, topic, 0, ["second"])
        until(query, 2)
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == ["first", "second"]


@STRICT
def test_an_absent_broker_fails_the_query_or_is_left_out(
    spark: SparkSession, own: LocalCluster, new_topic: NewTopic, tmp_path: Path, strict: bool
) -> None:
    topic = new_topic(own, queues=1)
    query = start(stream(spark, own, topic, **options(strict)), tmp_path)
    try:
        send(own, topic, ["a", "b"])
        until(query, 2)
        own.stop_broker("broker-b")
        if strict:
            reason = fails(query)
            assert f"a broker is away. queue 0 of topic '{topic}' on broker broker-b" in reason
            assert "failOnDataLoss" not in reason
            return
        send(own, topic, ["c", "d"])
        until(query, 4)
        # Nothing that comes back is lost or repeated.
        own.start_broker("broker-b")
        send(own, topic, ["e", "f", "g", "h"])
        until(query, 8)
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == list("abcdefgh")


def test_other_brokers_are_read_while_one_restarts(
    spark: SparkSession, own: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(own, queues=1)
    patient = options(strict=True) | {"maxBrokerAbsence": "1h"}
    query = start(stream(spark, own, topic, **patient), tmp_path)
    try:
        send(own, topic, ["a", "b"])
        until(query, 2)
        own.stop_broker("broker-b")
        send(own, topic, ["c", "d"])
        until(query, 4)
        own.start_broker("broker-b")
        send(own, topic, ["e", "f", "g", "h"])
        until(query, 8)
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == list("abcdefgh")


def test_a_query_can_be_stopped_while_its_batch_waits_for_a_broker(
    spark: SparkSession, own: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(own, queues=1)
    waiting = options(strict=True) | {"brokerAbsenceStrategy": "wait", "maxBrokerAbsence": "0s"}
    for messages in ("ab", "cd"):
        send(own, topic, messages)
        run_available(stream(spark, own, topic, **waiting), tmp_path)
    # As if the driver had died in the last batch: the next start reads it again.
    commits, rows = tmp_path / "checkpoint" / "commits", tmp_path / "rows" / "_spark_metadata"
    last = max(int(each.name) for each in commits.glob("[0-9]*"))
    for log in (commits, rows):
        (log / f"{last}").unlink()
        (log / f".{last}.crc").unlink(missing_ok=True)
    own.stop_broker("broker-b")
    query = start(stream(spark, own, topic, **waiting), tmp_path)
    assert not query.awaitTermination(3), "it waits"
    assert not query.recentProgress
    query.stop()
    assert query.exception() is None
    own.start_broker("broker-b")
    run_available(stream(spark, own, topic, **waiting), tmp_path)
    assert bodies(written(spark, tmp_path)) == list("abcd")


def test_a_run_to_a_fixed_end_waits_for_restarting_brokers(
    spark: SparkSession, own: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(own, queues=1)
    patient = options(strict=True) | {"maxBrokerAbsence": "1h"}
    run_available(stream(spark, own, topic, **patient), tmp_path)
    send(own, topic, ["a", "b"])
    for broker in ("broker-a", "broker-b"):
        own.stop_broker(broker)
    query = start(stream(spark, own, topic, **patient), tmp_path, availableNow=True)
    assert not query.awaitTermination(3), "it waits"
    for broker in ("broker-a", "broker-b"):
        own.start_broker(broker)
    assert query.awaitTermination(60)
    assert bodies(written(spark, tmp_path)) == ["a", "b"]


def test_a_stream_continues_after_its_broker_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store") as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("killed", queues=3)
        source = stream(spark, broker.address, "killed", startingOffsets="earliest")
        query = start(source, tmp_path)
        try:
            for life in range(3):
                produce(broker.address, "killed", (b"%d-%d" % (life, n) for n in range(50)))
                until(query, (life + 1) * 50)
                broker.kill()
                broker.start()
        finally:
            query.stop()
    expected = sorted(f"{life}-{number}" for life in range(3) for number in range(50))
    assert bodies(written(spark, tmp_path)) == expected
