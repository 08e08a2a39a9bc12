"""Topics in a namespace have their names without it, in every row and every filter."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo

from orbitmq import Admin, Message, Producer
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.spark.source.pushdown import PushdownReader
from orbitmq.testing import LocalCluster

TOPIC = "orders-of-a-namespace"


@pytest.fixture(scope="module")
def shop(cluster: LocalCluster) -> LocalCluster:
    """A topic of the namespace `shop`, with one message in each of two queues."""
    with Admin(cluster.address) as admin:
        admin.create_topic(f"shop%{TOPIC}", queues=2)
    with Producer(cluster.address, group="tests", namespace="shop") as producer:
        for queue in producer.queues(TOPIC):
            producer.send(Message(TOPIC, b"x"), queue=queue)
    return cluster


def reader(cluster: LocalCluster, **options: str) -> Any:
    base = {"nameServer": cluster.address, "subscribe": TOPIC, "namespace": "shop"}
    source = RocketMQSource(base | options)
    return source.reader(source.schema())


def topics(made: Any) -> list[str]:
    batches = [batch for part in made.partitions() for batch in made.read(part)]
    return [name for batch in batches for name in batch.column("topic").to_pylist()]


@pytest.mark.parametrize("bulk_read", ["true", "false"])
def test_rows_have_the_topic_name_without_the_namespace(shop: LocalCluster, bulk_read: str) -> None:
    assert topics(reader(shop, bulkRead=bulk_read)) == [TOPIC, TOPIC]


@pytest.mark.parametrize(("name", "rows"), [(TOPIC, 2), (f"shop%{TOPIC}", 0)])
def test_a_pushed_topic_filter_uses_names_without_the_namespace(
    shop: LocalCluster, name: str, rows: int
) -> None:
    made = reader(shop, pushFilters="true")
    assert isinstance(made, PushdownReader)
    assert list(made.pushFilters([EqualTo(("topic",), name)])) == []
    assert topics(made) == [name] * rows
