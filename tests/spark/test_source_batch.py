"""Batch reads: rows, columns, ranges, tasks."""

from __future__ import annotations

import json
import time
from datetime import UTC
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orbitmq import Admin, Message, Producer
from orbitmq._native import NewMessage
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import bodies, frame, send, send_to_queue


def test_every_column_of_a_message_is_read(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    before_ms = int(time.time() * 1000)
    with Producer(cluster.address, group="spark-tests") as producer:
        first = producer.send(
            Message(
                topic,
                "grüße 🚀".encode(),
                tags="红",
                keys=["k1", "k2"],
                properties={"ü": "ß"},
                flag=9,
            )
        )
    # Brokers refuse empty bodies; those stored by other tools are read all the same.
    host = ("127.0.0.1", 1)
    cluster.brokers["broker-a"].store.append(
        NewMessage(topic, b"", queue_id=0, born_timestamp=1, born_host=host, store_host=host)
    )
    full, empty = frame(spark, cluster, topic).orderBy("queueOffset").collect()
    assert full.topic == topic
    assert full.brokerName == "broker-a"
    assert (full.queueId, full.queueOffset) == (0, 0)
    assert full.msgId == first.message_id
    assert full.offsetMsgId == first.offset_id
    assert (full.tags, full["keys"]) == ("红", ["k1", "k2"])
    assert bytes(full.body).decode() == "grüße 🚀"
    assert full.properties["ü"] == "ß"
    assert full.properties["KEYS"] == "k1 k2"
    for moment in (full.bornTimestamp, full.storeTimestamp):
        stamp = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        assert abs(stamp.timestamp() * 1000 - before_ms) < 30_000
    assert full.bornHost.startswith("127.0.0.1:")
    assert (full.flag, full.sysFlag, full.reconsumeTimes) == (9, 0, 0)
    assert (empty.queueOffset, bytes(empty.body), empty.tags, empty["keys"]) == (1, b"", None, [])
    assert empty.physicalOffset > full.physicalOffset


@pytest.mark.parametrize("queues", [1, 3, 64])
def test_all_queues_are_read(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, queues: int
) -> None:
    topic = new_topic(cluster, queues=queues)
    wanted = [f"m{number:03}" for number in range(200)]
    send(cluster, topic, wanted)
    for bulk in ("true", "false"):
        read = frame(spark, cluster, topic, bulkRead=bulk)
        assert bodies(read) == wanted
        assert read.select("queueId").distinct().count() == queues
        assert read.rdd.getNumPartitions() == min(queues, 2), "a task per core, as far as queues go"


def test_topics_without_queues_or_messages_give_no_rows(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    assert frame(spark, cluster, None, subscribePattern="no-such-topic-.*").count() == 0
    assert frame(spark, cluster, new_topic(cluster)).count() == 0


def test_only_chosen_columns_are_read(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, ["a"])
    read = frame(spark, cluster, topic, columns="queueOffset, BODY")
    assert read.columns == ["queueOffset", "body"]
    assert [(row.queueOffset, bytes(row.body)) for row in read.collect()] == [(0, b"a")]
    by_schema = (
        spark.read.format("rocketmq")
        .options(nameServer=cluster.address, subscribe=topic)
        .schema("keys array<string>, topic string, storeTimestamp timestamp")
        .load()
    )
    (row,) = by_schema.collect()
    assert (row["keys"], row.topic) == ([], topic)


def test_large_and_compressed_bodies_are_read(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    large = bytes(range(256)) * (4 << 12)  # 4 MiB, compressed on its way.
    random = b"".join(n.to_bytes(4, "big") for n in range(900_000))
    with Producer(cluster.address, group="p", compress_over_bytes=1 << 30) as producer:
        producer.send(Message(topic, random))
        producer.send(Message(topic, large[: (4 << 20) - 4096]))
    with Producer(cluster.address, group="p") as producer:
        producer.send(Message(topic, large))
    rows = frame(spark, cluster, topic).orderBy("queueOffset").collect()
    assert [bytes(row.body) for row in rows] == [random, large[: (4 << 20) - 4096], large]
    assert [row.sysFlag & 1 for row in rows] == [0, 0, 1]


def test_offsets_as_json_limit_the_read(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=2)
    for queue in (0, 1):
        send_to_queue(cluster, topic, queue, [f"{queue}-{number}" for number in range(5)])
    starting = json.dumps({topic: {"broker-a": {"0": 3}}})
    ending = json.dumps({topic: {"broker-a": {"0": 4, "1": 2}}})
    read = frame(spark, cluster, topic, startingOffsets=starting, endingOffsets=ending)
    assert bodies(read) == ["0-3", "1-0", "1-1"]
    short = json.dumps({topic: {"0": -2, "1": 4}})
    read = frame(spark, cluster, topic, startingOffsets=short, endingOffsets="latest")
    assert bodies(read) == ["0-0", "0-1", "0-2", "0-3", "0-4", "1-4"]


def test_times_limit_the_read(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    stored = []
    for number in range(4):
        send_to_queue(cluster, topic, 0, [f"{number}-{each}" for each in range(3)])
        stored.append(time.time_ns() // 1_000_000 + 1)
        time.sleep(0.02)  # the times of two groups must differ; there is no event for it
    expected = [f"{number}-{each}" for number in range(4) for each in range(3)]
    read = frame(spark, cluster, topic, startingTimestamp=stored[0], endingTimestamp=stored[2])
    assert bodies(read) == expected[3:9]
    by_queue = json.dumps({topic: {"broker-a": {"0": stored[1]}}})
    assert bodies(frame(spark, cluster, topic, startingOffsetsByTimestamp=by_queue)) == expected[6:]
    assert bodies(frame(spark, cluster, topic, endingOffsetsByTimestamp=by_queue)) == expected[:6]
    late = stored[-1] + 60_000
    nothing = frame(
        spark,
        cluster,
        topic,
        startingTimestamp=late,
        startingOffsetsByTimestampStrategy="latest",
    )
    assert nothing.count() == 0
    with pytest.raises(Exception, match="no message stored at"):
        frame(spark, cluster, topic, startingTimestamp=late).count()


def test_assigned_queues_lists_and_patterns_select_topics(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic, other = new_topic(cluster, queues=3), new_topic(cluster, queues=1)
    for queue in range(3):
        send_to_queue(cluster, topic, queue, [f"q{queue}"])
    send(cluster, other, ["other"])
    for assignment in ({topic: {"broker-a": [0, 2]}}, {topic: [0, 2]}):
        read = frame(spark, cluster, None, assign=json.dumps(assignment))
        assert bodies(read) == ["q0", "q2"]
    assert bodies(frame(spark, cluster, f"{topic},{other}")) == ["other", "q0", "q1", "q2"]
    stem = topic.rpartition("-")[0]
    assert bodies(frame(spark, cluster, None, subscribePattern=stem + r"-\d+")) == [
        *("other", "q0", "q1", "q2"),
    ]
    with pytest.raises(Exception, match="there is no queue 7 of topic"):
        frame(spark, cluster, None, assign=json.dumps({topic: [7]})).count()
    with pytest.raises(Exception, match="topic 'unheard-of' does not exist"):
        frame(spark, cluster, "unheard-of").count()


def test_a_pattern_does_not_match_system_topics(spark: SparkSession, cluster: LocalCluster) -> None:
    with Admin(cluster.address) as admin:
        admin.create_topic("%DLQ%some-group", queues=1)
    send(cluster, "%DLQ%some-group", ["dead"])
    seen = frame(spark, cluster, None, subscribePattern=".*", columns="topic")
    topics = {row.topic for row in seen.distinct().collect()}
    assert not {t for t in topics if "%" in t or t.lower().startswith("rmq_sys_")}
    named = frame(spark, cluster, None, subscribePattern="%DLQ%some.*")
    assert bodies(named) == ["dead"]


def test_tags_filter_messages_by_text_not_by_hash(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    with Producer(cluster.address, group="spark-tests") as producer:
        for number in range(1500):
            tag = {0: "BBBB", 7: "other"}.get(number % 500, "AaAa")  # Two texts with one hash code.
            producer.send(Message(topic, str(number).encode(), tags=tag))
    for bulk in ("true", "false"):
        options: dict[str, Any] = {"bulkRead": bulk}
        read = frame(spark, cluster, topic, tags="BBBB", **options)
        assert [row.queueOffset for row in read.collect()] == [0, 500, 1000]
        both = frame(spark, cluster, topic, tags="BBBB || other", **options)
        assert [row.queueOffset for row in both.collect()] == [0, 7, 500, 507, 1000, 1007]
        assert frame(spark, cluster, topic, tags="nobody", **options).count() == 0
        assert frame(spark, cluster, topic, tags="*", **options).count() == 1500


def test_the_number_of_tasks_follows_the_options(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=2)
    wanted = [f"{number:03}" for number in range(100)]
    send(cluster, topic, wanted)
    for options, tasks in (
        ({"minPartitions": 7}, 7),
        ({"maxRecordsPerPartition": 10}, 10),
        ({"minPartitions": 3, "maxRecordsPerPartition": 25}, 4),
        ({"minPartitions": 1000}, 100),
    ):
        read = frame(spark, cluster, topic, **options)
        assert read.rdd.getNumPartitions() == tasks, options
        assert bodies(read) == wanted


@pytest.mark.parametrize(
    "options",
    [
        {"pullBatchSize": 1, "bulkRead": "false"},
        {"pullBatchSize": 7, "prefetch": 2, "bulkRead": "false"},
        {"prefetch": 1, "pullTimeoutMs": 30_000},
        {"timeoutMs": 30_000, "routeCacheTtlMs": "0", "fetchOffset__retryIntervalMs": 1},
    ],
)
def test_tuning_options_do_not_change_the_rows(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, options: dict[str, Any]
) -> None:
    topic = new_topic(cluster, queues=2)
    wanted = [f"{number:03}" for number in range(90)]
    send(cluster, topic, wanted)
    assert bodies(frame(spark, cluster, topic, **options)) == wanted


def test_sql_filters_messages(spark: SparkSession, new_topic: NewTopic) -> None:
    with LocalCluster(settings={"enablePropertyFilter": "true"}) as own:
        topic = new_topic(own, queues=2)
        with Producer(own.address, group="spark-tests") as producer:
            for number in range(300):
                properties = {"n": str(number), "place": "Zürich" if number % 3 else "Bern"}
                producer.send(Message(topic, f"{number:03}".encode(), properties=properties))
        wanted = frame(spark, own, topic, sql="n BETWEEN 10 AND 290 AND place = 'Zürich'")
        assert bodies(wanted) == [f"{number:03}" for number in range(10, 291) if number % 3]
        assert frame(spark, own, topic, sql="absent IS NOT NULL").count() == 0


def test_queues_of_two_brokers_are_read(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(two_brokers, queues=2)
    wanted = [f"{number:02}" for number in range(40)]
    send(two_brokers, topic, wanted)
    for bulk in ("true", "false"):
        read = frame(spark, two_brokers, topic, bulkRead=bulk)
        assert bodies(read) == wanted
        queues = {(row.brokerName, row.queueId) for row in read.collect()}
        assert queues == {(broker, n) for broker in ("broker-a", "broker-b") for n in (0, 1)}
    with pytest.raises(Exception, match="is on 2 brokers"):
        frame(spark, two_brokers, None, assign=json.dumps({topic: [0]})).count()
    one = frame(spark, two_brokers, None, assign=json.dumps({topic: {"broker-b": [0, 1]}}))
    assert {row.brokerName for row in one.collect()} == {"broker-b"}


def test_options_are_kept_by_views_and_sql(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=1)
    send(cluster, topic, ["x"])
    frame(spark, cluster, topic).createOrReplaceTempView("messages")
    (row,) = spark.sql("SELECT count(*) AS n, max(queueOffset) AS last FROM messages").collect()
    assert (row.n, row["last"]) == (1, 0)
