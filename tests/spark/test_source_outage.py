"""What planners and tasks do while those they ask are away."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq import Admin, Message, Producer
from orbitmq.errors import ConnectionLost
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.handling import Refused
from orbitmq.spark.batch_reader import QueuePartition
from orbitmq.spark.cluster import Cluster, Endpoint
from orbitmq.spark.data_loss import MessagesLost
from orbitmq.spark.offsets import LEAST, TASKS
from orbitmq.spark.planning import LEAST_PER_TASK
from orbitmq.spark.source import RocketMQSource
from orbitmq.testing import LocalCluster
from tests.spark.broker_process import BrokerProcess
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import count_rows, reader, refusing, send

IMPATIENT = {
    "startingOffsets": "earliest",
    "routeCacheTtlMs": "0",
    "fetchOffset.numRetries": "0",
}
"""Every look is a new one, and whoever does not answer the first time is away."""


@pytest.fixture
def own() -> Iterator[LocalCluster]:
    """A cluster of the test's own, parts of which it may stop."""
    with LocalCluster() as running:
        yield running


def test_a_stream_goes_on_without_nameservers(own: LocalCluster, new_topic: NewTopic) -> None:
    topic = new_topic(own, queues=2)
    stream = reader(own, subscribe=topic, **IMPATIENT)
    with Producer(own.address, group="spark-tests") as producer:
        producer.send(Message(topic, b"before"))
        start = stream.initialOffset()
        own.stop_nameserver(0)
        producer.send(Message(topic, b"without"))
        end = stream.latestOffset(start, ReadAllAvailable())
        assert count_rows(stream, stream.partitions(start, end)) == 2
        own.start_nameserver(0)
        producer.send(Message(topic, b"after"))
        more = stream.latestOffset(end, ReadAllAvailable())
        assert count_rows(stream, stream.partitions(end, more)) == 1
    stream.stop()


def test_a_topic_that_is_gone_does_not_keep_others_of_its_broker(
    own: LocalCluster, new_topic: NewTopic
) -> None:
    gone, there = new_topic(own, queues=1), new_topic(own, queues=1)
    stream = reader(own, subscribe=f"{gone},{there}", failOnDataLoss="false", **IMPATIENT)
    start = stream.initialOffset()
    send(own, there, ["still here"])
    refusal = Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic {gone} not exist")
    with refusing(own, RequestCode.GET_TOPIC_STATS_INFO, gone, refusal):
        end = stream.latestOffset(start, ReadAllAvailable())
    ends = {gone: {"broker-a": {"0": 0}}, there: {"broker-a": {"0": 1}}}
    assert end == {TASKS: stream.tasks, LEAST: LEAST_PER_TASK, **ends}
    stream.stop()


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with five messages of topic `t`."""
    with BrokerProcess(tmp_path / "store") as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("t", queues=1)
        send(broker.address, "t", ["message"] * 5)
        yield broker


def test_a_batch_goes_on_when_its_broker_is_back(killable: BrokerProcess) -> None:
    stream = reader(killable.address, subscribe="t", maxBrokerAbsence="1h", **IMPATIENT)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    planned = stream.partitions(start, end)
    with ThreadPoolExecutor() as pool:
        killable.kill()
        count = pool.submit(count_rows, stream, planned)
        killable.start()
        assert count.result(60) == 5
        killable.kill()
        again = pool.submit(stream.partitions, start, end)
        killable.start()
        assert count_rows(stream, again.result(60)) == 5
    stream.stop()


def test_a_broker_that_does_not_come_back(
    killable: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = IMPATIENT | {"subscribe": "t", "maxBrokerAbsence": "1s"}
    strict = reader(killable.address, **impatient)
    lenient = reader(killable.address, **impatient, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ReadAllAvailable())
    planned = strict.partitions(start, end)
    killable.kill()
    with pytest.raises(MessagesLost, match=r"broker gone.* queue 0 of topic 't'"):
        strict.partitions(start, end)
    # What is not planned yet may be left out, what a task was given may not.
    assert lenient.partitions(start, end) == [QueuePartition([], {})]
    assert "messages are lost (broker gone). queue 0 of topic 't'" in caplog.text
    for stream in (strict, lenient):
        with pytest.raises(MessagesLost, match=r"broker gone.* being read cannot end without"):
            count_rows(stream, planned)
        stream.stop()


def test_a_batch_read_asks_again_what_a_broker_can_do(
    own: LocalCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(own, queues=1)
    send(own, topic, ["message"])
    asked: list[str] = []
    endpoint = Cluster.endpoint

    def lost_at_first(self: Cluster, of_topic: str, broker: str) -> Endpoint:
        asked.append(broker)
        if len(asked) == 1:
            raise ConnectionLost(f"{broker} was closed by its peer")
        return endpoint(self, of_topic, broker)

    monkeypatch.setattr(Cluster, "endpoint", lost_at_first)
    options = {"nameServer": own.address, "subscribe": topic, "fetchOffset.retryIntervalMs": "0"}
    source = RocketMQSource(options)
    assert len(source.reader(source.schema()).partitions()) == 1
    assert len(asked) > 1
