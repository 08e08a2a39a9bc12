"""Signatures of the Spark source and sink, checked by Apache's broker (`aclEnable`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from compat.python_client.guarded import MANAGER, SHOPKEEPER
from orbitmq import Admin, Message, Producer
from tests.spark.source_fixtures import bodies, frame, run_available, stream, written

TOPIC, FORBIDDEN = "orders", "secrets"
MANAGES: dict[str, Any] = dict(MANAGER)
KNOWN = {"accessKey": SHOPKEEPER["access_key"], "secretKey": SHOPKEEPER["secret_key"]}
COUNT = 200


@pytest.fixture(scope="module", autouse=True)
def topics(guarded: str) -> None:
    with (
        Admin(guarded, **MANAGES) as admin,
        Producer(guarded, group="managers", **MANAGES) as producer,
    ):
        for topic in (TOPIC, FORBIDDEN):
            admin.create_topic(topic, queues=2)
        producer.send(Message(FORBIDDEN, b"not for everybody"))


def send(spark: SparkSession, address: str, topic: str, count: int, **options: str) -> None:
    rows = spark.range(count).selectExpr("string(id) AS body")
    writer = rows.write.format("rocketmq").mode("append")
    writer.options(nameServer=address, topic=topic, retryTimeoutMs="5s", **options).save()


def test_a_permitted_account_writes_reads_and_streams(
    spark: SparkSession, guarded: str, tmp_path: Path
) -> None:
    send(spark, guarded, TOPIC, COUNT, **KNOWN)
    sent = sorted(map(str, range(COUNT)))
    assert bodies(frame(spark, guarded, TOPIC, **KNOWN)) == sent
    group = "spark-members"
    progress = {"consumerGroup": group, "commitOffsets": "progress", "startingOffsets": "earliest"}
    run_available(stream(spark, guarded, TOPIC, **progress, **KNOWN), tmp_path)
    assert bodies(written(spark, tmp_path)) == sent
    with Admin(guarded, **MANAGES) as admin:
        assert sum(admin.committed_offsets(group, TOPIC).values()) == COUNT


@pytest.mark.parametrize(
    ("topic", "account", "reason"),
    [
        (TOPIC, KNOWN | {"secretKey": "wrong-secret"}, "Check signature failed"),
        (TOPIC, {"accessKey": "stranger-key", "secretKey": "wrong-secret"}, "No acl config for"),
        (FORBIDDEN, KNOWN, "No default permission"),
    ],
    ids=["wrong-secret", "stranger", "forbidden-topic"],
)
def test_an_account_without_rights_is_refused_with_the_brokers_reason(
    spark: SparkSession, guarded: str, topic: str, account: dict[str, str], reason: str
) -> None:
    with pytest.raises(Exception, match=reason) as reading:
        frame(spark, guarded, topic, **account).collect()
    with pytest.raises(Exception, match=reason) as writing:
        # One row: for a batch, 4.9.7 does not check the topic.
        send(spark, guarded, topic, 1, **account)
    for raised in (reading, writing):
        assert not any(secret in str(raised.value) for secret in account.values())
