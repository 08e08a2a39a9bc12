"""Requests of an idle stream to a broker: very few."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import bodies, overhearing, send, start, stream, until, written

SILENCE_S = 3
HEARTBEATS = {RequestCode.HEART_BEAT, RequestCode.GET_CONSUMER_LIST_BY_GROUP}


def questions_in_silence(cluster: LocalCluster) -> list[int]:
    """Return the codes of the requests to the broker while no messages are sent."""
    time.sleep(0.5)  # Let the first requests pass.
    with overhearing(cluster) as heard:
        time.sleep(SILENCE_S)
    return [code for code, _ in heard if code not in HEARTBEATS]


def test_an_idle_stream_sends_few_requests_and_wakes_up_at_once(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=64)
    query = start(stream(spark, cluster, topic), tmp_path)
    try:
        query.processAllAvailable()
        asked = questions_in_silence(cluster)
        assert len(asked) <= 2 * SILENCE_S, asked
        sent = time.monotonic()
        send(cluster, topic, ["wake"])
        until(query, 1)
        assert time.monotonic() - sent < 15
    finally:
        query.stop()


def test_a_stream_waiting_for_more_offsets_sends_few_requests(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=2)
    source = stream(spark, cluster, topic, minOffsetsPerTrigger=3, maxTriggerDelay="1h")
    query = start(source, tmp_path)
    try:
        query.processAllAvailable()
        send(cluster, topic, ["a", "b"])
        asked = questions_in_silence(cluster)
        assert len(asked) <= 2 * SILENCE_S, asked
        send(cluster, topic, ["c"])
        until(query, 3)
    finally:
        query.stop()
    assert bodies(written(spark, tmp_path)) == ["a", "b", "c"]
