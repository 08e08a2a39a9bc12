"""Planners and tasks while brokers or nameservers are away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq import Admin, Message, Producer
from orbitmq.errors import ConfigError, ConnectionLost
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.router import Refused
from orbitmq.spark.cluster import Endpoint, SourceCluster
from orbitmq.spark.offsets import LEAST, TASKS
from orbitmq.spark.source.batch_reader import QueuePartition
from orbitmq.spark.source.data_loss import BrokerAway
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.task_plan import LEAST_PER_TASK
from orbitmq.testing import LocalCluster
from tests.spark.broker_process import BrokerProcess
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import count_rows, reader, refusing, send

IMPATIENT = {
    "startingOffsets": "earliest",
    "routeCacheTtlMs": "0",
    "fetchOffset.numRetries": "0",
}
"""Routes are not cached, and a broker that fails once counts as away."""


@pytest.fixture
def own() -> Iterator[LocalCluster]:
    """A cluster for one test, which may stop parts of it."""
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


def test_a_missing_topic_does_not_block_others_of_its_broker(
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


def test_a_batch_continues_when_its_broker_is_back(killable: BrokerProcess) -> None:
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


def test_an_absent_broker_fails_planning_or_is_skipped(
    killable: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = IMPATIENT | {"subscribe": "t", "maxBrokerAbsence": "1s"}
    strict = reader(killable.address, **impatient)
    skipping = reader(killable.address, **impatient, brokerAbsenceStrategy="skip")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ReadAllAvailable())
    planned = strict.partitions(start, end)
    killable.kill()
    with pytest.raises(BrokerAway, match=r"broker is away.* queue 0 of topic 't'"):
        strict.partitions(start, end)
    # Unplanned offsets may be left out, those given to a task may not.
    assert skipping.partitions(start, end) == [QueuePartition([], {})]
    assert "a broker is away. queue 0 of topic 't'" in caplog.text
    for stream in (strict, skipping):
        with pytest.raises(BrokerAway, match="not lost, and a batch that is being read cannot end"):
            count_rows(stream, planned)
        stream.stop()


def test_a_lenient_query_waits_for_an_absent_broker(
    killable: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    lenient = reader(
        killable.address, **IMPATIENT, subscribe="t", maxBrokerAbsence="0s", failOnDataLoss="false"
    )
    start = lenient.initialOffset()
    end = lenient.latestOffset(start, ReadAllAvailable())
    killable.kill()
    with ThreadPoolExecutor() as pool:
        planned = pool.submit(lenient.partitions, start, end)
        while "a broker is away" not in caplog.text:
            assert not planned.done()
            time.sleep(0.05)
        killable.start()
        assert count_rows(lenient, planned.result(60)) == 5
    assert "messages are lost" not in caplog.text
    lenient.stop()


def test_a_batch_read_waits_for_its_broker_but_not_for_a_missing_topic(
    own: LocalCluster, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(own, queues=1)
    send(own, topic, ["message"])
    options = {"nameServer": own.address, "fetchOffset.numRetries": "600"}
    options["fetchOffset.retryIntervalMs"] = "100"

    def planned(topic: str) -> list[InputPartition]:
        source = RocketMQSource(options | {"subscribe": topic})
        return list(source.reader(source.schema()).partitions())

    with pytest.raises(ConfigError, match="topic 'unheard-of' does not exist"):
        planned("unheard-of")
    own.stop_broker("broker-a")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(planned, topic)
        while "retrying up to" not in caplog.text:
            assert not waiting.done()
            time.sleep(0.05)
        own.start_broker("broker-a")
        assert len(waiting.result(60)) == 1


def test_a_batch_read_retries_the_request_for_broker_features(
    own: LocalCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(own, queues=1)
    send(own, topic, ["message"])
    asked: list[str] = []
    endpoint = SourceCluster.endpoint

    def lost_at_first(self: SourceCluster, of_topic: str, broker: str) -> Endpoint:
        asked.append(broker)
        if len(asked) == 1:
            raise ConnectionLost(f"{broker} was closed by its peer")
        return endpoint(self, of_topic, broker)

    monkeypatch.setattr(SourceCluster, "endpoint", lost_at_first)
    options = {"nameServer": own.address, "subscribe": topic, "fetchOffset.retryIntervalMs": "0"}
    source = RocketMQSource(options)
    assert len(source.reader(source.schema()).partitions()) == 1
    assert len(asked) > 1
