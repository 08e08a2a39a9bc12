"""Unreadable bodies: an error with message and remedy, or the row unchanged."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from orbitmq._native import NewMessage
from orbitmq.errors import MalformedBody
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.range_reader import MOST_DAMAGES_TOLD
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic

HOST = ("127.0.0.1", 1)
COMPRESSED = 1


def store(cluster: LocalCluster, topic: str, *messages: tuple[bytes, int]) -> None:
    """Store bodies with given flags. Any producer could send them."""
    for body, flags in messages:
        cluster.brokers["broker-a"].store.append(
            NewMessage(
                topic,
                body,
                queue_id=0,
                sys_flag=flags,
                born_timestamp=1,
                born_host=HOST,
                store_host=HOST,
            )
        )


@pytest.fixture
def poisoned(cluster: LocalCluster, new_topic: NewTopic) -> str:
    topic = new_topic(cluster, queues=1)
    store(cluster, topic, (b"one", 0), (b"not zlib", COMPRESSED), (b"three", 0))
    return topic


def source(cluster: LocalCluster, topic: str, **options: str) -> RocketMQSource:
    return RocketMQSource({"nameServer": cluster.address, "subscribe": topic, **options})


def rows(reader: Any, *offsets: Any) -> list[dict[str, Any]]:
    partitions = reader.partitions(*offsets)
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("bulk_read", ["true", "false"])
def test_an_unreadable_body_is_an_error_with_its_message_and_remedy(
    cluster: LocalCluster, poisoned: str, bulk_read: str
) -> None:
    strict = source(cluster, poisoned, bulkRead=bulk_read)
    where = f"message 1 of queue 0 of topic {poisoned} .* on broker broker-a.*failOnCorruption"
    with pytest.raises(MalformedBody, match=where):
        rows(strict.reader(strict.schema()))
    without = source(cluster, poisoned, bulkRead=bulk_read, columns="queueOffset")
    assert len(rows(without.reader(without.schema()))) == 3, "who wants no bodies reads none"


@pytest.mark.parametrize("bulk_read", ["true", "false"])
def test_a_stream_passes_unreadable_bodies_on_when_lenient(
    cluster: LocalCluster, poisoned: str, bulk_read: str, caplog: pytest.LogCaptureFixture
) -> None:
    lenient = source(
        cluster,
        poisoned,
        bulkRead=bulk_read,
        failOnCorruption="false",
        startingOffsets="earliest",
        maxBytesPerTrigger="1m",
    )
    reader: Any = lenient.streamReader(lenient.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxBytes(1 << 20))
    with caplog.at_level(logging.WARNING):
        read = rows(reader, start, end)
    reader.stop()
    assert [(row["body"], row["sysFlag"]) for row in read] == [
        (b"one", 0),
        (b"not zlib", COMPRESSED),
        (b"three", 0),
    ]
    (told,) = caplog.records
    assert f"message 1 of queue 0 of topic {poisoned}" in told.getMessage()


def test_many_unreadable_bodies_do_not_fill_the_log(
    cluster: LocalCluster, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(cluster, queues=1)
    store(cluster, topic, *[(b"not zlib", COMPRESSED)] * 200)
    lenient = source(cluster, topic, failOnCorruption="false", startingOffsets="earliest")
    reader: Any = lenient.streamReader(lenient.schema())
    start = reader.initialOffset()
    with caplog.at_level(logging.WARNING):
        assert len(rows(reader, start, reader.latestOffset(start, ReadAllAvailable()))) == 200
    reader.stop()
    assert len(caplog.records) == MOST_DAMAGES_TOLD + 1
    assert "200 in all" in caplog.text
