"""Signed and encrypted requests, judged by Apache's brokers and by ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.java_client import Cluster
from compat.java_cluster import BrokerSettings, JavaCluster
from compat.python_client.shared import Way
from orbitmq.client.producer import Producer
from orbitmq.client.producer_async import AsyncProducer
from orbitmq.errors import BrokerRefused, ConnectionLost, NoRoute, SendFailed
from orbitmq.message import Message, SendStatus
from orbitmq.remoting.tls import Tls
from orbitmq.testing import LocalCluster

ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
- accessKey: shopkeeper
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  admin: false
  topicPerms:
  - orders=PUB|SUB
  - TBW102=PUB
"""


@pytest.fixture(scope="module", params=["ours", "4.9.7"])
def guarded(
    request: pytest.FixtureRequest, java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The nameserver of a broker that serves known accounts only."""
    directory = tmp_path_factory.mktemp("guarded") / "cluster"
    conf = directory / "home" / "conf"
    if request.param == "ours":
        conf.mkdir(parents=True)
        (conf / "plain_acl.yml").write_text(ACCOUNTS)
        settings = {"aclEnable": "true", "rocketmqHome": str(conf.parent)}
        with LocalCluster(settings=settings) as ours:
            yield ours.address
        return
    java = JavaCluster(directory, BrokerSettings().with_extra(aclEnable="true"))
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    (conf / "acl").mkdir(exist_ok=True)
    try:
        java.start_broker()
        yield java.nameserver
    finally:
        java.close()


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


def test_tls(cluster: Cluster, topic: str, make: Callable[..., Producer]) -> None:
    # By default they take both kinds and show a certificate that they have signed themselves.
    trusting = make(cluster.address, tls=Tls(verify=False))
    for size in (1, 1 << 20):
        assert trusting.send(Message(topic, bytes(size))).status is SendStatus.SEND_OK
    careful = make(cluster.address, tls=True)
    with pytest.raises((NoRoute, ConnectionLost), match="certificate verify failed"):
        careful.send(Message(topic, b"x"))
