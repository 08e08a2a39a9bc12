"""What a stream's planner and its tasks do while those they ask are away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orbitmq import Message, Producer
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import reader, rows_of

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
        assert rows_of(stream, start, end) == 2
        own.start_nameserver(0)
        producer.send(Message(topic, b"after"))
        assert rows_of(stream, end, stream.latestOffset(end, ReadAllAvailable())) == 1
    stream.stop()
