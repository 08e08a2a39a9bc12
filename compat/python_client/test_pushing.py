"""Push consumers of either kind, against every kind of broker."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Catcher, Listen, ReadAll, await_true, count
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.handlers import OrderlyStatus
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message, MessageQueue


def test_messages_sent_before_and_after_the_start_arrive(
    producer: Producer, topic: str, listen: Listen
) -> None:
    catcher = Catcher()
    for number in range(100):
        producer.send(Message(topic, b"%d" % number))
    listen(topic, catcher.add)
    catcher.wait(100)
    for number in range(100, 200):
        producer.send(Message(topic, b"%d" % number))
    catcher.wait(200)
    assert Counter(catcher.bodies) == {b"%d" % number: 1 for number in range(200)}
    assert {message.topic for message in catcher.messages} == {topic}


def test_a_message_arrives_with_all_its_fields(
    producer: Producer, topic: str, listen: Listen
) -> None:
    catcher = Catcher()
    body = "grün ".encode() * 2000
    message = Message(topic, body, tags="new", keys=["a", "b"], properties={"p": "ä"}, flag=5)
    result = producer.send(message)
    listen(topic, catcher.add)
    (got,) = catcher.wait(1)
    assert got.body == body
    assert got.message_id == result.message_id
    assert got.offset_id == result.offset_id
    assert got.queue == result.queue
    assert got.queue_offset == result.queue_offset
    assert (got.tags, got.keys, got.flag) == ("new", ("a", "b"), 5)
    assert got.get_property("p") == "ä"
    assert got.reconsume_times == 0


def test_tags_filter_messages(producer: Producer, topic: str, listen: Listen) -> None:
    catcher = Catcher()
    for number in range(30):
        tags = ["red", "green", "blue"][number % 3]
        producer.send(Message(topic, b"%d" % number, tags=tags))
    listen(topic, catcher.add, tags="red || blue")
    assert {message.tags for message in catcher.wait(20)} == {"red", "blue"}
    producer.send(Message(topic, b"last", tags="red"))
    catcher.wait(21)
    assert len(catcher.messages) == 21


def test_sql_filters_messages(producer: Producer, topic: str, listen: Listen) -> None:
    catcher = Catcher()
    wanted = "price BETWEEN 10 AND 19 AND city IN ('Oslo', 'Rome') OR price IS NULL"

    def send(price: int) -> None:
        city = ["Oslo", "Rome", "Bonn"][price % 3]
        properties = {"price": str(price), "city": city}
        producer.send(Message(topic, b"%d" % price, properties=properties))

    for price in range(30):
        send(price)
    listen(topic, catcher.add, sql=wanted)
    expected = {b"%d" % price for price in range(10, 20) if price % 3 != 2}
    assert {message.body for message in catcher.wait(len(expected))} == expected
    send(5)
    producer.send(Message(topic, b"free"))
    assert catcher.wait(len(expected) + 1)[-1].body == b"free", "a held pull is woken by its own"
    assert len(catcher.messages) == len(expected) + 1


def test_a_handler_receives_batches(producer: Producer, topic: str, listen: Listen) -> None:
    catcher, sizes = Catcher(), []

    def handle(messages: list[Any]) -> None:
        sizes.append(len(messages))
        for message in messages:
            catcher.add(message)

    for start in range(0, 100, 20):
        producer.send_many([Message(topic, b"%d" % (start + n)) for n in range(20)])
    listen(topic, handle, batch=8)
    catcher.wait(100)
    assert sorted(catcher.bodies, key=int) == [b"%d" % number for number in range(100)]
    assert 1 < max(sizes) <= 8


def test_an_orderly_consumer_keeps_the_order_after_a_failure(
    producer: Producer, topic: str, listen: Listen
) -> None:
    catcher = Catcher()
    failed: list[Any] = []

    def handle(message: Any) -> None:
        if message.body == b"25" and not failed:
            failed.append(message)
            raise RuntimeError("not yet")
        catcher.add(message)

    for number in range(100):
        producer.send(Message(topic, b"%d" % number), sharding_key=str(number % 5))
    listen(topic, handle, orderly=True, suspend_ms=100)
    catcher.wait(100)
    by_queue = defaultdict(list)
    for message in catcher.messages:
        by_queue[message.queue].append(message.queue_offset)
    assert all(offsets == list(range(len(offsets))) for offsets in by_queue.values())
    assert len(failed) == 1


def test_an_orderly_consumer_commits_and_rolls_back_by_hand(
    producer: Producer, topic: str, group: str, listen: Listen, admin: Admin
) -> None:
    catcher, queue = Catcher(), producer.queues(topic)[0]

    def handle(message: Any) -> OrderlyStatus | None:
        catcher.add(message)
        if message.body == b"3" and len(catcher.messages) == 4:
            return OrderlyStatus.ROLLBACK
        return OrderlyStatus.COMMIT if message.body in b"14" else None

    for number in range(6):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    options = {"auto_commit": False, "suspend_ms": 20, "offset_persist_s": 0.2}
    consumer = listen(topic, handle, orderly=True, **options)
    assert [message.body for message in catcher.wait(8)] == [b"%c" % c for c in b"01232345"]
    # See test_a_group_continues_where_it_ended.
    await_true("it is committed", lambda: admin.committed_offsets(group, topic)[queue] == 5)
    consumer.stop()
    assert admin.committed_offsets(group, topic)[queue] == 5


def test_every_member_receives_a_broadcast(producer: Producer, topic: str, listen: Listen) -> None:
    catchers = [Catcher(), Catcher()]
    for number, catcher in enumerate(catchers):
        listen(topic, catcher.add, broadcast=True, instance_name=f"one-{number}")
    for number in range(20):
        producer.send(Message(topic, b"%d" % number))
    for catcher in catchers:
        catcher.wait(20)
        assert sorted(catcher.bodies, key=int) == [b"%d" % number for number in range(20)]


def test_a_broadcast_consumer_continues_where_it_ended(
    producer: Producer, topic: str, listen: Listen
) -> None:
    first, second = Catcher(), Catcher()
    producer.send(Message(topic, b"first"))
    consumer = listen(topic, first.add, broadcast=True, instance_name="same")
    first.wait(1)
    consumer.stop()
    producer.send(Message(topic, b"second"))
    listen(topic, second.add, broadcast=True, instance_name="same")
    second.wait(1)
    assert second.bodies == [b"second"]


def test_a_failed_message_comes_again(producer: Producer, topic: str, listen: Listen) -> None:
    catcher = Catcher()

    def handle(message: Any) -> None:
        catcher.add(message)
        if message.body == b"bad" and message.reconsume_times == 0:
            raise RuntimeError("try again")

    producer.send(Message(topic, b"bad", keys=["k"], tags="t"))
    producer.send(Message(topic, b"good"))
    listen(topic, handle)
    tries = [message for message in catcher.wait(3) if message.body == b"bad"]
    assert [message.reconsume_times for message in tries] == [0, 1]
    assert {message.topic for message in tries} == {topic}
    assert {message.message_id for message in tries} == {tries[0].message_id}
    assert (tries[1].tags, tries[1].keys) == ("t", ("k",))


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_a_failing_message_becomes_a_dead_letter(
    producer: Producer, topic: str, group: str, listen: Listen, admin: Admin, orderly: bool
) -> None:
    tries = Catcher()

    def handle(message: Any) -> None:
        tries.add(message)
        if message.body == b"poison":
            raise RuntimeError("never")

    producer.send(Message(topic, b"poison"), sharding_key="k")
    producer.send(Message(topic, b"next"), sharding_key="k")
    listen(topic, handle, max_reconsume_times=1, orderly=orderly, suspend_ms=50)
    dead = f"%DLQ%{group}"
    await_true("a dead letter", lambda: dead in admin.topic_names() and count(admin, dead) == 1)
    # The dead letter exists before the ordered queue continues with the message behind it.
    assert Counter(message.body for message in tries.wait(3)) == {b"poison": 2, b"next": 1}


def test_a_group_continues_where_it_ended(
    producer: Producer, topic: str, group: str, listen: Listen, admin: Admin
) -> None:
    first, second = Catcher(), Catcher()
    for number in range(20):
        producer.send(Message(topic, b"%d" % number))
    consumer = listen(topic, first.add, offset_persist_s=0.2)
    first.wait(20)
    # Java's brokers may carry out a commit that came with a pull after one that was sent later, so
    # what they have in the end is sure only after a few.
    await_true("all is committed", lambda: admin.group_lag(group, topic).total == 0)
    consumer.stop()
    assert admin.group_lag(group, topic).total == 0
    for number in range(20, 40):
        producer.send(Message(topic, b"%d" % number))
    listen(topic, second.add)
    second.wait(20)
    assert sorted(second.bodies, key=int) == [b"%d" % number for number in range(20, 40)]


def test_two_members_share_the_queues(
    producer: Producer, topic: str, group: str, listen: Listen, admin: Admin
) -> None:
    one, other = Catcher(), Catcher()
    listen(topic, one.add, instance_name="one")
    listen(topic, other.add, instance_name="other")
    queues = producer.queues(topic)
    assert len(queues) == 4
    rounds = itertools.count()

    def shares() -> bool:
        body = b"%d" % next(rounds)
        for queue in queues:
            producer.send(Message(topic, body), queue=queue)

        def came(catcher: Catcher) -> set[MessageQueue]:
            return {message.queue for message in list(catcher.messages) if message.body == body}

        await_true("all came", lambda: len(came(one) | came(other)) == 4)
        return len(came(one)) == len(came(other)) == 2

    await_true("each has half of the queues", shares)
    members = admin.group_members(group)
    assert members is not None
    assert len(members.members) == 2


def test_a_group_with_offsets_set_to_the_end_gets_only_new_messages(
    producer: Producer, topic: str, group: str, listen: Listen, admin: Admin
) -> None:
    catcher = Catcher()
    for _ in range(10):
        producer.send(Message(topic, b"old"))
    await_true("all are stored", lambda: count(admin, topic) == 10)
    admin.create_group(group)
    admin.set_offsets(group, admin.offsets_at(topic, "latest"))
    listen(topic, catcher.add, consume_from="first")
    producer.send(Message(topic, b"new"))
    catcher.wait(1)
    assert catcher.bodies == [b"new"]


def test_names_are_without_the_namespace_for_the_handler(
    cluster: Cluster, mark: str, group: str, listen: Listen, read_all: ReadAll
) -> None:
    """Names have no namespace inside; Java, outside, sees them with it."""
    topic, catcher = f"T{mark}", Catcher()

    def handle(message: Any) -> None:
        catcher.add(message)
        if message.reconsume_times == 0:
            raise RuntimeError("try again")

    with Admin(cluster.address, namespace="shop") as admin:
        admin.create_topic(topic, queues=1)
        with Producer(cluster.address, group=group, namespace="shop") as producer:
            sent = producer.send(Message(topic, b"inside", keys=["k"]))
        consumer = listen(topic, handle, namespace="shop", offset_persist_s=0.2)
        first, again = catcher.wait(2)
        assert (first.topic, again.topic, first.queue) == (topic, topic, sent.queue)
        await_true("all is committed", lambda: admin.group_lag(group).total == 0)
        members = admin.group_members(group)
        assert members is not None
        assert set(members.subscriptions) == {topic, f"%RETRY%{group}"}
        consumer.stop()
        await_true("it is indexed", lambda: admin.messages_by_key(topic, "k"))
        found = admin.message_by_id(topic, sent.message_id)
        assert found is not None
        assert (found.topic, found.queue) == (topic, sent.queue)
    (read,) = read_all(f"shop%{topic}", 1)
    assert read["id"] == sent.message_id
    assert read["properties"]["INSTANCE_ID"] == "shop"
