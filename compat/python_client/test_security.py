"""Signed and encrypted requests to Apache's brokers and to ours."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.java_client import Cluster
from compat.python_client.guarded import MANAGER, SHOPKEEPER
from compat.python_client.shared import Catcher, Way, await_true
from orbitmq.admin.admin import Admin
from orbitmq.admin.async_admin import AsyncAdmin
from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
from orbitmq.client.consumer.pull import AsyncPullConsumer, PullConsumer
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import BrokerRefused, ConnectionLost, NoRoute, SendFailed
from orbitmq.message import Message, SendStatus
from orbitmq.remoting.tls import Tls

# Alone, this file waits for all the JVMs, which start one after the other.

ANY_CERTIFICATE = Tls(verify=False)
"""By default brokers accept plain and encrypted requests, with an untrusted certificate."""
WHO_ARE_YOU = "check access_key and secret_key"
YOU_MAY_NOT = "The account of this access_key may not do that"
STRANGERS: list[dict[str, str]] = [
    {},
    {"access_key": "shopkeeper", "secret_key": "wrong678"},
    {"access_key": "stranger", "secret_key": "12345678"},
]


@pytest.fixture
def make(way: Way) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []

    def make(address: str, **settings: object) -> Producer:
        made.append(way(Producer, AsyncProducer)(address, group="g", timeout_ms=10_000, **settings))
        return made[-1].start()

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def make_push(way: Way, is_async: bool, group: str) -> Callable[..., Any]:
    """Create a push consumer of either kind that passes its messages to a `Catcher`."""

    def make(address: str, topic: str, catcher: Catcher, **settings: Any) -> Any:
        async def handle(message: Any) -> None:
            catcher.add(message)

        options = {"group": group, "consume_from": "first", "rebalance_s": 2, **settings}
        consumer = way(PushConsumer, AsyncPushConsumer)(address, **options)
        consumer.on(topic)(handle if is_async else catcher.add)
        return consumer

    return make


# ---- Signatures


def test_only_signed_producers_are_served(guarded: str, make: Callable[..., Producer]) -> None:
    known = make(guarded, **SHOPKEEPER)
    for message in (
        Message("orders", b"x", tags="a", keys=["k"], properties={"name": "Ünïcode"}),
        Message("orders", b"y" * 10_000),
    ):
        assert known.send(message).status is SendStatus.SEND_OK
    assert known.send_many([Message("orders", b"1"), Message("orders", b"2")]).status.value == 0
    for keys in STRANGERS:
        with pytest.raises((SendFailed, BrokerRefused), match=WHO_ARE_YOU):
            make(guarded, **keys).send(Message("orders", b"x"))
    with pytest.raises((SendFailed, BrokerRefused), match=YOU_MAY_NOT):
        known.send(Message("secrets", b"x"))


def test_a_signed_push_consumer_receives_messages(
    guarded: str, make: Callable[..., Producer], make_push: Callable[..., Any]
) -> None:
    sent = make(guarded, **SHOPKEEPER).send(Message("orders", b"for members"))
    catcher = Catcher()
    with make_push(guarded, "orders", catcher, **SHOPKEEPER):
        await_true(
            "the message comes", lambda: sent.message_id in {m.message_id for m in catcher.messages}
        )


def test_consumers_with_wrong_keys_are_refused_at_the_start(
    guarded: str, make: Callable[..., Producer], make_push: Callable[..., Any], way: Way, group: str
) -> None:
    make(guarded, **SHOPKEEPER).send(Message("orders", b"not for strangers"))
    for keys in STRANGERS:
        with pytest.raises(BrokerRefused, match=WHO_ARE_YOU):
            make_push(guarded, "orders", Catcher(), **keys).start()
        with pytest.raises(BrokerRefused, match=WHO_ARE_YOU):
            way(Consumer, AsyncConsumer)(guarded, "orders", group=group, **keys).start()
        with way(PullConsumer, AsyncPullConsumer)(guarded, group=group, **keys) as consumer:
            queue = consumer.queues("orders")[0]  # Nameservers require no signature.
            with pytest.raises(BrokerRefused, match=WHO_ARE_YOU):
                consumer.pull(queue, 0)


def test_signed_readers_receive_messages(
    guarded: str, make: Callable[..., Producer], way: Way, group: str
) -> None:
    sent = make(guarded, **SHOPKEEPER).send(Message("orders", b"for readers"))
    assert sent.queue is not None
    options: dict[str, Any] = {"group": group, "consume_from": "first", **SHOPKEEPER}
    with way(Consumer, AsyncConsumer)(guarded, "orders", **options) as reader:
        assert any(message.message_id == sent.message_id for message in reader)
        reader.commit()
    with way(PullConsumer, AsyncPullConsumer)(guarded, group=group, **SHOPKEEPER) as puller:
        (message,) = puller.pull(sent.queue, sent.queue_offset, 1).messages
        assert message.message_id == sent.message_id
        assert puller.committed(sent.queue) == sent.queue_offset + 1


def test_only_signed_admins_are_served(guarded: str, way: Way, mark: str) -> None:
    topic = f"T-{mark}"
    with way(Admin, AsyncAdmin)(guarded, **MANAGER) as admin:
        admin.create_topic(topic, queues=2)
        assert len(admin.topic_ends(topic)) == 2
        admin.delete_topic(topic)
    for keys in [*STRANGERS, {**MANAGER, "secret_key": "s3cret-s3creT"}]:
        with (
            way(Admin, AsyncAdmin)(guarded, **keys) as admin,
            pytest.raises(BrokerRefused, match=WHO_ARE_YOU),
        ):
            admin.create_topic(topic)
    with (
        way(Admin, AsyncAdmin)(guarded, **SHOPKEEPER) as admin,
        pytest.raises(BrokerRefused, match=YOU_MAY_NOT),
    ):
        admin.create_topic(topic)


# ---- TLS


def test_producers_send_over_tls(
    cluster: Cluster, topic: str, make: Callable[..., Producer]
) -> None:
    trusting = make(cluster.address, tls=ANY_CERTIFICATE)
    for size in (1, 1 << 20):
        assert trusting.send(Message(topic, random.randbytes(size))).status is SendStatus.SEND_OK
    careful = make(cluster.address, tls=True)
    with pytest.raises((NoRoute, ConnectionLost), match="certificate verify failed"):
        careful.send(Message(topic, b"x"))


def test_push_consumers_receive_over_tls(
    cluster: Cluster, topic: str, producer: Producer, make_push: Callable[..., Any]
) -> None:
    bodies = sorted(random.randbytes(size) for size in (1, 1 << 20, 3 << 20))  # Incompressible.
    for body in bodies:
        producer.send(Message(topic, body))
    catcher = Catcher()
    with make_push(cluster.address, topic, catcher, tls=ANY_CERTIFICATE):
        assert sorted(message.body for message in catcher.wait(3)) == bodies
        # One that comes while the pulls are held by the broker.
        producer.send(Message(topic, b"waited for"))
        assert catcher.wait(4)[-1].body == b"waited for"
    with pytest.raises((NoRoute, ConnectionLost), match="certificate verify failed"):
        make_push(cluster.address, topic, Catcher(), tls=True).start()


def test_readers_receive_over_tls(
    cluster: Cluster, topic: str, producer: Producer, way: Way, group: str
) -> None:
    sent = [producer.send(Message(topic, random.randbytes(100_000))) for _ in range(20)]
    ids = {result.message_id for result in sent}
    tls = {"tls": ANY_CERTIFICATE}
    reader = way(Consumer, AsyncConsumer)(
        cluster.address, topic, group=group, consume_from="first", **tls
    )
    with reader:
        for message in reader:
            ids.discard(message.message_id)
            if not ids:
                break
        reader.commit()
    first = sent[0]
    assert first.queue is not None
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group, **tls) as puller:
        (message,) = puller.pull(first.queue, first.queue_offset, 1).messages
        assert message.message_id == first.message_id
        assert puller.committed(first.queue) == puller.end_offset(first.queue)


def test_admins_work_over_tls(cluster: Cluster, way: Way, mark: str) -> None:
    topic = f"T-{mark}"
    with way(Admin, AsyncAdmin)(cluster.address, tls=ANY_CERTIFICATE) as admin:
        admin.create_topic(topic, queues=2)
        assert len(admin.topic_ends(topic)) == 4
        assert sorted(admin.cluster_info().brokers) == ["broker-a", "broker-b"]
    with (
        way(Admin, AsyncAdmin)(cluster.address, tls=True) as admin,
        pytest.raises((NoRoute, ConnectionLost), match="certificate verify failed"),
    ):
        admin.cluster_info()
