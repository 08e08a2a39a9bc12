"""Views of a cluster: their retries, and what the views of a process share."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from orbitmq.errors import BrokerRefused, ConnectionLost
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.spark.cluster import SourceCluster, shared_cluster
from orbitmq.spark.options import ConnectionOptions
from orbitmq.spark.schema import message_schema
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import overhearing, send

CONNECTION = ConnectionOptions(("127.0.0.1:1",), access_key="reader", secret_key="s3cret")


def test_retriable_errors_are_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []
    cluster = SourceCluster(
        CONNECTION, "group", retries=3, retry_interval_ms=250, pause=pauses.append
    )
    tries = 0

    def third_time_lucky() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionLost(f"no answer from {CONNECTION.nameservers[0]} to s3cret")
        return "found"

    with caplog.at_level(logging.WARNING):
        assert cluster.patiently(third_time_lucky) == "found"
    assert pauses == [0.25, 0.25]
    (said,) = caplog.messages
    assert "up to 3 times" in said
    assert "127.0.0.1:1" in said
    assert "s3cret" not in said


def test_final_errors_are_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []
    cluster = SourceCluster(CONNECTION, "group", pause=pauses.append)
    refusal = BrokerRefused(ResponseCode.NO_PERMISSION, "no", address="127.0.0.1:2")

    def refused() -> None:
        raise refusal

    with caplog.at_level(logging.WARNING), pytest.raises(BrokerRefused):
        cluster.patiently(refused)
    assert not pauses
    assert not caplog.messages


def test_the_last_retry_raises_its_error() -> None:
    pauses: list[float] = []
    cluster = SourceCluster(CONNECTION, "group", retries=2, pause=pauses.append)

    def lost() -> None:
        raise ConnectionLost("gone")

    with pytest.raises(ConnectionLost, match="gone"):
        cluster.patiently(lost)
    assert len(pauses) == 2


def test_readers_of_one_connection_keep_their_own_group_and_retries() -> None:
    first = shared_cluster(CONNECTION, "first", 3, 250, 1000)
    second = shared_cluster(CONNECTION, "second", 7, 0, 0)
    queue = MessageQueue("t", "broker-a", 0)
    for view, group, retries in ((first, "first", 3), (second, "second", 7)):
        assert view.pull_fields(queue, 0, 1)["consumerGroup"] == group
        assert view.retries == retries


def test_each_reader_has_its_own_route_cache_time(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    connection = ConnectionOptions((cluster.address,))
    patient = shared_cluster(connection, "patient", 0, 0, 3_600_000)
    hasty = shared_cluster(connection, "hasty", 0, 0, 0)
    asked = 0
    find = cluster._cluster.nameservers[0].router.find

    def counting(code: int) -> Any:
        nonlocal asked
        asked += code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        return find(code)

    cluster._cluster.nameservers[0].router.find = counting  # type: ignore[method-assign]
    try:
        for _ in range(3):
            assert hasty.route(topic) == patient.route(topic)
        assert asked == 3
    finally:
        cluster._cluster.nameservers[0].router.find = find  # type: ignore[method-assign]


@pytest.fixture
def task() -> Any:
    """Return a function that reads a topic in one task without retries."""

    def read(cluster: LocalCluster, topic: str) -> int:
        options = {"nameServer": cluster.address, "subscribe": topic, "timeoutMs": "60000"}
        source, schema = RocketMQSource(options), message_schema()
        planned = source.reader(schema).partitions()
        reader = RocketMQSource(options | {"fetchOffset.numRetries": "0"}).reader(schema)
        batches = (batch for part in planned for batch in reader.read(part))
        return sum(pa.record_batch(batch).num_rows for batch in batches)

    return read


def test_a_task_uses_no_connection_closed_by_its_broker(new_topic: NewTopic, task: Any) -> None:
    with LocalCluster() as own:
        topic = new_topic(own, queues=1)
        send(own, topic, ["message"])
        assert task(own, topic) == 1
        own.stop_broker("broker-a")
        own.start_broker("broker-a")  # On the port it had.
        send(own, topic, ["another"])
        assert task(own, topic) == 2


def test_a_task_uses_no_connection_closed_by_another_reader(
    cluster: LocalCluster, new_topic: NewTopic, task: Any
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, ["message"])
    assert task(cluster, topic) == 1
    shared_cluster(
        ConnectionOptions((cluster.address,), timeout_ms=60_000), "another", 0, 0, 0
    ).close()
    with overhearing(cluster) as heard:
        assert task(cluster, topic) == 1
    assert {code for code, _ in heard} >= {RequestCode.ORBIT_BULK_READ}
