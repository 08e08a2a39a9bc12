"""Exactly once: a repeated batch is stored once, and brokers without the feature are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from orbitmq import Admin
from orbitmq.broker import runtime_info
from orbitmq.protocol.names import SINK_BROKERS
from orbitmq.testing import LocalCluster
from tests.spark.topics import bodies_in, records_in

pytestmark = pytest.mark.counted

NewTopic = Callable[..., str]


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    rows = spark.range(0, count, 1, partitions)
    return rows.select(sf.col("id").cast("string").alias("body"))


def write(rows: DataFrame, cluster: LocalCluster, topic: str, **options: str) -> None:
    options = {"nameServer": cluster.address, "topic": topic, "deduplicate": "true"} | options
    rows.write.format("rocketmq").mode("append").options(**options).save()


def relay(spark: SparkSession, cluster: LocalCluster, topic: str, path: Path, once: bool) -> None:
    """Run a query over all files of a directory, two files per batch."""
    stream = spark.readStream.schema("body string").option("maxFilesPerTrigger", 2)
    query = (
        stream.parquet(str(path / "in"))
        .writeStream.format("rocketmq")
        .options(nameServer=cluster.address, topic=topic, deduplicate=str(once).lower())
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)


def forget_last_commit(path: Path) -> None:
    """Leave a checkpoint like a driver that dies between a batch's last send and its commit."""
    commits = path / "checkpoint" / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("once", [True, False])
def test_a_replayed_batch_is_stored_once(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path, once: bool
) -> None:
    topic = new_topic(cluster)
    numbers(spark, 1000).repartition(6).write.parquet(str(tmp_path / "in"))
    relay(spark, cluster, topic, tmp_path, once)
    for _ in range(2):
        forget_last_commit(tmp_path)
        relay(spark, cluster, topic, tmp_path, once)
    found = bodies_in(cluster, topic)
    assert set(found) == {b"%d" % number for number in range(1000)}
    assert (max(found.values()) == 1) is once, "without deduplicate the last batch is there thrice"


def test_a_batch_older_than_the_newest_is_refused(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster)
    numbers(spark, 100).repartition(6).write.parquet(str(tmp_path / "in"))
    relay(spark, cluster, topic, tmp_path, once=True)
    for _ in range(2):  # a checkpoint restored from a backup: two batches are forgotten
        forget_last_commit(tmp_path)
    offsets = tmp_path / "checkpoint" / "offsets"
    last = max(offsets.glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (offsets / f".{last.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="is over: batch 2 has begun"):
        relay(spark, cluster, topic, tmp_path, once=True)
    assert max(bodies_in(cluster, topic).values()) == 1


def test_a_named_job_stores_its_rows_once_when_run_again(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    rows = numbers(spark, 500)
    for _ in range(2):
        write(rows, cluster, topic, deduplicateId="nightly", deduplicateBatch="1")
    assert bodies_in(cluster, topic) == Counter(b"%d" % number for number in range(500))
    write(rows, cluster, topic, deduplicateId="nightly", deduplicateBatch="2")
    assert set(bodies_in(cluster, topic).values()) == {2}, "the next night is another run"
    write(rows, cluster, topic)
    assert set(bodies_in(cluster, topic).values()) == {3}, "a job without a name is always new"


def test_equal_rows_are_stored_as_separate_messages(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    rows = spark.createDataFrame([("same",)] * 50, "body string").repartition(2)
    for _ in range(2):
        write(rows, cluster, topic, deduplicateId="equal")
    assert bodies_in(cluster, topic) == Counter({b"same": 50})


def test_every_row_carries_its_id_and_its_batch(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    write(numbers(spark, 20), cluster, topic, deduplicateId="named", deduplicateBatch="3")
    records = [record for _, record in records_in(cluster, topic)]
    assert len({record.get_property("UNIQ_KEY") for record in records}) == 20
    (scope,) = {record.get_property("ORBIT_BATCH") for record in records}
    assert scope is not None
    assert scope.endswith("/3")


def test_two_brokers_share_the_rows_and_both_suppress(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(two_brokers)
    rows = numbers(spark, 400, partitions=4).withColumn("shardingKey", sf.col("body"))
    for _ in range(2):
        write(rows, two_brokers, topic, deduplicateId=topic)
        write(rows.drop("shardingKey"), two_brokers, topic, deduplicateId=f"{topic}-any")
    found = records_in(two_brokers, topic)
    assert Counter(record.body for _, record in found) == {b"%d" % n: 2 for n in range(400)}
    assert {name for name, _ in found} == {"broker-a", "broker-b"}


def test_rows_stay_with_their_broker_when_queues_are_added(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(two_brokers)
    rows = numbers(spark, 200).withColumn("shardingKey", sf.col("body"))
    write(rows, two_brokers, topic, deduplicateId=topic)
    with Admin(two_brokers.address) as admin:
        admin.update_topic(topic, queues=11, brokers=["broker-a"])
    write(rows, two_brokers, topic, deduplicateId=topic)
    assert bodies_in(two_brokers, topic) == Counter(b"%d" % number for number in range(200))


def test_rows_for_a_topic_on_one_broker_go_to_that_broker(
    spark: SparkSession, two_brokers: LocalCluster, new_topic: NewTopic
) -> None:
    everywhere, here = new_topic(two_brokers), f"{new_topic(two_brokers)}-here"
    with Admin(two_brokers.address) as admin:
        admin.create_topic(here, queues=2, brokers=["broker-b"])
    rows = numbers(spark, 100, partitions=4)
    chosen = sf.when(sf.col("body") % 2 == 0, sf.lit(here)).otherwise(sf.lit(everywhere))
    named = rows.withColumn("topic", chosen)
    options = {"nameServer": two_brokers.address, "deduplicate": "true", "deduplicateId": here}
    for _ in range(2):
        named.write.format("rocketmq").mode("append").options(**options).save()
    assert bodies_in(two_brokers, here) == Counter(b"%d" % n for n in range(0, 100, 2))
    assert bodies_in(two_brokers, everywhere) == Counter(b"%d" % n for n in range(1, 100, 2))


@pytest.mark.parametrize("by_column", [True, False])
def test_an_unnamed_job_leaves_no_ids_behind(
    spark: SparkSession, new_topic: NewTopic, by_column: bool
) -> None:
    with LocalCluster(settings={"deduplicationMaxIds": "250"}) as cluster:
        topic = new_topic(cluster)
        for _ in range(3):
            rows = numbers(spark, 200)
            if by_column:
                rows = rows.withColumn("topic", sf.lit(topic))
                options = {"nameServer": cluster.address, "deduplicate": "true"}
                rows.write.format("rocketmq").mode("append").options(**options).save()
            else:
                write(rows, cluster, topic)
        assert set(bodies_in(cluster, topic).values()) == {3}
        (broker,) = cluster.brokers.values()
        assert len(broker.deduplication) == 0
        with Admin(cluster.address) as admin:
            assert not admin.key_values(SINK_BROKERS)


def test_deduplicate_id_is_refused_for_streaming_queries(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("string(value) AS body")
    writer = stream.writeStream.format("rocketmq").option("checkpointLocation", str(tmp_path))
    options = {"nameServer": cluster.address, "topic": new_topic(cluster), "deduplicate": "true"}
    with pytest.raises(Exception, match="deduplicateBatch are for batch jobs"):
        writer.options(**options, deduplicateId="x").start().awaitTermination(60)


def test_brokers_without_deduplication_are_refused_with_the_reason(
    spark: SparkSession,
    cluster: LocalCluster,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(cluster)
    monkeypatch.setattr(runtime_info, "FEATURES", ("bulkRead",))
    with pytest.raises(
        AnalysisException, match=r"needs brokers that suppress repeats; broker-a \(.*V4_9_7\) does"
    ):
        write(numbers(spark, 1), cluster, topic)
    assert not records_in(cluster, topic)


def in_parts(spark: SparkSession, partitions: int, count: int = 400) -> DataFrame:
    """Return the same rows in other partitions, as another master divides them."""
    return numbers(spark, count, partitions=partitions)


@pytest.mark.parametrize("others", [1, 4])
@pytest.mark.parametrize("by_column", [False, True])
def test_a_named_job_with_other_partitions_is_refused(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, by_column: bool, others: int
) -> None:
    topic = new_topic(cluster)

    def run(partitions: int) -> None:
        rows = in_parts(spark, partitions)
        if by_column:
            rows = rows.withColumn("topic", sf.lit(topic))
        options = {} if by_column else {"topic": topic}
        options |= {"nameServer": cluster.address, "deduplicate": "true", "deduplicateId": topic}
        rows.write.format("rocketmq").mode("append").options(**options).save()

    once = Counter(b"%d" % number for number in range(400))
    run(2)
    run(2)
    for _ in range(2):
        with pytest.raises(PySparkException, match=r"the run before had 2 partitions .* Run the"):
            run(others)
        assert bodies_in(cluster, topic) == once
    run(2)
    assert bodies_in(cluster, topic) == once


def test_another_batch_and_another_topic_may_have_other_partitions(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic, other = new_topic(cluster), new_topic(cluster)
    for batch, partitions in ((1, 2), (2, 4), (2, 4), (3, 1)):
        rows = in_parts(spark, partitions)
        write(rows, cluster, topic, deduplicateId=topic, deduplicateBatch=str(batch))
    write(in_parts(spark, 4), cluster, other, deduplicateId=topic, deduplicateBatch="3")
    assert set(bodies_in(cluster, topic).values()) == {3}
    assert set(bodies_in(cluster, other).values()) == {1}


def note_of(cluster: LocalCluster, topic: str) -> tuple[str, str]:
    """Return the nameservers' note of the last run of a job, with its key."""
    with Admin(cluster.address) as admin:
        found = admin.key_values(SINK_BROKERS).items()
    ((key, note),) = ((key, note) for key, note in found if key.endswith(f".run@{topic}"))
    return key, note


def test_a_failed_run_is_completed_by_the_next(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    bad = in_parts(spark, 4).withColumn("body", sf.when(sf.col("body") != "399", sf.col("body")))
    with pytest.raises(PySparkException, match="has no body"):
        write(bad, cluster, topic, deduplicateId=topic)
    _, note = note_of(cluster, topic)
    assert note.startswith("0/4/")
    assert not note.endswith("3"), "the last partition has failed"
    write(in_parts(spark, 4), cluster, topic, deduplicateId=topic)
    assert bodies_in(cluster, topic) == Counter(b"%d" % number for number in range(400))
    assert note_of(cluster, topic)[1] == "0/4/0-3"


@pytest.mark.parametrize("others", [1, 2])
def test_other_partitions_are_refused_after_a_failed_run(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, others: int
) -> None:
    topic = new_topic(cluster)
    write(in_parts(spark, 4), cluster, topic, deduplicateId=topic)
    key, _ = note_of(cluster, topic)
    with Admin(cluster.address) as admin:
        admin.put_key_value(SINK_BROKERS, key, "0/4/0-2")  # As if the last one had failed.
    with pytest.raises(PySparkException, match="the run before had 4 partitions"):
        write(in_parts(spark, others), cluster, topic, deduplicateId=topic)
    assert bodies_in(cluster, topic) == Counter(b"%d" % number for number in range(400))
    assert note_of(cluster, topic) == (key, "0/4/0-2"), "the refused run leaves it alone"


def test_a_run_without_a_note_is_repeated_and_noted(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster)
    write(in_parts(spark, 2), cluster, topic, deduplicateId=topic)
    key, _ = note_of(cluster, topic)
    with Admin(cluster.address) as admin:
        admin.delete_key_value(SINK_BROKERS, key)
    write(in_parts(spark, 2), cluster, topic, deduplicateId=topic)
    assert note_of(cluster, topic) == (key, "0/2/0-1")
    assert bodies_in(cluster, topic) == Counter(b"%d" % number for number in range(400))
