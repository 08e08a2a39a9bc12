"""Brokers of an exactly-once sender: those it started with, whatever nameservers list now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq.errors import ConfigError, ConnectionLost, NoRoute
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.options import CONNECTION_OPTIONS, ConnectionOptions, Options
from orbitmq.spark.sink.brokers import SinkProcess
from orbitmq.spark.sink.exactly_once import Pins, Scope, query_scope, sender_name
from orbitmq.spark.sink.nameserver_tables import NameserverTable
from orbitmq.testing import LocalCluster

NOBODY = "127.0.0.1:1"


@pytest.fixture
def network() -> Iterator[BlockingNetwork]:
    made = BlockingNetwork()
    yield made
    made.close()


def ask(
    network: BlockingNetwork, servers: list[str], sender: str, wished: list[str], topic: str = "t"
) -> tuple[str, ...]:
    """Ask like a process without cached pins."""
    return Pins(NameserverTable(network, servers)).brokers(sender, topic, lambda: wished)


def test_the_first_task_of_a_sender_pins_the_brokers_of_each_topic(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    servers = [cluster.address]
    assert ask(network, servers, "first", ["a", "b"]) == ("a", "b")
    assert ask(network, servers, "first", ["b"]) == ("a", "b"), "a has died since"
    assert ask(network, servers, "first", ["b"], "other") == ("b",)
    assert ask(network, servers, "second", ["b"]) == ("b",)


def test_one_nameserver_that_answers_is_enough(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    servers = [NOBODY, cluster.address]
    assert ask(network, servers, "third", ["a"]) == ("a",)
    assert ask(network, servers, "third", ["b"]) == ("a",)


def test_a_pin_of_any_nameserver_is_used_and_copied(network: BlockingNetwork) -> None:
    with LocalCluster(nameservers=2) as pair:
        one, other = pair.address.split(";")
        assert ask(network, [other], "sender", ["a"]) == ("a",)
        assert ask(network, [one, other], "sender", ["b"]) == ("a",)
        assert ask(network, [one], "sender", ["b"]) == ("a",), "it was told when both were there"
        assert ask(network, [one], "second", ["a"]) == ("a",)
        assert ask(network, [one, other], "second", ["b"]) == ("a",)
        assert ask(network, [other], "second", ["b"]) == ("a",)


def test_a_process_reads_its_pins_once(cluster: LocalCluster, network: BlockingNetwork) -> None:
    servers = [cluster.address]
    pins = Pins(NameserverTable(network, servers))
    assert pins.brokers("remembered", "t", lambda: ["a"]) == ("a",)
    servers[:] = [NOBODY]
    assert pins.brokers("remembered", "t", lambda: ["b"]) == ("a",), "no nameserver is needed"
    with pytest.raises(NoRoute, match=r"no nameserver .* says which brokers"):
        pins.brokers("remembered", "another", lambda: ["b"])


def test_a_refusal_is_no_answer_about_pins(cluster: LocalCluster, network: BlockingNetwork) -> None:
    (broker,) = cluster.brokers.values()
    unlike = f"127.0.0.1:{broker.config.listen_port}"  # The refusal says nothing about pins.
    with pytest.raises(NoRoute, match="says which brokers the query has used before"):
        ask(network, [unlike], "fourth", ["a"])


def test_pins_can_be_removed(cluster: LocalCluster, network: BlockingNetwork) -> None:
    servers = [cluster.address, NOBODY]
    assert ask(network, servers, "over", ["a"]) == ("a",)
    Pins(NameserverTable(network, servers)).take_back("over", ["t"])
    assert ask(network, servers, "over", ["b"]) == ("b",)


def test_a_pin_has_the_topic_of_its_namespace_in_its_key(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    table = NameserverTable(network, [cluster.address], "shop")
    assert Pins(table).brokers("spaced", "t", lambda: ["a"]) == ("a",)
    assert set(table.read("spaced@shop%t").values()) == {"a"}
    assert table.write([cluster.address], "older@t", "a,b")
    assert Pins(table).brokers("older", "t", lambda: ["c"]) == ("a", "b"), "of an earlier version"
    assert set(table.read("older@shop%t").values()) == {"a,b"}


def test_the_timeout_option_applies_to_routes_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = ConnectionOptions.of(
        Options({"nameServer": NOBODY, "timeoutMs": "1234"}, CONNECTION_OPTIONS, "a test")
    )
    process = SinkProcess(connection)
    asked: list[float] = []

    def invoke(_address: str, _code: int, *, timeout_ms: float, **_more: object) -> None:
        asked.append(timeout_ms)
        raise ConnectionLost("nobody there")

    monkeypatch.setattr(process.network, "invoke", invoke)
    with pytest.raises(NoRoute):
        process.routes.route("t")
    with pytest.raises(NoRoute):
        process.pins.brokers("sender", "t", lambda: ["a"])
    assert set(asked) == {1234}
    process.network.close()


def test_sending_is_refused_when_no_nameserver_answers(network: BlockingNetwork) -> None:
    with pytest.raises(NoRoute, match="which brokers the query has used before"):
        ask(network, [NOBODY], "fifth", ["a"])


def test_a_scope_names_the_sender_the_batch_and_the_partition() -> None:
    scope = Scope(sender_name("a query"), 7, 3)
    assert scope.of_batch == f"{scope.sender}/7"
    assert str(scope) == f"{scope.sender}/7/3"
    assert len(scope.sender) == 16
    assert sender_name("another") != scope.sender
    with pytest.raises(ConfigError, match="needs a Spark task"):
        query_scope(None, None)
