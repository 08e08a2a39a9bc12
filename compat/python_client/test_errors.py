"""Diagnoses of failures on every kind of cluster: the cause and the remedy."""

from __future__ import annotations

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Way
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.pull import AsyncPullConsumer, PullConsumer
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import BrokerRefused, NoRoute
from orbitmq.message import Message
from orbitmq.protocol.flags import Permission


def test_a_send_to_a_read_only_topic_names_the_cause(
    cluster: Cluster, way: Way, group: str, topic: str, admin: Admin
) -> None:
    admin.update_topic(topic, perm=Permission.READ)
    with (
        way(Producer, AsyncProducer)(cluster.address, group=group) as producer,
        pytest.raises(NoRoute, match=r"may not be written .*updateTopicPerm") as caught,
    ):
        producer.send(Message(topic, b"x"))
    assert caught.value.cause == "no_permission"


def test_a_missing_topic_is_an_error_with_its_remedy(
    cluster: Cluster, way: Way, group: str, mark: str
) -> None:
    with (
        way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group) as consumer,
        pytest.raises(NoRoute, match=r"does not exist on broker-a, broker-b\. Create it") as caught,
    ):
        consumer.queues(f"missing-{mark}")
    assert caught.value.cause == "no_topic"


def test_the_address_of_a_broker_instead_of_a_nameserver_is_named(
    cluster: Cluster, way: Way, group: str, admin: Admin
) -> None:
    address = admin.cluster_info().brokers["broker-a"].master
    with (
        way(Producer, AsyncProducer)(address, group=group) as producer,
        pytest.raises(NoRoute, match="the address of a broker instead of a nameserver") as caught,
    ):
        producer.send(Message("T", b"x"))
    assert caught.value.cause == "refused"


def test_a_group_with_consumption_disabled_is_an_error_with_its_cause(
    cluster: Cluster, way: Way, group: str, topic: str, admin: Admin
) -> None:
    admin.create_group(group, consume_enable=False)
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group) as consumer:
        queue = consumer.queues(topic)[0]
        with pytest.raises(BrokerRefused, match="whether the group may consume"):
            consumer.pull(queue, 0)
