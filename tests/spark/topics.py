"""Helpers that fill topics, and read them from the brokers' stores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from orbitmq import Message, Producer, Record, Store
from orbitmq.testing import LocalCluster

__all__ = [
    "bodies_in",
    "bodies_of_store",
    "count_in",
    "produce",
    "records_in",
    "wait_for_records",
]


def records_in(cluster: LocalCluster, topic: str) -> list[tuple[str, Record]]:
    """Return all records of a topic with the names of their brokers, queue by queue."""
    return [
        (name, record)
        for name, broker in sorted(cluster.brokers.items())
        for stored_topic, queue_id in broker.store.queues()
        if stored_topic == topic
        for record in _queue(broker.store, topic, queue_id)
    ]


def bodies_of_store(store: Store, topic: str) -> Counter[bytes]:
    """Return how often each body is in a topic of a store that no broker has open."""
    return Counter(
        record.body
        for stored_topic, queue_id in store.queues()
        if stored_topic == topic
        for record in _queue(store, topic, queue_id)
    )


def _queue(store: Store, topic: str, queue_id: int) -> Iterator[Record]:
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        read = store.read(topic, queue_id, offset, max_messages=10_000, max_bytes=64 << 20)
        yield from read.records()
        offset = read.next_offset


def bodies_in(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    """Return how often each body is in a topic."""
    return Counter(record.body for _, record in records_in(cluster, topic))


def count_in(cluster: LocalCluster, topic: str) -> int:
    """Return how many records a topic has."""
    return sum(
        broker.store.max_offset(topic, queue_id) - broker.store.min_offset(topic, queue_id)
        for broker in cluster.brokers.values()
        for stored_topic, queue_id in broker.store.queues()
        if stored_topic == topic
    )


def wait_for_records(cluster: LocalCluster, topic: str, count: int, within_s: float = 30) -> None:
    """Wait until a topic has at least a number of records."""
    deadline = time.monotonic() + within_s
    while (found := count_in(cluster, topic)) < count:
        assert time.monotonic() < deadline, f"{topic} has only {found}"
        time.sleep(0.05)


def produce(
    cluster: LocalCluster | str, topic: str, bodies: Iterable[bytes], batch: int = 500
) -> None:
    """Send bodies in batches, spread over the topic's queues."""
    address = cluster if isinstance(cluster, str) else cluster.address
    with Producer(address, group="tests") as producer:
        waiting: list[Message] = []
        for body in bodies:
            waiting.append(Message(topic, body))
            if len(waiting) == batch:
                producer.send_many(waiting)
                waiting.clear()
        if waiting:
            producer.send_many(waiting)
