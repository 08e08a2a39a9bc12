"""A forked child has copies of its parent's clients: ending them does not affect the parent.

Parent and child share sockets, and what the background loop polls them with. A child that closed a
connection, or said goodbye on it, would do so for the parent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import (
    Admin,
    Consumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
    reply_to,
)
from orbitmq.client import background
from orbitmq.client.instance import ClientInstance
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, eventually

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def in_child(work: Callable[[], object]) -> str:
    """Run a function in a forked child, and return the text of its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing"
        try:
            text = repr(work())
        except BaseException as error:
            text = f"failed: {error!r}"
        finally:
            os.write(writing, text.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def answered_heartbeats(instance: ClientInstance) -> int:
    instance.broker_versions.clear()
    background.run(instance.heartbeat())
    return len(instance.broker_versions)


def told_to_start(kind: Any, address: str, topic: str, group: str, seen: Seen) -> Any:
    """Return a running consumer and its instance."""
    if kind is Consumer:
        reader = Consumer(address, topic, group=group, consume_from="first").start()
        return reader, reader._running.instance
    consumer = kind(address, group=group, consume_from="first")
    if kind is PushConsumer:
        consumer.on(topic)(seen)
        return consumer.start(), consumer._running.instance
    consumer.start()
    consumer.begin_offset(consumer.queues(topic)[0])  # From now on brokers know it.
    return consumer, consumer._running


@pytest.mark.parametrize("kind", [PushConsumer, Consumer, PullConsumer])
def test_stopping_a_consumer_in_a_child_leaves_the_parent_registered(
    kind: Any, cluster: LocalCluster, topic: str, group: str, send: Any, seen: Seen
) -> None:
    send("before")
    consumer, instance = told_to_start(kind, cluster.address, topic, group, seen)
    try:
        with Admin(cluster.address) as admin:
            eventually(lambda: admin.group_members(group) is not None)
            assert in_child(consumer.stop) == "None"
            assert admin.group_members(group) is not None, "the child said goodbye for the parent"
        assert answered_heartbeats(instance) == 1, "the parent is deaf to its connection"
        send("after")
        if kind is PushConsumer:
            assert sorted(seen.wait(2)) == ["after", "before"]
        elif kind is Consumer:
            got: set[bytes] = set()
            while got != {b"before", b"after"}:
                more = consumer.poll(timeout_s=20)
                assert more, got
                got.update(message.body for message in more)
    finally:
        consumer.stop()


def test_closing_a_producer_in_a_child_leaves_the_parent_registered(
    cluster: LocalCluster, topic: str
) -> None:
    (broker,) = cluster.brokers.values()
    with Producer(cluster.address, group="forks", timeout_ms=10_000) as producer:
        producer.send(Message(topic, b"parent"))
        instance, client_id = producer._running(), producer.client_id

        def is_known() -> bool:
            async def look() -> bool:
                return broker.producers.of_client(client_id) is not None

            return cluster.run(look())

        eventually(is_known)
        assert in_child(producer.close) == "None"
        assert is_known(), "the child has said goodbye for the parent"
        assert answered_heartbeats(instance) == 1, "the parent is deaf to its connection"
        producer.send(Message(topic, b"parent again"))


def test_a_child_sends_transactions_as_a_client_of_its_own(
    cluster: LocalCluster, topic: str
) -> None:
    def check(_message: Any) -> TransactionState:
        return TransactionState.UNKNOWN

    (broker,) = cluster.brokers.values()
    with TransactionProducer(cluster.address, group="forks-tx", check=check) as producer:
        producer.send(Message(topic, b"parent"))

        def child() -> tuple[bool, bool]:
            commit = lambda _message, _sent: TransactionState.COMMIT  # noqa: E731
            producer.send_in_transaction(Message(topic, b"child"), commit)
            instance = producer._running()
            asked = eventually_known(instance)
            return asked, instance.routes is producer._sending.routes  # type: ignore[union-attr]

        assert in_child(child) == "(True, True)"

        def count() -> int:
            async def look() -> int:
                return sum(broker.store.max_offset(topic, number) for number in range(4))

            return cluster.run(look())

        eventually(lambda: count() == 2)


def eventually_known(instance: ClientInstance) -> bool:
    """Wait until a broker has answered a heartbeat; before, it cannot send checks here."""
    eventually(lambda: bool(instance.broker_versions))
    return True


def test_a_child_sends_requests_and_receives_its_own_replies(
    cluster: LocalCluster, topic: str, group: str, send: Any
) -> None:
    send("no question")  # Create the topic.
    with (
        Producer(cluster.address, group="forks-ask", timeout_ms=10_000) as asking,
        Producer(cluster.address, group="forks-answer") as answering,
    ):
        consumer = PushConsumer(cluster.address, group=group, consume_from="first", rebalance_s=1)

        @consumer.on(topic)
        def answer(message: Any) -> None:
            if message.body != b"no question":
                answering.send(reply_to(message, b"re: " + message.body))

        with consumer:
            assert asking.request(Message(topic, b"parent")).body == b"re: parent"

            def child() -> list[bytes]:
                return [asking.request(Message(topic, b"%d" % n)).body for n in range(2)]

            assert in_child(child) == "[b're: 0', b're: 1']"
            assert asking.request(Message(topic, b"again")).body == b"re: again"
