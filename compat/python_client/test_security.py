"""Signed and encrypted requests, judged by Apache's 4.9.7 broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat.conftest import MakeCluster
from compat.java_cluster import BrokerSettings, JavaCluster
from compat.python_client.shared import Way
from orbitmq.client.producer import AsyncProducer, Producer
from orbitmq.errors import BrokerRefused, ConnectionLost, NoRoute, SendFailed
from orbitmq.message import Message, SendStatus
from orbitmq.remoting.tls import Tls

pytestmark = pytest.mark.timeout(180)

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


@pytest.fixture
def guarded(make_java_cluster: MakeCluster) -> JavaCluster:
    """A broker that serves known accounts only."""
    cluster = make_java_cluster(BrokerSettings().with_extra(aclEnable="true"))
    conf = cluster.directory / "home" / "conf"
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    (conf / "acl").mkdir(exist_ok=True)
    cluster.start_broker()
    return cluster


@pytest.fixture
def make(way: Way) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []

    def make(address: str, **settings: object) -> Producer:
        made.append(way(Producer, AsyncProducer)(address, group="g", timeout_ms=10_000, **settings))
        return made[-1].start()

    yield make
    for producer in made:
        producer.close()


def test_signatures(guarded: JavaCluster, make: Callable[..., Producer]) -> None:
    known = make(guarded.nameserver, access_key="shopkeeper", secret_key="12345678")
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
            make(guarded.nameserver, **keys).send(Message("orders", b"x"))
    with pytest.raises((SendFailed, BrokerRefused), match="AclException"):
        known.send(Message("secrets", b"x"))


def test_tls(make_java_cluster: MakeCluster, make: Callable[..., Producer]) -> None:
    # By default 4.9.7 takes both kinds and shows a certificate that it has signed itself.
    cluster = make_java_cluster()
    cluster.start_broker()
    trusting = make(cluster.nameserver, tls=Tls(verify=False))
    for size in (1, 1 << 20):
        assert trusting.send(Message("orders", bytes(size))).status is SendStatus.SEND_OK
    careful = make(cluster.nameserver, tls=True)
    with pytest.raises((NoRoute, ConnectionLost), match="certificate verify failed"):
        careful.send(Message("orders", b"x"))
