"""Nameserver addresses from an address server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    ClientSettings,
    Message,
    Producer,
    PushConsumer,
)
from orbitmq.client import instance
from orbitmq.client.settings import look_up_nameservers
from orbitmq.errors import NoRoute
from orbitmq.testing import LocalCluster
from tests.address_server import AddressServer
from tests.both_ways import LoopThread, way_of
from tests.client.conftest import Seen, eventually


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AddressServer]:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    server = AddressServer()
    yield server
    server.close()


def settings_of(server: AddressServer, **more: Any) -> ClientSettings:
    return ClientSettings.of(nameserver_domain=server.domain, **more)


def test_only_the_first_line_of_the_answer_is_used(server: AddressServer) -> None:
    server.text = "10.0.0.1:9876; 10.0.0.2:9876;\nsomething else\n"
    assert look_up_nameservers(settings_of(server)) == ("10.0.0.1:9876", "10.0.0.2:9876")
    look_up_nameservers(settings_of(server, nameserver_subgroup="other", unit_name="eu"))
    assert server.paths == ["/rocketmq/nsaddr", "/rocketmq/other-eu?nofix=1"]


@pytest.mark.parametrize(
    ("status", "text", "complaint"),
    [
        (404, "", "answers 404 Not Found"),
        (200, " \n", "answer is empty"),
        (200, "<html>", "no list of addresses"),
    ],
)
def test_unusable_answers_are_errors(
    server: AddressServer, status: int, text: str, complaint: str
) -> None:
    server.status, server.text = status, text
    with pytest.raises(NoRoute, match=complaint) as caught:
        look_up_nameservers(settings_of(server))
    assert caught.value.cause == "no_nameserver"


def test_a_client_cannot_start_without_the_address_server(server: AddressServer) -> None:
    settings = settings_of(server)
    server.close()
    with pytest.raises(NoRoute, match="Check nameserver_domain"):
        Producer(settings, group="g").start()
    # A failed start can be repeated.
    with pytest.raises(NoRoute, match="Check nameserver_domain"):
        Producer(settings, group="g", instance_name="same").start()
    with pytest.raises(NoRoute, match="Check nameserver_domain"):
        Producer(settings, group="g", instance_name="same").start()


def test_explicit_addresses_take_precedence(server: AddressServer) -> None:
    assert not ClientSettings.of("a:1", nameserver_domain=server.domain).looks_up_nameservers
    assert settings_of(server).looks_up_nameservers


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_clients_find_nameservers_through_the_address_server(
    server: AddressServer, cluster: LocalCluster, kind: str, seen: Seen
) -> None:
    server.text = cluster.address
    thread = LoopThread()
    way: Callable[..., Any] = way_of(kind, thread)
    topic = f"found-{kind}"
    with way(Admin, AsyncAdmin)(settings_of(server)) as admin:
        admin.create_topic(topic, queues=1)
        assert topic in admin.topic_names()
    with way(Producer, AsyncProducer)(settings_of(server), group="g") as producer:
        producer.send(Message(topic, b"hello"))
    consumer = PushConsumer(
        group=f"g-{kind}", nameserver_domain=server.domain, consume_from="first"
    )
    consumer.on(topic)(seen)
    with consumer:
        assert seen.wait(1) == ["hello"]
    thread.close()


def test_a_changed_list_replaces_the_nameservers(
    server: AddressServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "LOOK_UP_S", 0.02)
    server.text = "127.0.0.1:1"
    with Producer(settings_of(server), group="g") as producer:
        inner = producer._instance
        assert inner is not None
        nameservers = inner.routes.nameservers
        assert nameservers.in_turn() == ["127.0.0.1:1"]
        server.text = "127.0.0.1:2;127.0.0.1:3"
        eventually(lambda: sorted(nameservers.in_turn()) == ["127.0.0.1:2", "127.0.0.1:3"])
        # A failed lookup keeps the known addresses.
        asked, server.status = len(server.paths), 500
        eventually(lambda: len(server.paths) > asked + 1)
        assert len(nameservers.in_turn()) == 2
