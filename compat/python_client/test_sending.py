"""Producers of either kind, against every kind of broker. Java's client reads what they sent."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import ReadAll, Way, await_true, count, sha1
from orbitmq.admin.admin import Admin
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import BadMessage, NoRoute
from orbitmq.message import Message, SendStatus

MAX_BODY = 4 << 20

MakeProducer = Callable[..., Producer]


@pytest.fixture
def make_producer(cluster: Cluster, way: Way, group: str) -> Iterator[MakeProducer]:
    producers = []

    def make(**settings: object) -> Producer:
        settings = {"group": f"P-{group}", "timeout_ms": 10_000, **settings}
        producer: Producer = way(Producer, AsyncProducer)(cluster.address, **settings)
        producers.append(producer)
        return producer.start()

    yield make
    for producer in producers:
        producer.close()


@pytest.fixture
def producer(make_producer: MakeProducer) -> Producer:
    return make_producer()


def test_sent_messages_are_read_by_java(producer: Producer, topic: str, read_all: ReadAll) -> None:
    bodies = [f"öre {number}".encode() for number in range(20)]
    results = [
        producer.send(
            Message(
                topic,
                body,
                tags="paid",
                keys=["42", f"k{number}"],
                properties={"shop": "Malmö", "number": str(number)},
                flag=number,
            )
        )
        for number, body in enumerate(bodies)
    ]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert {result.queue.broker_name for result in results} == {"broker-a", "broker-b"}
    assert all(re.fullmatch(r"[0-9A-F]{32}", result.message_id) for result in results)
    assert len({result.message_id for result in results}) == 20

    read = {message["id"]: message for message in read_all(topic, 20)}
    for number, (body, result) in enumerate(zip(bodies, results, strict=True)):
        message = read[result.message_id]
        assert message["body_sha1"] == sha1(body)
        assert message["tags"] == "paid"
        assert message["keys"] == f"42 k{number}"
        assert message["flag"] == number
        assert message["properties"]["shop"] == "Malmö"
        assert message["queue_offset"] == result.queue_offset
        assert f"brokerName={result.queue.broker_name}" in message["queue"]
        assert f"queueId={result.queue.queue_id}" in message["queue"]


def test_a_message_is_found_by_either_id(producer: Producer, topic: str, admin: Admin) -> None:
    result = producer.send(Message(topic, b"here", keys=["a-key"]))
    await_true("the index has it", lambda: admin.messages_by_key(topic, "a-key"))
    for message_id in (result.message_id, result.offset_id):
        found = admin.message_by_id(topic, message_id)
        assert found is not None
        assert found.body == b"here"


def test_oneway_messages_are_stored(producer: Producer, topic: str, admin: Admin) -> None:
    for number in range(10):
        producer.send_oneway(Message(topic, b"%d" % number))
    await_true("all are stored", lambda: count(admin, topic) == 10)


def test_a_batch_is_read_message_by_message_by_java(
    producer: Producer, topic: str, read_all: ReadAll
) -> None:
    messages = [Message(topic, b"%d" % number, tags=f"t{number}") for number in range(5)]
    result = producer.send_many(messages)
    ids = result.message_id.split(",")
    assert len(ids) == len(result.offset_id.split(",")) == 5
    read = read_all(topic, 5)
    assert [message["id"] for message in read] == ids
    assert [message["tags"] for message in read] == [f"t{number}" for number in range(5)]
    assert [message["queue_offset"] for message in read] == list(
        range(result.queue_offset, result.queue_offset + 5)
    )


def test_messages_of_one_key_go_to_one_queue(producer: Producer, topic: str) -> None:
    results = [producer.send(Message(topic, b"x"), sharding_key="customer-7") for _ in range(5)]
    assert len({result.queue for result in results}) == 1
    assert [result.queue_offset for result in results] == list(range(5))
    chosen = producer.queues(topic)[-1]
    assert producer.send(Message(topic, b"x"), queue=chosen).queue == chosen
    assert (
        producer.send(Message(topic, b"x"), selector=lambda queues, _: queues[1]).queue
        == (producer.queues(topic)[1])
    )


def test_a_delayed_message_is_delivered_after_its_level(
    producer: Producer, topic: str, admin: Admin
) -> None:
    producer.send(Message(topic, b"late", keys=["late"], delay_level=1))
    await_true("it is delivered", lambda: count(admin, topic) == 1)
    await_true("it is indexed", lambda: admin.messages_by_key(topic, "late"))
    (late,) = admin.messages_by_key(topic, "late")
    assert late.store_timestamp - late.born_timestamp >= 900


def test_delivery_at_a_time_works_or_is_refused_by_release(
    producer: Producer, topic: str, admin: Admin, request: pytest.FixtureRequest
) -> None:
    # 4.9 does not support such times: it delivers a message due in an hour at once.
    knows = request.node.callspec.params["cluster"] != "4.9.7"
    wait = timedelta(seconds=3) if knows else timedelta(hours=1)
    producer.send(Message(topic, b"late", keys=["late"], delay=wait))
    producer.send(Message(topic, b"late", keys=["late"], deliver_at=datetime.now(UTC) + wait))
    await_true("both are delivered", lambda: count(admin, topic) == 2)
    await_true("both are indexed", lambda: len(admin.messages_by_key(topic, "late")) == 2)
    if knows:
        for late in admin.messages_by_key(topic, "late"):
            # 5.x counts in whole seconds.
            assert late.store_timestamp - late.born_timestamp >= 1900


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd"])
def test_compressed_bodies_are_read_by_java(
    make_producer: MakeProducer, topic: str, read_all: ReadAll, codec: str
) -> None:
    body = b"the same words again and again, " * 1000
    make_producer(codec=codec).send(Message(topic, body))
    (read,) = read_all(topic, 1)
    assert read["body_sha1"] == sha1(body)


def test_bodies_up_to_4_mib_are_stored(
    make_producer: MakeProducer, topic: str, read_all: ReadAll
) -> None:
    producer = make_producer(compress_over_bytes=2 * MAX_BODY)
    body = os.urandom(MAX_BODY)
    producer.send(Message(topic, body))
    (read,) = read_all(topic, 1)
    assert read["body_size"] == MAX_BODY
    assert read["body_sha1"] == sha1(body)
    with pytest.raises(BadMessage):
        producer.send(Message(topic, body + b"x"))


def test_lingering_messages_are_batched_with_their_own_results(
    make_producer: MakeProducer, topic: str, read_all: ReadAll
) -> None:
    producer = make_producer(linger_ms=20)
    with ThreadPoolExecutor(40) as pool:
        results = list(pool.map(lambda n: producer.send(Message(topic, b"%d" % n)), range(40)))
    read = {message["id"]: message for message in read_all(topic, 40)}
    for number, result in enumerate(results):
        message = read[result.message_id]
        assert message["body_sha1"] == sha1(b"%d" % number)
        assert message["queue_offset"] == result.queue_offset


def test_a_topic_is_created_by_its_first_message(
    producer: Producer, mark: str, admin: Admin
) -> None:
    topic = f"New-{mark}"
    producer.send(Message(topic, b"first"))
    await_true("the nameserver knows it", lambda: topic in admin.topic_names())
    await_true("it is stored", lambda: count(admin, topic) == 1)


def test_an_unreachable_nameserver_is_an_error(way: Way, group: str) -> None:
    with (
        way(Producer, AsyncProducer)("127.0.0.1:1", group=group) as producer,
        pytest.raises(NoRoute, match=r"127\.0\.0\.1:1") as caught,
    ):
        producer.send(Message("T", b"x"), timeout_ms=300)
    assert caught.value.cause == "no_nameserver"
