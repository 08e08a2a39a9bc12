"""The group that brokers list: one per query, in its namespace, with a lag."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from orbitmq import Admin, Message, Producer
from orbitmq.spark.source.data_source import RocketMQSource
from orbitmq.testing import LocalCluster
from tests.spark.conftest import NewTopic
from tests.spark.source_fixtures import bodies, frame, run_available, send, stream

OPTIONS = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}


def group_of(source: RocketMQSource) -> str:
    return source._source_options(streaming=True).group


def test_every_query_has_its_own_group() -> None:
    one, other = RocketMQSource(dict(OPTIONS)), RocketMQSource(dict(OPTIONS))
    assert group_of(one).startswith("ORBIT_SPARK-")
    assert group_of(one) == group_of(one) != group_of(other)
    assert group_of(RocketMQSource(OPTIONS | {"consumerGroup": "billing"})) == "billing"


def test_brokers_register_one_group_per_query(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic
) -> None:
    topic = new_topic(cluster, queues=3)
    send(cluster, topic, ["a", "b", "c"])
    (broker,) = cluster.brokers.values()

    def groups() -> set[str]:
        return set(broker.groups.as_json()["subscriptionGroupTable"])

    before = groups()
    for _ in range(2):  # Pulls and the planner's time lookups use the query's group.
        read = frame(spark, cluster, topic, bulkRead="false", startingTimestamp=1)
        assert bodies(read) == ["a", "b", "c"]
    made = groups() - before
    assert len(made) == 2, made
    assert all(name.startswith("ORBIT_SPARK-") for name in made)


def test_topics_and_groups_are_in_the_namespace(
    spark: SparkSession, cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(cluster, queues=2)
    with Admin(cluster.address) as admin:
        admin.create_topic(f"shop%{topic}", queues=2)
    with Producer(cluster.address, group="tests", namespace="shop") as producer:
        for body in (b"1", b"2", b"3"):
            producer.send(Message(topic, body))
    send(cluster, topic, ["of nobody's namespace"])
    group = f"{topic}-group"
    options = {"namespace": "shop", "consumerGroup": group, "commitOffsets": "progress"}
    assert bodies(frame(spark, cluster, topic, namespace="shop")) == ["1", "2", "3"]
    pattern = topic.replace("-", ".")
    like = frame(spark, cluster, None, subscribePattern=pattern, namespace="shop")
    assert bodies(like) == ["1", "2", "3"]
    run_available(stream(spark, cluster, topic, startingOffsets="earliest", **options), tmp_path)
    with Admin(cluster.address) as admin:
        found = admin.committed_offsets(f"shop%{group}", f"shop%{topic}")
    assert sum(found.values()) == 3
