"""Producers on a failing network: acknowledged messages are stored, and no call hangs."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import NoRoute, OrbitError, SendFailed
from orbitmq.message import Message
from tests.client.conftest import eventually
from tests.client.faults.conftest import LIMIT_S, Remains, weakly
from tests.client.faults.proxy import FaultyNetwork

Way = Callable[..., Any]


def stored_bodies(network: FaultyNetwork, topic: str) -> Counter[bytes]:
    """Return all bodies of a topic, read from the stores."""
    bodies: Counter[bytes] = Counter()
    for broker in network.cluster.brokers.values():
        for name, queue_id in broker.store.queues():
            if name != topic:
                continue
            offset = broker.store.min_offset(name, queue_id)
            while (result := broker.store.read(name, queue_id, offset)).status == "FOUND":
                bodies.update(record.body for record in result.records())
                offset = result.next_offset
    return bodies


@pytest.mark.parametrize("answers", [False, True], ids=["requests", "answers"])
def test_acknowledged_messages_are_stored_when_frames_are_cut(
    network: FaultyNetwork, admin: Admin, way: Way, answers: bool
) -> None:
    admin.create_topic("T", queues=4)
    with way(Producer, AsyncProducer)(network.address, group="g", timeout_ms=10_000) as producer:
        acknowledged = []
        for number in range(60):
            if number % 6 == 5:
                # Somewhere in the next frame: in its length, its header, or its body.
                network.broker.cut_after(1 + number * 3, answers=answers)
            body = b"%d-" % number + b"x" * 100
            producer.send(Message("T", body))
            acknowledged.append(body)
        assert network.broker.cuts >= 8
    stored = stored_bodies(network, "T")
    assert set(stored) == set(acknowledged)
    # A request whose answer was cut off was stored, and is stored again by the retry.
    twice = sum(count - 1 for count in stored.values())
    assert twice <= network.broker.cuts if answers else twice == 0


def test_acknowledged_messages_are_stored_when_the_broker_restarts(
    network: FaultyNetwork, admin: Admin, way: Way
) -> None:
    admin.create_topic("T", queues=4)
    restarted = threading.Event()
    acknowledged: list[bytes] = []

    def send_on(producer: Producer) -> None:
        number = sent_after = 0
        while sent_after < 100:
            body = b"%d" % number
            try:
                producer.send(Message("T", body), timeout_ms=500)
            except OrbitError as error:
                assert error.retriable, error
            else:
                acknowledged.append(body)
                sent_after += restarted.is_set()
            number += 1

    with way(Producer, AsyncProducer)(network.address, group="g") as producer:
        sending = threading.Thread(target=send_on, args=(producer,))
        sending.start()
        while len(acknowledged) < 50:
            time.sleep(0.001)
        network.restart_broker()
        restarted.set()
        sending.join(2 * LIMIT_S)
        assert not sending.is_alive(), "it does not find the way back"
    assert set(acknowledged) <= set(stored_bodies(network, "T"))


SENDS: dict[str, Callable[[Any, Message], Any]] = {
    "plain": lambda producer, message: producer.send(message),
    "of a key": lambda producer, message: producer.send(message, sharding_key="k"),
    "many": lambda producer, message: producer.send_many([message]),
    "lingering": lambda producer, message: producer.send(message),
    "without a route": lambda producer, message: producer.send(message),
}


@pytest.mark.parametrize("kind", SENDS)
def test_a_message_arrives_when_the_only_broker_comes_back_within_the_budget(
    network: FaultyNetwork, admin: Admin, way: Way, kind: str
) -> None:
    admin.create_topic("T", queues=4)
    options: dict[str, Any] = {"group": "g", "timeout_ms": LIMIT_S * 1000}
    if kind == "lingering":
        options["linger_ms"] = 1
    away = network.nameservers[0] if kind == "without a route" else network.broker
    with way(Producer, AsyncProducer)(network.address, **options) as producer:
        if kind != "without a route":
            producer.send(Message("T", b"before"))
        away.refuse()
        sending = threading.Thread(target=SENDS[kind], args=(producer, Message("T", b"m")))
        sending.start()
        # That is more often than `retry_times` and a heartbeat or two.
        eventually(lambda: away.refused >= 6)
        away.refuse(False)
        sending.join(LIMIT_S)
        assert not sending.is_alive()
        eventually(lambda: b"m" in stored_bodies(network, "T"))


def test_a_send_ends_within_its_timeout_when_the_broker_stops_answering(
    network: FaultyNetwork, admin: Admin, way: Way
) -> None:
    admin.create_topic("T", queues=4)
    with way(Producer, AsyncProducer)(network.address, group="g") as producer:
        producer.send(Message("T", b"before"))
        network.broker.withhold()
        begin = time.monotonic()
        with pytest.raises(SendFailed):
            producer.send(Message("T", b"lost in time"), timeout_ms=300)
        assert time.monotonic() - begin < 10
        network.broker.withhold(False)
        producer.send(Message("T", b"after"), timeout_ms=20_000)
    assert {b"before", b"after"} <= set(stored_bodies(network, "T"))


def test_sends_go_to_another_broker_when_one_is_lost(way: Way) -> None:
    with FaultyNetwork(brokers=2) as network:
        with Admin(network.cluster.address) as admin:
            admin.create_topic("T", queues=2)
        with way(Producer, AsyncProducer)(network.address, group="g") as producer:
            producer.send(Message("T", b"0"))
            network.broker.refuse()
            results = [producer.send(Message("T", b"%d" % n)) for n in range(1, 9)]
            assert {result.queue.broker_name for result in results} == {"broker-b"}
        assert len(stored_bodies(network, "T")) == 9


def test_messages_are_stored_once_on_a_slow_network(
    network: FaultyNetwork, admin: Admin, way: Way
) -> None:
    admin.create_topic("T", queues=2)
    network.broker.delay_s = 0.05
    with way(Producer, AsyncProducer)(network.address, group="g") as producer:
        for number in range(5):
            producer.send(Message("T", b"%d" % number))
    assert stored_bodies(network, "T") == {b"%d" % number: 1 for number in range(5)}


def test_sends_to_known_topics_succeed_when_nameservers_are_lost(way: Way) -> None:
    with FaultyNetwork(nameservers=2) as network:
        with Admin(network.cluster.address) as admin:
            admin.create_topic("T", queues=2)
            admin.create_topic("U", queues=2)
        with way(Producer, AsyncProducer)(network.address, group="g", timeout_ms=5000) as producer:
            network.nameservers[0].refuse()
            producer.send(Message("T", b"one is left"))
            network.nameservers[1].refuse()
            producer.send(Message("T", b"the route is known"))
            with pytest.raises(NoRoute) as caught:
                producer.send(Message("U", b"this one is not"), timeout_ms=300)
            assert caught.value.cause == "no_nameserver"
            network.nameservers[1].refuse(False)
            producer.send(Message("U", b"now it is"))


@pytest.mark.usefixtures("unseen_log")
def test_a_closed_producer_leaves_no_objects_or_connections(
    network: FaultyNetwork, admin: Admin, way: Way
) -> None:
    admin.create_topic("T", queues=2)

    def once() -> weakref.ref[Any]:
        with way(Producer, AsyncProducer)(network.address, group="g") as producer:
            producer.send(Message("T", b"x"))
            network.broker.cut()
            producer.send(Message("T", b"y"))
            return weakly(producer)

    once()
    remains = Remains(network)
    remains.assert_none([once() for _ in range(10)])


IN_ANSWERS_TO_SENDS = b"MSG_REGION"
BOTH = {"broker-a", "broker-b"}


class Clock:
    """A producer's clock, which a test moves."""

    def __init__(self, producer: Any) -> None:
        self.now_s = 1000.0
        producer._sending.clock = producer._sending.faults._clock = self

    def __call__(self) -> float:
        return self.now_s


def _brokers_of(producer: Any, count: int) -> list[str]:
    """Send messages; return the names of the brokers that stored them."""
    return [producer.send(Message("T", b"x")).queue.broker_name for _ in range(count)]


@pytest.fixture
def two_brokers() -> Iterator[FaultyNetwork]:
    with FaultyNetwork(brokers=2) as network:
        with Admin(network.cluster.address) as admin:
            admin.create_topic("T", queues=2)
        yield network


def test_latency_faults_keep_a_producer_away_from_a_slow_broker(
    two_brokers: FaultyNetwork, way: Way
) -> None:
    options = {"group": "g", "latency_faults": True}
    with way(Producer, AsyncProducer)(two_brokers.address, **options) as producer:
        clock = Clock(producer)
        assert set(_brokers_of(producer, 8)) == BOTH

        def slowly(data: bytes) -> bytes:
            # From 550 ms on, a broker is avoided for 30 s.
            clock.now_s += 0.6 if IN_ANSWERS_TO_SENDS in data else 0
            return data

        two_brokers.broker._rewrite = slowly
        assert _brokers_of(producer, 4).count("broker-a") == 1, "once, to find out"
        two_brokers.broker._rewrite = bytes
        assert set(_brokers_of(producer, 8)) == {"broker-b"}
        clock.now_s += 29
        assert set(_brokers_of(producer, 8)) == {"broker-b"}
        clock.now_s += 2
        assert set(_brokers_of(producer, 8)) == BOTH


def test_latency_faults_keep_a_producer_away_from_a_broker_that_failed(
    two_brokers: FaultyNetwork, way: Way
) -> None:
    options = {"group": "g", "latency_faults": True}
    with way(Producer, AsyncProducer)(two_brokers.address, **options) as producer:
        clock = Clock(producer)
        assert set(_brokers_of(producer, 8)) == BOTH
        two_brokers.broker.refuse()
        assert set(_brokers_of(producer, 4)) == {"broker-b"}
        two_brokers.broker.refuse(False)
        clock.now_s += 599
        assert set(_brokers_of(producer, 8)) == {"broker-b"}, "a failure counts for ten minutes"
        clock.now_s += 2
        assert set(_brokers_of(producer, 8)) == BOTH
