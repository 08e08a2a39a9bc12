"""The Spark source on Apache RocketMQ, 4.9.7 and 5.4.0: no bulk read, and no field of ours."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat.java_cluster import JavaCluster
from compat.python_client.shared import await_true
from orbitmq import Admin, Message, Producer
from tests.spark.source_fixtures import bodies, frame, run_available, stream, written

COUNT = 700


def test_a_java_broker_is_read(spark: SparkSession, java: JavaCluster, tmp_path: Path) -> None:
    address, topic = java.nameserver, f"source-orders-{uuid.uuid4().hex[:8]}"
    with Admin(address) as admin, Producer(address, group="spark-compat") as producer:
        admin.create_topic(topic, queues=3)

        def await_stored(count: int) -> None:
            # Java's broker puts messages into their queues after it has acknowledged them.
            await_true(
                f"{count} messages are in the queues of {topic}",
                lambda: sum(ends.max_offset for ends in admin.topic_ends(topic).values()) == count,
                60,
            )

        for number in range(COUNT):
            tag = "odd" if number % 2 else "even"
            message = Message(
                topic, f"{number:04}".encode(), tags=tag, properties={"n": str(number)}
            )
            producer.send(message)
        producer.send(Message(topic, b"9999" + b"z" * 20_000, tags="big"))

        await_stored(COUNT + 1)

        everything = [f"{number:04}" for number in range(COUNT)]
        read = frame(spark, address, topic, columns="body,tags,queueId,queueOffset")
        assert read.count() == COUNT + 1
        assert bodies(read.where("tags != 'big'")) == everything
        assert bodies(frame(spark, address, topic, tags="odd")) == everything[1::2]
        sql = frame(spark, address, topic, sql="n IS NOT NULL AND n >= 690")
        assert bodies(sql) == everything[690:]
        (big,) = frame(spark, address, topic, tags="big").collect()
        assert bytes(big.body) == b"9999" + b"z" * 20_000, "it was compressed on its way"
        stored_ms = {
            bytes(row.body)[:4].decode(): round(row.storeTimestamp.timestamp() * 1000)
            for row in frame(spark, address, topic, columns="body,storeTimestamp").collect()
        }
        middle_ms = stored_ms[everything[COUNT // 2]]
        late = frame(spark, address, topic, startingTimestamp=middle_ms).where("tags != 'big'")
        assert bodies(late) == [name for name in everything if stored_ms[name] >= middle_ms]
        assert stored_ms[everything[0]] < middle_ms, "nothing is proved if all is late"
        assert frame(spark, address, topic, minPartitions=5).rdd.getNumPartitions() == 5

        group = "spark-compat-group"
        options = {"consumerGroup": group, "commitOffsets": "progress"}
        source = stream(
            spark, address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=300, **options
        )
        query = run_available(source, tmp_path)
        assert written(spark, tmp_path).count() == COUNT + 1
        progress = query.lastProgress
        assert progress is not None
        ends = json.loads(progress["sources"][0]["endOffset"])
        assert sum(sum(each.values()) for each in ends[topic].values()) == COUNT + 1
        assert admin.group_lag(group, topic).total == 0
        producer.send(Message(topic, b"more"))
        await_stored(COUNT + 2)
        assert admin.group_lag(group, topic).total == 1
        run_available(stream(spark, address, topic, **options), tmp_path)
        assert written(spark, tmp_path).count() == COUNT + 2


def test_an_encrypted_broker_is_read_and_written(spark: SparkSession, java: JavaCluster) -> None:
    # They show a self-signed certificate.
    address, topic = java.nameserver, "source-tls"
    with Admin(address) as admin:
        admin.create_topic(topic, queues=2)
    trusting = {"tls": "true", "tlsVerify": "false"}
    rows = spark.range(500).selectExpr("string(id) AS body")
    options = {"nameServer": address, "topic": topic, **trusting}
    rows.write.format("rocketmq").mode("append").options(**options).save()
    assert bodies(frame(spark, address, topic, **trusting)) == sorted(map(str, range(500)))
    with pytest.raises(Exception, match="certificate verify failed"):
        frame(spark, address, topic, tls="true", fetchOffset__numRetries=0).count()
