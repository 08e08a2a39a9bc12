"""Requests of a task to brokers: several offset ranges at once, on one connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.features import BULK_READ
from orbitmq.remoting.pipeline import Pipeline
from orbitmq.remoting.router import Refused
from orbitmq.spark.cluster import FEATURES_TTL_S, SourceCluster
from orbitmq.spark.offsets import QueueRange
from orbitmq.spark.options import ConnectionOptions
from orbitmq.spark.source.data_loss import DataLoss
from orbitmq.spark.source.range_reader import (
    BULK_PREFETCH,
    PULL_PREFETCH,
    PullSettings,
    RangeReader,
)
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import overhearing, refusing
from tests.spark.topics import produce

MESSAGES = 5000
ROUND_TRIPS = MESSAGES / 32
"""Round trips of a reader that requests the next 32 messages after the last answer."""


class Watched(Pipeline):
    """A connection that records the number of requests in flight at each wait."""

    def __init__(self, address: str, **settings: Any) -> None:
        super().__init__(address, **settings)
        self.under_way: list[int] = []

    def receive(self, opaque: int) -> Any:
        if opaque in self.waiting:
            self.under_way.append(len(self.waiting))
        return super().receive(opaque)


class WatchedCluster(SourceCluster):
    """A cluster whose connections are recorded."""

    __slots__ = ("made",)

    def new_pipeline(self, address: str) -> Pipeline:
        link = Watched(address)
        self.made: list[Watched] = [*getattr(self, "made", ()), link]
        return link


@pytest.fixture
def reader(cluster: LocalCluster) -> Iterator[WatchedCluster]:
    made = WatchedCluster(ConnectionOptions((cluster.address,)), "pulling")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("bulk_read", "prefetch", "most"),
    [
        (False, None, PULL_PREFETCH),
        (False, 4, 4),
        (True, None, BULK_PREFETCH),
        (True, 2, 2),
    ],
)
def test_a_task_pipelines_its_requests(
    cluster: LocalCluster,
    reader: WatchedCluster,
    new_topic: NewTopic,
    bulk_read: bool,
    prefetch: int | None,
    most: int,
) -> None:
    topic = new_topic(cluster, queues=1)
    # Large enough for several bulk answers.
    produce(cluster, topic, (b"%06d" % number * 150 for number in range(MESSAGES)))
    settings = PullSettings(("body", "queueOffset"), prefetch=prefetch, bulk_read=bulk_read)
    losses = DataLoss(fail=True, retries=0, retry_interval_ms=0)
    endpoints = {"broker-a": reader.endpoint(topic, "broker-a")}
    wanted = [QueueRange(MessageQueue(topic, "broker-a", 0), 0, MESSAGES)]
    for _ in range(2):  # A task, and the next one of the same worker.
        task = RangeReader(reader, settings, endpoints, losses)
        read = pa.Table.from_batches([pa.record_batch(batch) for batch in task.read(wanted)])
        assert read.column("queueOffset").to_pylist() == list(range(MESSAGES))
    (link,) = reader.made
    assert max(link.under_way) == most
    waits = len(link.under_way) / 2
    assert waits < ROUND_TRIPS / 2, f"waited {waits} times for {ROUND_TRIPS} pulls"


def test_a_task_falls_back_when_a_broker_loses_a_feature(
    cluster: LocalCluster, reader: WatchedCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    produce(cluster, topic, (b"%d" % number for number in range(100)))
    endpoints = {"broker-a": reader.endpoint(topic, "broker-a")}
    assert BULK_READ in endpoints["broker-a"].features
    losses = DataLoss(fail=True, retries=1, retry_interval_ms=0)
    wanted = [QueueRange(MessageQueue(topic, "broker-a", 0), 0, 100)]
    unheard_of = Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type not supported")
    not_told = Refused(ResponseCode.SYSTEM_ERROR, "ask later")
    with (
        refusing(cluster, RequestCode.ORBIT_BULK_READ, topic, unheard_of) as refused,
        refusing(cluster, RequestCode.GET_BROKER_RUNTIME_INFO, "", not_told),
    ):
        for _ in range(2):  # Also when Spark has planned the next batch with the old features.
            task = RangeReader(reader, PullSettings(("queueOffset",)), endpoints, losses)
            assert sum(pa.record_batch(batch).num_rows for batch in task.read(wanted)) == 100
    assert refused[topic]
    # An answer without features does not replace the known ones.
    assert reader.endpoint(topic, "broker-a") == endpoints["broker-a"]


def test_the_features_of_a_broker_are_requested_again_after_a_while(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic, now = new_topic(cluster, queues=1), 1000.0
    view = SourceCluster(ConnectionOptions((cluster.address,)), "pulling", clock=lambda: now)
    with overhearing(cluster) as heard:
        for _ in range(10):
            view.endpoint(topic, "broker-a")
            now += FEATURES_TTL_S / 4
    assert [code for code, _ in heard] == [RequestCode.GET_BROKER_RUNTIME_INFO] * 3
    view.close()
