"""A filter refused by brokers while its consumer runs: an error that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import Message, Producer
from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.errors import ConfigError
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, eventually, has_route

BAD = "price >"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster


@pytest.fixture
def subscribe(way: Any) -> Callable[..., None]:
    """Have a push consumer of either kind pass a topic to a function, also while it is running."""

    def subscribe(consumer: Any, topic: str, function: Callable[[Any], Any], **how: Any) -> None:
        if way.kind == "sync":
            consumer.on(topic, **how)(function)
            return

        async def handle(message: Any) -> Any:
            return function(message)

        consumer.subscribe(topic, handle, **how)

    return subscribe


@pytest.fixture
def consumer(way: Any, cluster: LocalCluster, group: str) -> Any:
    options: dict[str, Any] = {"group": group, "consume_from": "first", "rebalance_s": 1}
    return way(PushConsumer, AsyncPushConsumer)(cluster.address, **options)


def _handled_topics(consumer: Any) -> set[str]:
    return {handler.topic for handler in consumer._handlers}


def test_a_handler_with_a_refused_filter_is_not_added(
    consumer: Any, subscribe: Any, producer: Producer, send: Any, topic: str, seen: Seen
) -> None:
    send("first")
    other = f"{topic}-other"
    producer.send(Message(other, b"unwanted"))
    subscribe(consumer, topic, seen)
    with consumer:
        member = consumer._member
        # The filter cannot be checked before nameservers list the topic.
        eventually(lambda: has_route(producer, other))
        with pytest.raises(ConfigError, match="does not understand the filter"):
            subscribe(consumer, other, seen, sql=BAD)
        assert _handled_topics(consumer) == {topic}
        assert other not in member.subscriptions
        assert other not in member.instance.routes.watched
        # A second attempt with a valid filter works.
        subscribe(consumer, other, seen, sql="price IS NULL")
        assert sorted(seen.wait(2)) == ["first", "unwanted"]
        assert _handled_topics(consumer) == {topic, other}


def test_a_refused_second_handler_keeps_the_first_one(
    consumer: Any, subscribe: Any, send: Any, topic: str, seen: Seen
) -> None:
    send("first")
    refused = Seen()
    subscribe(consumer, topic, seen)
    with consumer:
        seen.wait(1)
        with pytest.raises(ConfigError, match="has a function already"):
            subscribe(consumer, topic, refused, sql="price > 0")
        send("second")
        assert seen.wait(2) == ["first", "second"]
    # The next start does not use the refused one, either.
    with consumer:
        send("third")
        assert seen.wait(3) == ["first", "second", "third"]
    assert refused.messages == []


def test_a_reader_keeps_its_subscription_when_a_filter_is_refused(
    way: Any, cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    send("first")
    reader = way(Consumer, AsyncConsumer)(
        cluster.address, topic, group=group, consume_from="first", rebalance_s=1
    )
    bodies: list[bytes] = []

    def has_read(count: int) -> bool:
        bodies.extend(message.body for message in reader.poll())
        return len(bodies) >= count

    with reader:
        eventually(lambda: has_read(1))
        with pytest.raises(ConfigError, match="does not understand the filter"):
            reader.subscribe(topic, sql=BAD)
        send("second")
        eventually(lambda: has_read(2))
    assert bodies == [b"first", b"second"]
