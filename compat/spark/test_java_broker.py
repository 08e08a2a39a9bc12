"""Apache RocketMQ 4.9.7 behind the connector: it takes what the sink sends, and gives it back.

What only our brokers can do is refused with the reason, before any task starts.
"""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from compat.java_cluster import JavaCluster
from orbitmq import Admin

MESSAGES = 3000


@pytest.mark.timeout(240)
def test_rows_through_a_java_broker_and_back(
    spark: SparkSession, java_cluster: JavaCluster
) -> None:
    java_cluster.start_broker()
    address = java_cluster.nameserver
    with Admin(address) as admin:
        admin.create_topic("orders", queues=4)
    rows = spark.range(MESSAGES).select(
        sf.concat(sf.lit("body "), sf.col("id")).cast("binary").alias("body"),
        sf.when(sf.col("id") % 2 == 0, "even").otherwise("odd").alias("tags"),
        sf.array(sf.concat(sf.lit("k"), sf.col("id"))).alias("keys"),
        sf.create_map(sf.lit("number"), sf.col("id").cast("string")).alias("properties"),
        sf.concat(sf.lit("customer-"), sf.col("id") % 5).alias("shardingKey"),
    )
    options = {"nameServer": address, "topic": "orders"}
    writer = rows.write.format("rocketmq").mode("append")
    writer.options(**options, batchBytes="64k").save()

    read = spark.read.format("rocketmq").options(nameServer=address, subscribe="orders").load()
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

    bodies = rows.select("body")
    at_a_time = bodies.withColumn("deliverAt", sf.current_timestamp())
    for some, more, words in (
        (bodies, {"deduplicate": "true"}, "needs brokers that suppress repeats; .*V4_9_7"),
        (at_a_time, {}, "deliverAt needs brokers that deliver at a time"),
    ):
        with pytest.raises(AnalysisException, match=words):
            some.write.format("rocketmq").mode("append").options(**options, **more).save()
