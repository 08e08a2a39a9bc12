"""The sink: messages made of rows, column by column and option by option."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from orbitmq import Admin
from orbitmq.broker import runtime_info
from orbitmq.client.producer.selection import by_hash
from orbitmq.testing import LocalCluster
from tests.spark.topics import bodies_in, records_in, wait_for_records

NewTopic = Callable[..., str]


def write(rows: DataFrame, cluster: LocalCluster, **options: str) -> None:
    options = {"nameServer": cluster.address} | options
    rows.write.format("rocketmq").mode("append").options(**options).save()


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(sf.col("id").cast("string").alias("body"))


def test_every_column_becomes_its_message_field(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    rows = spark.createDataFrame(
        [
            (bytearray(b"\x00\xff"), "created", ["k1", "k2"], {"shop": "7", "WAIT": "false"}),
            (bytearray("Grüße 𝄞".encode()), None, None, None),
        ],
        "body binary, tags string, keys array<string>, properties map<string, string>",
    )
    write(rows, cluster, topic=topic)
    found = {record.body: record for _, record in records_in(cluster, topic)}
    assert set(found) == {b"\x00\xff", "Grüße 𝄞".encode()}
    first, second = found[b"\x00\xff"], found["Grüße 𝄞".encode()]
    assert (first.tags, first.keys) == ("created", ("k1", "k2"))
    assert first.get_property("shop") == "7"
    assert (second.tags, second.keys) == (None, ())
    ids = [record.get_property("UNIQ_KEY") for record in found.values()]
    assert len(set(ids)) == 2
    assert all(one is not None and len(one) == 32 for one in ids)


def test_text_bodies_and_space_separated_keys_are_accepted(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    rows = spark.createDataFrame([("héllo", " a  b ")], "body string, keys string")
    write(rows, cluster, topic=topic)
    ((_, record),) = records_in(cluster, topic)
    assert (record.body, record.keys) == ("héllo".encode(), ("a", "b"))


@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_all_rows_arrive_once(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, count: int
) -> None:
    topic = new_topic(cluster, queues=3)
    write(numbers(spark, count), cluster, topic=topic, batchBytes="8k")
    assert bodies_in(cluster, topic) == Counter(b"%d" % number for number in range(count))
    if count == 20_000:
        queues = Counter(record.queue_id for _, record in records_in(cluster, topic))
        assert len(queues) == 3, "spread over all queues"


def test_bodies_up_to_the_size_limit_are_sent(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    sizes = [1, 1000, 1 << 20, 4 << 20]
    rows = spark.createDataFrame([(bytearray(b"x" * size),) for size in sizes], "body binary")
    write(rows, cluster, topic=topic)
    assert sorted(len(record.body) for _, record in records_in(cluster, topic)) == sizes
    larger = spark.createDataFrame([(bytearray((4 << 20) + 1),)], "body binary")
    with pytest.raises(PySparkException, match="the body has 4194305 bytes, the limit is 4194304"):
        write(larger, cluster, topic=topic)


def test_the_topic_comes_from_the_option_or_the_column(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    first, second, third = (new_topic(cluster) for _ in range(3))
    rows = spark.createDataFrame(
        [("1", first), ("2", second), ("3", first)], "body string, topic string"
    )
    write(rows, cluster)
    assert bodies_in(cluster, first) == Counter([b"1", b"3"])
    assert bodies_in(cluster, second) == Counter([b"2"])
    write(rows, cluster, topic=third)
    assert bodies_in(cluster, third) == Counter([b"1", b"2", b"3"])


def test_rows_of_a_sharding_key_keep_their_order_in_one_queue(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(two_brokers, queues=3)
    rows = spark.range(0, 3000, 1, 1).select(
        sf.col("id").cast("string").alias("body"),
        sf.concat(sf.lit("customer-"), sf.col("id") % 7).alias("shardingKey"),
    )
    write(rows, two_brokers, topic=topic, batchBytes="2k")
    with Admin(two_brokers.address) as admin:
        queues = admin.topic_route(topic).publish_queues
    seen: dict[int, list[int]] = defaultdict(list)
    for broker, record in records_in(two_brokers, topic):
        number = int(record.body)
        queue = by_hash(queues, f"customer-{number % 7}")
        assert (broker, record.queue_id) == (queue.broker_name, queue.queue_id)
        seen[number % 7].append(number)
    assert {key: len(found) for key, found in seen.items()} == {
        key: len(range(key, 3000, 7)) for key in range(7)
    }
    assert all(found == sorted(found) for found in seen.values())


def test_rows_can_name_their_queue_and_their_broker(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(two_brokers, queues=2)
    rows = spark.createDataFrame(
        [("1", 1, "broker-a"), ("2", 0, "broker-b"), ("3", None, "broker-b")],
        "body string, queueId int, brokerName string",
    )
    write(rows, two_brokers, topic=topic)
    found = {
        record.body: (name, record.queue_id) for name, record in records_in(two_brokers, topic)
    }
    assert found[b"1"] == ("broker-a", 1)
    assert found[b"2"] == ("broker-b", 0)
    assert found[b"3"][0] == "broker-b"
    with pytest.raises(PySparkException, match=r"has no queue 9 on broker-[ab], only 0 to 1"):
        write(rows.withColumn("queueId", sf.lit(9)), two_brokers, topic=topic)
    with pytest.raises(PySparkException, match="add the column brokerName"):
        write(rows.drop("brokerName").filter("queueId = 0"), two_brokers, topic=topic)


def test_two_brokers_share_the_rows(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(two_brokers, queues=2)
    write(numbers(spark, 5000), two_brokers, topic=topic, batchBytes="4k")
    found = records_in(two_brokers, topic)
    assert Counter(record.body for _, record in found) == Counter(b"%d" % n for n in range(5000))
    assert {name for name, _ in found} == {"broker-a", "broker-b"}


def test_a_delayed_row_comes_after_the_time_of_its_level(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    rows = spark.createDataFrame([("later", 1), ("now", None)], "body string, delayLevel int")
    write(rows, cluster, topic=topic)
    wait_for_records(cluster, topic, 2)
    found = {record.body: record for _, record in records_in(cluster, topic)}
    waited_ms = found[b"later"].store_timestamp - found[b"now"].store_timestamp
    assert waited_ms >= 900


@pytest.mark.parametrize("once", ["false", "true"])
def test_a_row_is_delivered_at_its_time(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, once: str
) -> None:
    topic = new_topic(cluster)
    moment = datetime.now(UTC) + timedelta(seconds=3)
    rows = spark.createDataFrame([("at", moment)], "body string, deliverAt timestamp")
    write(rows, cluster, topic=topic, deduplicate=once)
    wait_for_records(cluster, topic, 1)
    ((_, record),) = records_in(cluster, topic)
    assert record.body == b"at"
    assert record.store_timestamp >= int(moment.timestamp() * 1000) - 50


def test_deliver_at_is_refused_when_brokers_do_not_support_it(
    spark: SparkSession,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(cluster)
    moment = datetime.now(UTC) + timedelta(seconds=1)
    rows = spark.createDataFrame([("later", moment)], "body string, deliverAt timestamp")
    monkeypatch.setattr(runtime_info, "FEATURES", ())
    with pytest.raises(AnalysisException, match="deliverAt needs brokers that deliver at a time"):
        write(rows, cluster, topic=topic)


def test_a_stream_writes_batch_by_batch(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster)
    numbers(spark, 3000).repartition(6).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("body string").option("maxFilesPerTrigger", 2)
    query = (
        stream.parquet(str(tmp_path / "in"))
        .writeStream.format("rocketmq")
        .options(nameServer=cluster.address, topic=topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 3
    assert bodies_in(cluster, topic) == Counter(b"%d" % number for number in range(3000))


@pytest.mark.parametrize("once", ["false", "true"])
def test_small_batches_of_a_stream_are_spread_over_all_queues(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, once: str
) -> None:
    topic = new_topic(cluster, queues=8)
    for _ in range(5):
        numbers(spark, 100).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    query = (
        spark.readStream.schema("body string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
        .writeStream.format("rocketmq")
        .options(nameServer=cluster.address, topic=topic, deduplicate=once)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    counts = Counter(record.queue_id for _, record in records_in(cluster, topic))
    assert sum(counts.values()) == 500
    assert {60 <= counts[queue_id] <= 65 for queue_id in range(8)} == {True}, counts


def test_rows_of_a_small_job_are_spread_over_all_queues(
    spark: SparkSession, cluster: LocalCluster, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    for brokers in (cluster, two_brokers):
        topic = new_topic(brokers, queues=4)
        write(numbers(spark, 802).coalesce(1), brokers, topic=topic)
        queues = Counter((name, record.queue_id) for name, record in records_in(brokers, topic))
        assert len(queues) == 4 * len(brokers.brokers)
        assert max(queues.values()) - min(queues.values()) <= 1, queues


def test_a_complete_mode_result_is_sent_in_every_batch(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster)
    numbers(spark, 10).repartition(1).write.parquet(str(tmp_path / "in"))
    counted = spark.readStream.schema("body string").parquet(str(tmp_path / "in")).groupBy().count()
    query = (
        counted.select(sf.col("count").cast("string").alias("body"))
        .writeStream.format("rocketmq")
        .outputMode("complete")
        .options(nameServer=cluster.address, topic=topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert bodies_in(cluster, topic) == Counter([b"10"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no topic to send to: set the option 'topic' or add a column 'topic'"),
        ({"topic": "a b"}, "option topic: 'a b' is not a topic's name"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "is the broker's own"),
        ({"topic": "t", "topics": "u"}, "has no option 'topics'; did you mean topic"),
        ({"topic": "t", "maxInFlight": "many"}, "option maxInFlight is a whole number"),
        ({"topic": "t", "maxInFlight": "65"}, "option maxInFlight is at most 64"),
        ({"topic": "t", "batchBytes": "5m"}, "may not exceed maxMessageBytes"),
        ({"topic": "t", "maxMessageBytes": "16m"}, "option maxMessageBytes is at most"),
        ({"topic": "t", "deduplicate": "yes"}, "option deduplicate is true or false"),
        ({"topic": "t", "deduplicateId": "x"}, "mean nothing without deduplicate=true"),
        ({"topic": "t", "deduplicate": "true", "deduplicateBatch": "1"}, "name it with dedupl"),
        ({"topic": "t", "producerGroup": "a b"}, "option producerGroup: 'a b' is not a name"),
        ({"topic": "t", "accessKey": "SESAME"}, "accessKey and secretKey"),
        ({"topic": "t", "nameServer": "127.0.0.1:1"}, "no nameserver can be reached"),
    ],
)
def test_wrong_options_are_refused_before_any_task(
    spark: SparkSession, cluster: LocalCluster, options: dict[str, str], words: str
) -> None:
    with pytest.raises(AnalysisException, match=words) as refused:
        write(numbers(spark, 1), cluster, **options)
    assert "SESAME" not in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("id as body", "column 'body' must be binary or string, not bigint"),
        ("'x' as tag", "column 'tag' is none that the rocketmq sink knows"),
        ("'x' as tags", "needs a column 'body'"),
        ("'x' as body, 'k' as queueId", "column 'queueId' must be an integer, not string"),
        ("'x' as body, map('a', 1) as properties", "must be map<string, string>"),
    ],
)
def test_columns_that_cannot_be_sent_are_refused_before_any_task(
    spark: SparkSession, cluster: LocalCluster, columns: str, words: str
) -> None:
    rows = spark.range(1).selectExpr(*columns.split(", ", 1))
    with pytest.raises(AnalysisException, match=words):
        write(rows, cluster, topic="t")


def test_a_row_that_cannot_be_sent_fails_its_task(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    rows = spark.createDataFrame([("fine",), ("",)], "body string").coalesce(1)
    with pytest.raises(PySparkException, match="row 1 has no body: filter such rows out"):
        write(rows, cluster, topic=new_topic(cluster))


def test_a_topic_cannot_be_overwritten(spark: SparkSession, cluster: LocalCluster) -> None:
    writer = numbers(spark, 1).write.format("rocketmq").mode("overwrite")
    with pytest.raises(AnalysisException, match="cannot be overwritten"):
        writer.options(nameServer=cluster.address, topic="t").save()


def test_a_missing_topic_is_an_error_before_any_task(spark: SparkSession) -> None:
    with (
        LocalCluster(settings={"autoCreateTopicEnable": "false"}) as strict,
        pytest.raises(AnalysisException, match="nosuch"),
    ):
        write(numbers(spark, 1), strict, topic="nosuch")
