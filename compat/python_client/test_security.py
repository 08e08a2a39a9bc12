"""Signed and encrypted requests, judged by Apache's brokers and by ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Catcher, Way, await_true
from orbitmq.client.producer import Producer
from orbitmq.client.producer_async import AsyncProducer
from orbitmq.client.push import AsyncPushConsumer, PushConsumer
from orbitmq.errors import BrokerRefused, ConnectionLost, NoRoute, SendFailed
from orbitmq.message import Message, SendStatus
from orbitmq.remoting.tls import Tls

# Alone, this file waits for three pairs of JVMs that start one after the other.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def make(way: Way) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []

    def make(address: str, **settings: object) -> Producer:
        made.append(way(Producer, AsyncProducer)(address, group="g", timeout_ms=10_000, **settings))
        return made[-1].start()

    yield make
    for producer in made:
        producer.close()


def test_signatures(guarded: str, make: Callable[..., Producer]) -> None:
    known = make(guarded, access_key="shopkeeper", secret_key="12345678")
    for message in (
        Message("orders", b"x", tags="a", keys=["k"], properties={"name": "Ünïcode"}),
        Message("orders", b"y" * 10_000),
    ):
        assert known.send(message).status is SendStatus.SEND_OK
    assert known.send_many([Message("orders", b"1"), Message("orders", b"2")]).status.value == 0
    for keys in (
        {},
        {"access_key": "shopkeeper", "secret_key": "wrong678"},
        {"access_key": "stranger", "secret_key": "12345678"},
    ):
        with pytest.raises((SendFailed, BrokerRefused), match="check access_key and secret_key"):
            make(guarded, **keys).send(Message("orders", b"x"))
    with pytest.raises((SendFailed, BrokerRefused), match="AclException"):
        known.send(Message("secrets", b"x"))


def test_signed_consumers(
    guarded: str, make: Callable[..., Producer], way: Way, is_async: bool, group: str
) -> None:
    keys = {"access_key": "shopkeeper", "secret_key": "12345678"}
    sent = make(guarded, **keys).send(Message("orders", b"for members"))
    catcher = Catcher()

    async def handle(message: Any) -> None:
        catcher.add(message)

    options = {"group": group, "consume_from": "first", **keys}
    consumer = way(PushConsumer, AsyncPushConsumer)(guarded, **options)
    consumer.on("orders")(handle if is_async else catcher.add)
    with consumer:
        await_true(
            "the message comes", lambda: sent.message_id in {m.message_id for m in catcher.messages}
        )


def test_tls(cluster: Cluster, topic: str, make: Callable[..., Producer]) -> None:
    # By default they take both kinds and show a certificate that they have signed themselves.
    trusting = make(cluster.address, tls=Tls(verify=False))
    for size in (1, 1 << 20):
        assert trusting.send(Message(topic, bytes(size))).status is SendStatus.SEND_OK
    careful = make(cluster.address, tls=True)
    with pytest.raises((NoRoute, ConnectionLost), match="certificate verify failed"):
        careful.send(Message(topic, b"x"))
