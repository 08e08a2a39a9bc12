"""Polling and pull consumers of either kind, against every kind of broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Way, await_true, count
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
from orbitmq.client.consumer.pull import AsyncPullConsumer, PullConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import ConfigError
from orbitmq.message import Message, MessageQueue, PullStatus

Open = Callable[..., Any]


@pytest.fixture
def open_consumer(cluster: Cluster, way: Way, group: str) -> Iterator[Open]:
    consumers = []

    def open_one(*topics: str, **settings: Any) -> Any:
        settings = {"group": group, "consume_from": "first", "rebalance_s": 2, **settings}
        consumer = way(Consumer, AsyncConsumer)(cluster.address, *topics, **settings)
        consumers.append(consumer)
        return consumer

    yield open_one
    for consumer in consumers:
        consumer.stop()


def take(consumer: Any, wanted: int) -> list[Any]:
    """Poll until a number of messages has arrived."""
    messages: list[Any] = []
    while len(messages) < wanted:
        more = consumer.poll(timeout_s=20)
        assert more, f"only {len(messages)} of {wanted} messages came"
        messages += more
    return messages


def send_numbers(producer: Producer, topic: str, numbers: range) -> list[bytes]:
    bodies = [b"%d" % number for number in numbers]
    for body in bodies:
        producer.send(Message(topic, body))
    return bodies


def bodies_of(messages: list[Any]) -> list[bytes]:
    return sorted((message.body for message in messages), key=int)


def test_messages_are_iterated_in_order_of_each_queue(
    producer: Producer, topic: str, open_consumer: Open
) -> None:
    sent = send_numbers(producer, topic, range(50))
    consumer = open_consumer(topic).start()
    messages = list(itertools.islice(consumer, 50))
    assert bodies_of(messages) == sent
    by_queue: dict[MessageQueue, int] = {}
    for message in messages:
        assert message.queue_offset == by_queue.get(message.queue, 0)
        by_queue[message.queue] = message.queue_offset + 1


def test_messages_are_polled_in_lists(producer: Producer, topic: str, open_consumer: Open) -> None:
    consumer = open_consumer(topic).start()
    assert consumer.poll(timeout_s=0.1) == []
    sent = send_numbers(producer, topic, range(50))
    assert bodies_of(take(consumer, 50)) == sent
    assert consumer.poll(timeout_s=0.1) == []
    await_true("all queues are ours", lambda: len(consumer.assignment) == 4)


def test_tags_filter_messages(producer: Producer, topic: str, open_consumer: Open) -> None:
    for number in range(20):
        producer.send(Message(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd"))
    consumer = open_consumer(topic, tags="even").start()
    assert bodies_of(take(consumer, 10)) == [b"%d" % number for number in range(0, 20, 2)]


def test_sql_filters_messages(producer: Producer, topic: str, open_consumer: Open) -> None:
    def send(number: int) -> None:
        properties = {"number": str(number), "parity": ["even", "odd"][number % 2]}
        producer.send(Message(topic, b"%d" % number, properties=properties))

    for number in range(20):
        send(number)
    consumer = open_consumer(topic, sql="number > 4 AND parity = 'odd'").start()
    wanted = [b"%d" % number for number in range(5, 20, 2)]
    assert bodies_of(take(consumer, len(wanted))) == wanted
    for number in (20, 3, 21):
        send(number)
    assert bodies_of(take(consumer, 1)) == [b"21"], "a held pull is woken by its own"


def test_an_invalid_expression_is_refused(topic: str, open_consumer: Open) -> None:
    with pytest.raises(ConfigError, match="does not understand the filter 'number >'"):
        open_consumer(topic, sql="number >").start()
    running = open_consumer(topic).start()
    with pytest.raises(ConfigError, match="does not understand the filter 'a = '"):
        running.subscribe(topic, sql="a = ")
    assert len(running.queues(topic)) == 4, "it goes on as before"


def test_a_group_continues_where_it_ended(
    producer: Producer, topic: str, group: str, open_consumer: Open, admin: Admin
) -> None:
    send_numbers(producer, topic, range(20))
    first = open_consumer(topic).start()
    take(first, 20)
    first.stop()
    assert admin.group_lag(group, topic).total == 0
    sent = send_numbers(producer, topic, range(20, 40))
    second = open_consumer(topic).start()
    assert bodies_of(take(second, 20)) == sent


def test_offsets_are_committed_by_hand(
    producer: Producer, topic: str, group: str, open_consumer: Open, admin: Admin
) -> None:
    send_numbers(producer, topic, range(20))
    consumer = open_consumer(topic, auto_commit=False).start()
    take(consumer, 20)
    assert admin.group_lag(group, topic).total == 20
    consumer.commit()
    assert admin.group_lag(group, topic).total == 0
    queue = consumer.assignment[0]
    consumer.commit({queue: 1})
    assert consumer.committed(queue) == 1
    assert admin.committed_offsets(group, topic)[queue] == 1


def test_uncommitted_messages_come_again(
    producer: Producer, topic: str, open_consumer: Open
) -> None:
    sent = send_numbers(producer, topic, range(20))
    for _ in range(2):
        consumer = open_consumer(topic, auto_commit=False).start()
        assert bodies_of(take(consumer, 20)) == sent
        consumer.stop()


def test_an_assigned_queue_can_be_sought(
    producer: Producer, topic: str, open_consumer: Open, admin: Admin
) -> None:
    queue, other = producer.queues(topic)[:2]
    times = []
    for number in range(10):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    producer.send(Message(topic, b"other"), queue=other)
    await_true("all are stored", lambda: count(admin, topic) == 11)
    consumer = open_consumer()
    consumer.start()
    assert queue in consumer.queues(topic)
    consumer.assign([queue])
    messages = take(consumer, 10)
    assert bodies_of(messages) == [b"%d" % number for number in range(10)]
    times = [message.store_timestamp for message in messages]

    consumer.seek(queue, 7)
    assert bodies_of(take(consumer, 3)) == [b"7", b"8", b"9"]
    consumer.seek_to_begin(queue)
    assert bodies_of(take(consumer, 10))[0] == b"0"
    assert consumer.begin_offset(queue) == 0
    assert consumer.end_offset(queue) == 10
    assert times[consumer.offset_for_time(queue, times[5])] == times[5]
    consumer.seek_to_end(queue)
    producer.send(Message(topic, b"10"), queue=queue)
    assert bodies_of(take(consumer, 1)) == [b"10"]


def test_a_paused_queue_returns_no_messages_until_it_is_resumed(
    producer: Producer, topic: str, open_consumer: Open
) -> None:
    one, other = producer.queues(topic)[:2]
    consumer = open_consumer()
    consumer.start()
    consumer.assign([one, other])
    producer.send(Message(topic, b"1"), queue=one)
    producer.send(Message(topic, b"2"), queue=other)
    assert bodies_of(take(consumer, 2)) == [b"1", b"2"]
    consumer.pause(one)
    producer.send(Message(topic, b"3"), queue=other)
    first = take(consumer, 1)
    producer.send(Message(topic, b"4"), queue=one)
    producer.send(Message(topic, b"5"), queue=other)
    # The held pull of the paused queue receives its message, but does not deliver it yet.
    first += take(consumer, 1)
    producer.send(Message(topic, b"6"), queue=one)
    first += consumer.poll(timeout_s=0.5)
    assert bodies_of(first) == [b"3", b"5"]
    consumer.resume(one)
    while b"6" not in bodies_of(first):
        first += take(consumer, 1)
    assert bodies_of(first) == [b"3", b"4", b"5", b"6"]


def test_two_members_share_the_queues(producer: Producer, topic: str, open_consumer: Open) -> None:
    one = open_consumer(topic, instance_name="one").start()
    other = open_consumer(topic, instance_name="other").start()
    await_true("each has half", lambda: len(one.assignment) == len(other.assignment) == 2)
    assert not set(one.assignment) & set(other.assignment)
    other.stop()
    await_true("one has all", lambda: len(one.assignment) == 4)
    sent = send_numbers(producer, topic, range(20))
    assert bodies_of(take(one, 20)) == sent


def test_a_pull_consumer_reads_a_queue(
    cluster: Cluster, way: Way, producer: Producer, topic: str, group: str, admin: Admin
) -> None:
    queue = producer.queues(topic)[0]
    for number in range(10):
        tags = "even" if number % 2 == 0 else "odd"
        message = Message(topic, b"%d" % number, tags=tags, properties={"n": str(number)})
        producer.send(message, queue=queue)
    await_true("all are stored", lambda: count(admin, topic) == 10)
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group) as consumer:
        assert sorted(consumer.queues(topic)) == sorted(producer.queues(topic))
        result = consumer.pull(queue, 0, 4)
        assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 4, 10)
        assert bodies_of(result.messages) == [b"0", b"1", b"2", b"3"]
        odd = consumer.pull(queue, 4, 32, tags="odd")
        assert bodies_of(odd.messages) == [b"5", b"7", b"9"]
        assert odd.next_offset == 10
        some = consumer.pull(queue, 0, 32, sql="n BETWEEN 2 AND 4")
        assert bodies_of(some.messages) == [b"2", b"3", b"4"]
        assert consumer.pull(queue, 10, 32).status is PullStatus.NO_NEW_MESSAGE
        assert consumer.pull(queue, 1000, 32).status is PullStatus.OFFSET_ILLEGAL
        assert consumer.committed(queue) in (0, None)
        consumer.commit({queue: 4})
        assert consumer.committed(queue) == 4
    assert admin.committed_offsets(group, topic)[queue] == 4
