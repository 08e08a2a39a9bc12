"""Implausible routes: the source refuses them and allocates nothing of their size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq._native import Command, dumps_lenient
from orbitmq.errors import NoRoute
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.limits import MAX_QUEUES, MAX_ROUTE_QUEUES
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Handler, respond
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import count_rows, reader, send

BROKERS = MAX_ROUTE_QUEUES // MAX_QUEUES + 1
"""Brokers with the maximum of queues each, one more than a route may have in all."""


def route_body(counts: list[int]) -> bytes:
    names = [f"broker-{number}" for number in range(len(counts))]
    brokers = [
        {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": "127.0.0.1:1"}} for name in names
    ]
    queues = [
        {"brokerName": name, "perm": 6, "readQueueNums": count, "writeQueueNums": 1}
        for name, count in zip(names, counts, strict=True)
    ]
    return dumps_lenient({"brokerDatas": brokers, "queueDatas": queues})


@contextmanager
def answering_routes(cluster: LocalCluster, body: bytes) -> Iterator[None]:
    """Have the nameserver of a cluster answer every route request with this body."""
    (nameserver,) = cluster._cluster.nameservers
    router = nameserver.router
    find = router.find

    def find_lying(code: int) -> Handler:
        if code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return find(code)

        def handle(request: Command, _connection: Connection) -> Answer:
            return respond(request, body=body)

        return handle

    router.find = find_lying  # type: ignore[method-assign]
    try:
        yield
    finally:
        router.find = find  # type: ignore[method-assign]


HUGE = {
    "of one broker": route_body([MAX_QUEUES + 1]),
    "of all brokers": route_body([MAX_QUEUES] * BROKERS),
}
OPTIONS = {"startingOffsets": "earliest", "routeCacheTtlMs": "0", "fetchOffset.numRetries": "0"}


@pytest.mark.parametrize("body", HUGE.values(), ids=HUGE)
def test_a_reader_is_refused_when_its_topic_has_too_many_queues(
    cluster: LocalCluster, new_topic: NewTopic, body: bytes
) -> None:
    topic = new_topic(cluster, queues=1)
    source = RocketMQSource({"nameServer": cluster.address, "subscribe": topic, **OPTIONS})
    stream = reader(cluster, subscribe=topic, **OPTIONS)
    with answering_routes(cluster, body):
        with pytest.raises(NoRoute, match=f"'{topic}'.*[0-9]{{4}}") as refused:
            source.reader(source.schema()).partitions()
        assert refused.value.cause == "refused"
        with pytest.raises(NoRoute, match=f"'{topic}'.*[0-9]{{4}}") as refused:
            stream.initialOffset()
        assert refused.value.cause == "refused"
    stream.stop()


@pytest.mark.parametrize("body", HUGE.values(), ids=HUGE)
def test_a_stream_keeps_its_queues_when_the_next_route_has_too_many(
    cluster: LocalCluster, new_topic: NewTopic, body: bytes
) -> None:
    topic = new_topic(cluster, queues=2)
    stream = reader(cluster, subscribe=topic, **OPTIONS)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ReadAllAvailable())
    send(cluster, topic, ["there"])
    with answering_routes(cluster, body):
        end = stream.latestOffset(first, ReadAllAvailable())
        assert len(end[topic]["broker-a"]) == 2
        assert count_rows(stream, stream.partitions(first, end)) == 1
    stream.stop()
