"""Filters pushed down by Spark: the same rows are found with less reading."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from orbitmq._native import NewMessage
from orbitmq.spark.pipelines.failures import one_line
from orbitmq.spark.source.batch_reader import QueuePartition
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.pushdown import PushdownReader
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import bodies, frame, send_to_queue

EACH = 6
"""Messages in each of the four queues."""


def filled(cluster: LocalCluster, new_topic: NewTopic) -> str:
    topic = new_topic(cluster, queues=4)
    for queue in range(4):
        texts = [f"{queue}-{n}" for n in range(EACH)]
        send_to_queue(cluster, topic, queue, texts, tags=f"t{queue}")
    return topic


def pushing(cluster: LocalCluster, topic: str) -> PushdownReader:
    options = {"nameServer": cluster.address, "subscribe": topic, "pushFilters": "true"}
    source = RocketMQSource(options)
    reader = source.reader(source.schema())
    assert isinstance(reader, PushdownReader)
    return reader


def ranges(reader: PushdownReader) -> dict[int, tuple[int, int]]:
    """Return the ranges that the tasks would read, by queue."""
    found: dict[int, tuple[int, int]] = {}
    for partition in reader.partitions():
        assert isinstance(partition, QueuePartition)
        found |= {each.queue.queue_id: (each.start, each.end) for each in partition.ranges}
    return found


def test_pushed_filters_find_the_same_rows(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = filled(cluster, new_topic)
    read = frame(spark, cluster, topic, pushFilters="true")
    plain = frame(spark, cluster, topic).cache()
    middle = plain.agg(F.max("storeTimestamp")).first()
    assert middle is not None
    for condition in (
        F.col("queueId") == 2,
        F.col("queueId").isin(1, 3) & (F.col("queueOffset") >= 4),
        (F.col("queueOffset") > 1) & (F.col("queueOffset") <= 3) & (F.col("topic") == topic),
        F.col("tags") == "t1",
        F.col("tags").isin("t0", "t3") & (F.col("brokerName") == "broker-a"),
        F.col("storeTimestamp") >= F.lit(middle[0]),
        F.col("storeTimestamp") < F.lit(datetime(2001, 1, 1)),  # noqa: DTZ001
        (F.col("tags") == "t1") & F.col("reconsumeTimes").isNotNull(),
        F.col("brokerName") == "elsewhere",
        F.col("queueOffset").eqNullSafe(3),
        F.col("queueOffset").eqNullSafe(F.lit(None)),
    ):
        assert bodies(read.where(condition)) == bodies(plain.where(condition)), str(condition)


@pytest.mark.parametrize("name", ["rocketmq", "rocketmq-store"])
def test_a_missing_spark_setting_for_filters_is_named_in_one_line(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, store: Path, name: str
) -> None:
    options = {"pushFilters": "true", "path": str(store)}
    if name == "rocketmq":
        options = {"pushFilters": "true", **source_options(cluster, new_topic(cluster))}
    switch = "spark.sql.python.filterPushdown.enabled"
    rows = spark.read.format(name).options(**options).load()
    spark.conf.set(switch, "false")
    try:
        with pytest.raises(AnalysisException) as refused:
            rows.count()
    finally:
        spark.conf.set(switch, "true")
    told = f"option pushFilters needs the setting {switch}=true of the Spark session"
    assert one_line(refused.value) == told
    text = str(refused.value)
    assert "Traceback" not in text
    assert told in text.splitlines()[0]
    assert spark.read.format(name).options(**options).load().count() >= 0


def source_options(cluster: LocalCluster, topic: str) -> dict[str, str]:
    return {"nameServer": cluster.address, "subscribe": topic}


def test_pushed_filters_narrow_the_offset_ranges(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = filled(cluster, new_topic)
    everything = dict.fromkeys(range(4), (0, EACH))
    cases: list[tuple[list[Filter], dict[int, tuple[int, int]]]] = [
        ([], everything),
        ([EqualTo(("queueId",), 2)], {2: (0, EACH)}),
        ([In(("queueId",), (1, 3)), GreaterThan(("queueOffset",), 3)], {1: (4, 6), 3: (4, 6)}),
        (
            [GreaterThanOrEqual(("queueOffset",), 2), LessThan(("queueOffset",), 4)],
            dict.fromkeys(range(4), (2, 4)),
        ),
        ([LessThanOrEqual(("queueOffset",), 0)], dict.fromkeys(range(4), (0, 1))),
        ([EqualNullSafe(("queueOffset",), 2)], dict.fromkeys(range(4), (2, 3))),
        ([LessThan(("queueOffset",), 2), GreaterThan(("queueOffset",), 2)], {}),
        ([EqualTo(("topic",), topic)], everything),
        ([EqualTo(("topic",), "another")], {}),
        ([EqualTo(("brokerName",), "elsewhere")], {}),
    ]
    for filters, wanted in cases:
        reader = pushing(cluster, topic)
        assert list(reader.pushFilters(filters)) == [], "Spark need not look again"
        assert ranges(reader) == wanted, filters


def test_filters_that_narrow_no_range_are_left_to_spark(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = filled(cluster, new_topic)
    left: list[Filter] = [EqualNullSafe(("queueOffset",), None), In(("queueOffset",), (1, 2))]
    reader = pushing(cluster, topic)
    assert list(reader.pushFilters(left)) == left
    assert ranges(reader) == dict.fromkeys(range(4), (0, EACH))


def test_pushed_times_narrow_the_offset_ranges(cluster: LocalCluster, new_topic: NewTopic) -> None:
    topic = filled(cluster, new_topic)
    an_hour = timedelta(hours=1)
    now = datetime.now(UTC)
    cases: list[tuple[Filter, int]] = [
        (GreaterThanOrEqual(("storeTimestamp",), now + an_hour), 0),
        (GreaterThanOrEqual(("storeTimestamp",), now - an_hour), 4),
        (LessThan(("storeTimestamp",), now - an_hour), 0),
        (LessThan(("storeTimestamp",), now + an_hour), 4),
    ]
    for wanted, queues in cases:
        reader = pushing(cluster, topic)
        assert list(reader.pushFilters([wanted])) == [wanted]
        assert len(ranges(reader)) == queues, wanted


def test_no_row_is_lost_to_a_clock_that_was_set_back(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    began_ms, host = 1_700_000_000_000, ("127.0.0.1", 1)
    times = [*range(100), *range(-30_000, -29_900), *range(1000, 1100), *range(200_000, 200_100)]
    message = NewMessage(topic, b"x", queue_id=0, born_timestamp=1, born_host=host, store_host=host)
    for each in times:
        cluster.brokers["broker-a"].store.append(message, now_ms=began_ms + each)

    def moment(after_ms: int) -> datetime:
        return datetime.fromtimestamp((began_ms + after_ms) / 1000, UTC)

    cases: list[tuple[Filter, Callable[[datetime], bool]]] = [
        (LessThan(("storeTimestamp",), moment(0)), lambda at: at < moment(0)),
        (GreaterThanOrEqual(("storeTimestamp",), moment(50)), lambda at: at >= moment(50)),
        (EqualTo(("storeTimestamp",), moment(99)), lambda at: at == moment(99)),
    ]
    for wanted, is_wanted in cases:
        reader = pushing(cluster, topic)
        assert list(reader.pushFilters([wanted])) == [wanted]
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        found = [at for batch in batches for at in batch.column("storeTimestamp").to_pylist()]
        assert sum(map(is_wanted, found)) == sum(is_wanted(moment(each)) for each in times), wanted
    assert len(found) < len(times), "the time that was looked up last has saved something"


def test_tags_are_filtered_by_brokers_and_the_rest_by_spark(
    cluster: LocalCluster, new_topic: NewTopic
) -> None:
    reader = pushing(cluster, filled(cluster, new_topic))
    rest: list[Filter] = [
        EqualTo(("reconsumeTimes",), 0),
        EqualTo(("properties", "place"), "Bern"),
        GreaterThan(("tags",), "t0"),
        EqualTo(("tags",), "a || b"),
    ]
    assert list(reader.pushFilters([In(("tags",), ("t3", "t1")), *rest])) == rest
    assert reader.filter.tags == "t1 || t3"
    read = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert sum(batch.num_rows for batch in read) == 2 * EACH
