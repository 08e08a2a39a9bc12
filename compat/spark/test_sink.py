"""Apache RocketMQ, 4.9.7 and 5.4.0, takes what the Spark sink sends, and gives it back.

What only our brokers can do is refused with the reason, before any task starts.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from compat.java_cluster import JavaCluster
from orbitmq import Admin
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.sink.nameserver_tables import NameserverTable
from orbitmq.spark.sink.runs import JobRun, Runs

MESSAGES = 3000


def test_rows_pass_through_a_java_broker_and_back(spark: SparkSession, java: JavaCluster) -> None:
    address, topic = java.nameserver, "sink-orders"
    with Admin(address) as admin:
        admin.create_topic(topic, queues=4)
    rows = spark.range(MESSAGES).select(
        sf.concat(sf.lit("body "), sf.col("id")).cast("binary").alias("body"),
        sf.when(sf.col("id") % 2 == 0, "even").otherwise("odd").alias("tags"),
        sf.array(sf.concat(sf.lit("k"), sf.col("id"))).alias("keys"),
        sf.create_map(sf.lit("number"), sf.col("id").cast("string")).alias("properties"),
        sf.concat(sf.lit("customer-"), sf.col("id") % 5).alias("shardingKey"),
    )
    options = {"nameServer": address, "topic": topic}
    _send(rows, batchBytes="64k", **options)
    _wait_for(address, MESSAGES, topic)

    read = spark.read.format("rocketmq").options(nameServer=address, subscribe=topic).load()
    found = read.select("body", "tags", "keys", "properties", "queueId").collect()
    assert Counter(bytes(row.body) for row in found) == Counter(
        b"body %d" % number for number in range(MESSAGES)
    )
    queues: dict[int, set[int]] = {}
    for row in found:
        number = int(row.properties["number"])
        assert bytes(row.body) == b"body %d" % number
        assert row.tags == ("even" if number % 2 == 0 else "odd")
        assert row["keys"] == [f"k{number}"]
        queues.setdefault(number % 5, set()).add(row.queueId)
    assert all(len(ids) == 1 for ids in queues.values()), "one queue for each sharding key"

    bodies = rows.select("body").limit(1)
    with pytest.raises(AnalysisException, match=r"needs brokers that suppress repeats; .*V[45]_"):
        _send(bodies, deduplicate="true", **options)


def test_delivery_at_a_time_works_or_is_refused_by_release(
    spark: SparkSession, java: JavaCluster
) -> None:
    options = {"nameServer": java.nameserver, "topic": "sink-later"}
    with Admin(java.nameserver) as admin:
        admin.create_topic(options["topic"], queues=1)
    now = sf.current_timestamp()
    rows = spark.range(3).select(sf.lit("late").alias("body"), now.alias("deliverAt"))
    if java.settings.release == "4.9.7":
        with pytest.raises(AnalysisException, match="deliverAt needs brokers that deliver at"):
            _send(rows, **options)
        return
    _send(rows, **options)
    read = spark.read.format("rocketmq").options(
        nameServer=java.nameserver, subscribe=options["topic"], columns="body"
    )
    deadline = time.monotonic() + 60
    while read.load().count() < 3:
        assert time.monotonic() < deadline, "what was to be delivered at once is not there"
        time.sleep(0.2)


def test_rows_for_a_group_without_retries_reach_its_retry_topic(
    spark: SparkSession, java: JavaCluster
) -> None:
    address, group = java.nameserver, "sink-impatient"
    with Admin(address) as admin:
        admin.create_group(group, retry_max_times=0)
        for topic in (f"%RETRY%{group}", f"%DLQ%{group}"):
            admin.create_topic(topic, queues=1)
    rows = spark.createDataFrame(
        [(f"%RETRY%{group}", "again", {"RETRY_TOPIC": "sink-orders"})],
        "topic string, body string, properties map<string, string>",
    )
    _send(rows, nameServer=address, redrive="true")
    assert _wait_for(address, 1, f"%RETRY%{group}", f"%DLQ%{group}") == [1, 0]


def test_a_java_nameserver_stores_the_notes_of_a_named_job(java: JavaCluster) -> None:
    with closing(BlockingNetwork()) as network:
        runs = Runs(NameserverTable(network, [java.nameserver]))
        assert runs.find("job", "t") is None
        for run in (JobRun(1, 4, frozenset({0, 1, 3})), JobRun(2, 2, frozenset({0, 1}))):
            assert runs.note("job", "t", run) == run
            assert runs.find("job", "t") == run


def _wait_for(address: str, messages: int, *topics: str) -> list[int]:
    """Wait until topics have a number of messages together: Java's brokers count them later."""
    deadline = time.monotonic() + 60
    with Admin(address) as admin:
        while True:
            found = [
                sum(ends.max_offset for ends in admin.topic_ends(topic).values())
                for topic in topics
            ]
            if sum(found) >= messages:
                return found
            assert time.monotonic() < deadline, f"{topics} have only {found}"
            time.sleep(0.2)


def _send(rows: DataFrame, **options: str) -> None:
    rows.write.format("rocketmq").mode("append").options(**options).save()
