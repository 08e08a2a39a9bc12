"""Start offsets of a stream, the end of a catch-up, and the files it leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq import Admin, Message, Producer
from orbitmq.spark.offsets import LEAST, TASKS
from orbitmq.spark.source.task_plan import LEAST_PER_TASK
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import (
    bodies,
    reader,
    run_available,
    send_to_queue,
    stream,
    written,
)

SECRETS = {"accessKey": "AK-hidden", "secretKey": "SK-hidden", "securityToken": "ST-hidden"}


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> tuple[str, int]:
    """A topic with three early and two late messages in each of two queues; when late began."""
    name = "where-streams-begin"
    with Admin(cluster.address) as admin:
        admin.create_topic(name, queues=2)
    for queue in (0, 1):
        send_to_queue(cluster, name, queue, [f"early-{queue}-{n}" for n in range(3)])
    time.sleep(0.02)  # The times of the two must differ; there is no event for it.
    late_ms = time.time_ns() // 1_000_000
    for queue in (0, 1):
        send_to_queue(cluster, name, queue, [f"late-{queue}-{n}" for n in range(2)])
    return name, late_ms


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (lambda _t, _ms: {}, {"0": 5, "1": 5}),
        (lambda _t, _ms: {"startingOffsets": "earliest"}, {"0": 0, "1": 0}),
        (lambda t, _ms: {"startingOffsets": {t: {"broker-a": {"0": 2}}}}, {"0": 2, "1": 5}),
        (lambda t, _ms: {"startingOffsets": {t: {"0": -1, "1": -2}}}, {"0": 5, "1": 0}),
        (lambda _t, ms: {"startingTimestamp": ms}, {"0": 3, "1": 3}),
        (
            lambda t, ms: {"startingOffsetsByTimestamp": {t: {"broker-a": {"1": ms}}}},
            {"0": 5, "1": 3},
        ),
        (
            lambda _t, ms: {
                "startingTimestamp": ms + 3_600_000,
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {"0": 5, "1": 5},
        ),
        (
            lambda t, ms: {
                "startingTimestamp": ms,
                "startingOffsetsByTimestamp": {t: {"0": 1}},
                "startingOffsets": "earliest",
            },
            {"0": 3, "1": 3},
        ),
    ],
)
def test_a_stream_begins_by_its_start_options(
    cluster: LocalCluster,
    topic: tuple[str, int],
    options: Callable[[str, int], dict[str, Any]],
    begins: dict[str, int],
) -> None:
    given = options(*topic).items()
    texts = {key: json.dumps(v) if isinstance(v, dict) else str(v) for key, v in given}
    first = reader(cluster, subscribe=topic[0], **texts).initialOffset()
    assert first == {topic[0]: {"broker-a": begins}}


def test_a_start_time_after_the_last_message_is_refused(
    cluster: LocalCluster, topic: tuple[str, int]
) -> None:
    late = str(topic[1] + 3_600_000)
    with pytest.raises(Exception, match="no message stored at"):
        reader(cluster, subscribe=topic[0], startingTimestamp=late).initialOffset()


def test_available_now_ends_at_the_offsets_of_its_start(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    name = new_topic(cluster, queues=2)
    send_to_queue(cluster, name, 0, ["before"])
    made = reader(cluster, subscribe=name, startingOffsets="earliest")
    made.prepareForTriggerAvailableNow()
    try:
        for queue in (0, 1):
            send_to_queue(cluster, name, queue, ["while it runs"])
        ends = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    finally:
        made.stop()
    assert ends[name] == {"broker-a": {"0": 1, "1": 0}}


@pytest.mark.parametrize("catches_up", [True, False])
def test_an_assigned_queue_stays_on_its_first_broker(
    two_brokers: LocalCluster, request: pytest.FixtureRequest, catches_up: bool
) -> None:
    name = f"widened-{request.node.callspec.id}"
    with Admin(two_brokers.address) as admin:
        admin.create_topic(name, queues=2, brokers=["broker-a"])
    short = json.dumps({name: [0]})
    options = {"assign": short, "startingOffsets": "earliest", "routeCacheTtlMs": "0"}
    made = reader(two_brokers, **options)
    start = made.initialOffset()
    assert made.latestOffset(start, ReadAllAvailable()) == {name: {"broker-a": {"0": 0}}}
    with Admin(two_brokers.address) as admin:
        admin.create_topic(name, queues=2, brokers=["broker-b"])
    with Producer(two_brokers.address, group="spark-tests") as producer:
        for queue in producer.queues(name):
            producer.send(Message(name, b"one in each"), queue=queue)
    if catches_up:  # It is started again, and continues from its checkpoint.
        made.stop()
        made = reader(two_brokers, **options)
        made.prepareForTriggerAvailableNow()
    end = made.latestOffset(start, ReadAllAvailable())
    assert end == {TASKS: made.tasks, LEAST: LEAST_PER_TASK, name: {"broker-a": {"0": 1}}}
    made.stop()
    with pytest.raises(Exception, match="is on 2 brokers"):
        reader(two_brokers, **options).initialOffset()


def test_assigned_queues_are_read_from_a_time_without_storing_secrets(
    spark: SparkSession, cluster: LocalCluster, topic: tuple[str, int], tmp_path: Path
) -> None:
    assigned = json.dumps({topic[0]: {"broker-a": [1]}})
    options = {"assign": assigned, "startingTimestamp": topic[1], **SECRETS}
    query = run_available(stream(spark, cluster, None, **options), tmp_path)
    assert bodies(written(spark, tmp_path)) == ["late-1-0", "late-1-1"]
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress["sources"][0]["endOffset"])[topic[0]] == {"broker-a": {"1": 5}}
    assert "hidden" not in str(progress)
    assert "hidden" not in query._jsq.explainInternal(True)
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert kept
    assert not any(b"hidden" in content for content in kept)
