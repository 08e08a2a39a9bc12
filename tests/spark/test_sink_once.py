"""The brokers of an exactly-once sender: those it has begun with, whatever nameservers know now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq.errors import ConfigError
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.sink_once import Scope, pinned_brokers, query_scope, sender_name
from orbitmq.testing import LocalCluster

NOBODY = "127.0.0.1:1"


@pytest.fixture
def network() -> Iterator[BlockingNetwork]:
    made = BlockingNetwork()
    yield made
    made.close()


def test_the_first_task_of_a_sender_decides(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    servers = [cluster.address]
    assert pinned_brokers(network, servers, "first", ["a", "b"]) == ("a", "b")
    assert pinned_brokers(network, servers, "first", ["b"]) == ("a", "b"), "a has died since"
    assert pinned_brokers(network, servers, "second", ["b"]) == ("b",)


def test_one_nameserver_that_answers_is_enough(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    servers = [NOBODY, cluster.address]
    assert pinned_brokers(network, servers, "third", ["a"]) == ("a",)
    assert pinned_brokers(network, servers, "third", ["b"]) == ("a",)


def test_what_another_nameserver_knows_is_not_forgotten(network: BlockingNetwork) -> None:
    with LocalCluster(nameservers=2) as pair:
        one, other = pair.address.split(";")
        assert pinned_brokers(network, [other], "sender", ["a"]) == ("a",)
        assert pinned_brokers(network, [one, other], "sender", ["b"]) == ("a",)


def test_without_any_nameserver_nothing_is_sent(network: BlockingNetwork) -> None:
    with pytest.raises(ConfigError, match="which brokers the query has used before"):
        pinned_brokers(network, [NOBODY], "fourth", ["a"])


def test_scopes() -> None:
    scope = Scope(sender_name("a query"), 7, 3)
    assert scope.of_batch == f"{scope.sender}/7"
    assert str(scope) == f"{scope.sender}/7/3"
    assert len(scope.sender) == 16
    assert sender_name("another") != scope.sender
    with pytest.raises(ConfigError, match="needs a Spark task"):
        query_scope(None, None)
