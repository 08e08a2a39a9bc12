"""Names common to all clients: start positions, ways to stop, and refused options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    AsyncTransactionProducer,
    Consumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)
from orbitmq.client.consumer.offsets import StartRule
from orbitmq.errors import ConfigError
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, has_left

CONSUMERS: list[Any] = [
    PushConsumer,
    AsyncPushConsumer,
    Consumer,
    AsyncConsumer,
    PullConsumer,
    AsyncPullConsumer,
]
OTHERS = [
    Producer,
    AsyncProducer,
    TransactionProducer,
    AsyncTransactionProducer,
    Admin,
    AsyncAdmin,
]
ADDRESS = "127.0.0.1:9876"


@pytest.mark.parametrize(("name", "alias"), [("earliest", "first"), ("latest", "end")])
@pytest.mark.parametrize("kind", CONSUMERS)
def test_earliest_and_latest_are_accepted_as_in_commands_and_spark(
    kind: Any, name: str, alias: str
) -> None:
    rules = [
        kind(ADDRESS, group="g", consume_from=word).settings.start_rule for word in (name, alias)
    ]
    assert rules[0] == rules[1] == StartRule.of(alias)
    java = {"earliest": "CONSUME_FROM_FIRST_OFFSET", "latest": "CONSUME_FROM_LAST_OFFSET"}
    assert rules[0].java_name == java[name]


def test_a_group_begins_by_rocketmqs_rule_by_default() -> None:
    settings = PushConsumer(ADDRESS, group="g").settings
    assert settings.consume_from == "last"
    assert not settings.start_rule.is_exact
    with pytest.raises(ConfigError, match="'earliest', 'latest', 'last'"):
        PushConsumer(ADDRESS, group="g", consume_from="begin")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*CONSUMERS, *OTHERS])
def test_every_client_has_close(kind: Any) -> None:
    assert callable(kind.close)


@pytest.mark.parametrize("end", ["close", "stop"])
@pytest.mark.parametrize(
    ("kind", "awaiting"),
    [
        (PushConsumer, AsyncPushConsumer),
        (Consumer, AsyncConsumer),
        (PullConsumer, AsyncPullConsumer),
    ],
)
def test_a_consumer_leaves_its_group_by_stop_and_by_close(
    cluster: LocalCluster,
    way: Any,
    topic: str,
    group: str,
    send: Callable[..., Any],
    kind: Any,
    awaiting: Any,
    end: str,
) -> None:
    send("x")
    consumer = way(kind, awaiting)(cluster.address, group=group)
    if hasattr(kind, "on"):

        async def awaited(_argument: Any) -> None: ...

        function: Any = (lambda _argument: None) if way.kind == "sync" else awaited
        getattr(consumer, "_target", consumer).on(topic)(function)
    consumer.start()
    assert consumer.is_running
    getattr(consumer, end)()
    assert not consumer.is_running
    assert has_left(cluster, group)
    getattr(consumer, end)()


# ---- A second function for a topic


def test_a_second_function_for_a_topic_is_an_error_with_advice() -> None:
    consumer = PushConsumer(ADDRESS, group="g")

    @consumer.on("orders", tags="a")
    def first(message: Any) -> None: ...

    with pytest.raises(ConfigError) as caught:

        @consumer.on("orders", tags="b")
        def second(message: Any) -> None: ...

    text = str(caught.value)
    assert "topic orders has a function already" in text
    assert "first: call unsubscribe('orders') first" in text
    assert consumer._wanted == {"orders": ("a", None)}, "the first one stays"
    assert consumer._handlers.function_of("orders") is first
    consumer.unsubscribe("orders")
    consumer.on("orders")(third := lambda _message: None)
    assert consumer._handlers.function_of("orders") is third


def test_a_second_coroutine_function_for_a_topic_is_an_error() -> None:
    consumer = AsyncPushConsumer(ADDRESS, group="g")

    async def handle(message: Any) -> None: ...

    consumer.on("orders")(handle)
    with pytest.raises(ConfigError, match="has a function already"):
        consumer.on("orders")(handle)


def test_a_running_consumer_keeps_its_function_when_another_is_given(
    cluster: LocalCluster, topic: str, group: str, send: Callable[..., Any], seen: Seen
) -> None:
    send("0")
    consumer = PushConsumer(cluster.address, group=group, consume_from="earliest", rebalance_s=1)
    consumer.on(topic)(seen)
    other = Seen()
    with consumer:
        seen.wait(1)
        with pytest.raises(ConfigError, match="has a function already"):
            consumer.on(topic)(other)
        send("1")
        seen.wait(2)
        consumer.unsubscribe(topic)
        consumer.on(topic)(other)
        send("2")
        other.wait_for(lambda: "2" in other.bodies)


# ---- Options without effect


@pytest.mark.parametrize("kind", CONSUMERS)
def test_trace_is_refused_by_consumers_that_do_not_trace(kind: Any) -> None:
    kind(ADDRESS, group="g", trace=False)
    if kind in (PushConsumer, AsyncPushConsumer):
        assert kind(ADDRESS, group="g", trace=True).settings.trace
        return
    for trace in (True, "my-trace"):
        with pytest.raises(ConfigError, match="only PushConsumer and AsyncPushConsumer"):
            kind(ADDRESS, group="g", trace=trace)
