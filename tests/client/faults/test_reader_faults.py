"""Polling consumers on a failing network: each queue is read whole and in order."""

from __future__ import annotations

import gc
import itertools
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message
from tests.client.faults.conftest import Remains, weakly
from tests.client.faults.proxy import FaultyNetwork

Way = Callable[..., Any]
SETTINGS: dict[str, Any] = {
    "group": "g",
    "consume_from": "first",
    "error_delay_ms": 50,
    "rebalance_s": 1,
    "offset_persist_s": 0.2,
    "route_refresh_s": 0.5,
}


@pytest.fixture
def producer(network: FaultyNetwork, admin: Admin) -> Iterator[Producer]:
    """A producer that bypasses the proxies."""
    admin.create_topic("T", queues=4)
    with Producer(network.cluster.address, group="p") as producer:
        yield producer


def send_numbers(producer: Producer, numbers: range) -> list[bytes]:
    bodies = [b"%d" % number for number in numbers]
    for body in bodies:
        producer.send(Message("T", body))
    return bodies


def take(consumer: Any, wanted: int) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < wanted:
        more = consumer.poll(timeout_s=20)
        assert more, f"only {len(messages)} of {wanted} messages came"
        messages += more
    return messages


def assert_whole(messages: list[Any]) -> None:
    """Assert that each queue came from its beginning, without gaps and repeats."""
    for queue, of_queue in itertools.groupby(
        sorted(messages, key=lambda message: message.queue), key=lambda message: message.queue
    ):
        offsets = [message.queue_offset for message in of_queue]
        assert offsets == list(range(len(offsets))), queue


def test_queues_are_read_whole_when_frames_are_cut(
    network: FaultyNetwork, producer: Producer, way: Way
) -> None:
    got = []
    with way(Consumer, AsyncConsumer)(network.address, "T", **SETTINGS) as consumer:
        for round_number in range(4):
            network.broker.cut_after(700 + 531 * round_number, answers=round_number % 2 == 0)
            send_numbers(producer, range(40))
            got += take(consumer, 40)
        assert network.broker.cuts >= 3
    assert len(got) == 160
    assert_whole(got)


def test_queues_are_read_whole_on_a_slow_network(
    network: FaultyNetwork, producer: Producer, way: Way
) -> None:
    network.broker.delay_s = 0.03
    with way(Consumer, AsyncConsumer)(network.address, "T", **SETTINGS) as consumer:
        for _ in range(4):
            send_numbers(producer, range(20))
        got = take(consumer, 80)
    assert_whole(got)


def test_queues_are_read_whole_when_the_broker_restarts(
    network: FaultyNetwork, producer: Producer, way: Way
) -> None:
    with way(Consumer, AsyncConsumer)(network.address, "T", **SETTINGS) as consumer:
        send_numbers(producer, range(50))
        got = take(consumer, 50)
        network.restart_broker()
        with Producer(network.cluster.address, group="q") as again:
            send_numbers(again, range(50))
        got += take(consumer, 50)
    assert_whole(got)


def test_an_unfinished_list_comes_again_after_a_stop(
    network: FaultyNetwork, producer: Producer, way: Way
) -> None:
    """A program that dies while it handles a list gets that list again, and nothing before it."""
    make = way(Consumer, AsyncConsumer)
    send_numbers(producer, range(100))
    consumer = make(network.address, "T", **SETTINGS).start()
    first, second = consumer.poll(10), consumer.poll(10)
    consumer.stop(last_is_done=False)  # As leaving a with block by an exception does.
    with make(network.address, "T", **SETTINGS) as consumer:
        rest = take(consumer, 100 - len(first))
    done = {message.message_id for message in first}
    assert not done & {message.message_id for message in rest}
    assert {message.message_id for message in second} <= {message.message_id for message in rest}


@pytest.mark.usefixtures("unseen_log")
def test_a_stopped_reader_leaves_no_objects_or_connections(
    network: FaultyNetwork, producer: Producer, way: Way
) -> None:
    make = way(Consumer, AsyncConsumer)

    def once() -> weakref.ref[Any]:
        with make(network.address, "T", **SETTINGS) as consumer:
            send_numbers(producer, range(10))
            take(consumer, 10)
            network.broker.cut()
            send_numbers(producer, range(10))
            take(consumer, 10)
            return weakly(consumer)

    once()
    remains = Remains(network)
    remains.assert_none([once() for _ in range(6)])


def own_bytes() -> int:
    """Return the memory of this process without mapped files, such as the store's log."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def test_memory_does_not_grow_with_the_messages_read(
    network: FaultyNetwork, producer: Producer, way: Way
) -> None:
    """Read a hundred megabytes through a consumer that may hold half a megabyte."""
    body = os.urandom(1 << 16)
    settings = SETTINGS | {"max_cached_bytes": 1 << 19}

    def one_round(consumer: Any) -> None:
        for _ in range(10):
            producer.send_many([Message("T", body) for _ in range(24)])
            assert sum(len(message.body) for message in take(consumer, 24)) == 24 << 16

    with way(Consumer, AsyncConsumer)(network.address, "T", **settings) as consumer:
        for _ in range(3):
            one_round(consumer)
        gc.collect()
        before = own_bytes()
        for _ in range(7):
            one_round(consumer)
        gc.collect()
        grown = own_bytes() - before
    assert grown < 16 << 20, f"{grown >> 20} MiB more than before"
