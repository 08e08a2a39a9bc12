"""Hooks around sends and handlers, with clients of both kinds."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import (
    ConsumeContext,
    ConsumeHook,
    Message,
    MessageQueue,
    RetryLater,
    SendContext,
    SendHook,
    SendResult,
    TransactionState,
    reply_to,
)
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transaction import AsyncTransactionProducer, TransactionProducer
from orbitmq.errors import BadMessage, ConfigError, OrbitError
from orbitmq.testing import LocalCluster
from tests.client.conftest import LIMIT_S, Seen, eventually, has_route


class Spans(SendHook, ConsumeHook):
    """Numbers messages like a tracer, and records how each send and each handler ends."""

    def __init__(self) -> None:
        self.sent: list[SendContext] = []
        self.ended: list[SendContext] = []
        self.begun: list[ConsumeContext] = []
        self.handled: list[ConsumeContext] = []

    def before_send(self, context: SendContext) -> None:
        self.sent.append(context)
        context.state[self] = number = str(len(self.sent))
        context.properties["span"] = number

    def after_send(self, context: SendContext) -> None:
        assert context.state[self] == context.properties["span"]
        self.ended.append(context)

    def before_consume(self, context: ConsumeContext) -> None:
        context.state[self] = [message.get_property("span") for message in context.messages]
        self.begun.append(context)

    def after_consume(self, context: ConsumeContext) -> None:
        self.handled.append(context)

    @property
    def results(self) -> list[SendResult]:
        return [context.result for context in self.ended if context.result is not None]

    def wait_for_sends(self, count: int) -> None:
        eventually(lambda: len(self.ended) == count)

    def wait_for_calls(self, count: int) -> None:
        eventually(lambda: len(self.handled) == count)


def _stored(cluster: LocalCluster, topic: str) -> list[Any]:
    """Return all messages of a topic, read from the store."""
    (broker,) = cluster.brokers.values()
    return [
        record
        for queue_id in range(4)
        for record in broker.store.read(topic, queue_id, 0, max_messages=100).records()
    ]


def _spans(cluster: LocalCluster, topic: str) -> list[str | None]:
    return sorted(record.properties.get("span") for record in _stored(cluster, topic))


@pytest.mark.parametrize("options", [{}, {"linger_ms": 5}, {"trace": True}])
def test_every_way_to_send_goes_through_the_hooks(
    cluster: LocalCluster, way: Any, topic: str, options: dict[str, Any]
) -> None:
    spans = Spans()
    make = way(Producer, AsyncProducer)
    with make(cluster.address, group="g", hooks=[spans], **options) as producer:
        message = Message(topic, b"1", properties={"own": "kept"})
        result = producer.send(message)
        assert message.properties == {"own": "kept"}, "the program's message is not changed"
        assert spans.results[0].message_id == result.message_id
        assert spans.ended[0].message is message
        assert (spans.sent[0].group, spans.sent[0].client_id) == ("g", producer.client_id)
        producer.send(Message(topic, b"2"), sharding_key="k")
        batch = producer.send_many([Message(topic, b"3"), Message(topic, b"4")])
        each = spans.results[2:4]
        assert ",".join(one.message_id for one in each) == batch.message_id
        assert each[1].queue_offset == each[0].queue_offset + 1
        producer.send_oneway(Message(topic, b"5"))
        last = spans.ended[4]
        assert (last.is_oneway, last.result, last.error) == (True, None, None)
        if options.get("linger_ms"):
            futures = [producer.enqueue(Message(topic, b"6")) for _ in range(3)]
            if way.kind == "sync":
                ids = {future.result(LIMIT_S).message_id for future in futures}
                spans.wait_for_sends(8)
                assert ids == {result.message_id for result in spans.results[4:]}
            spans.wait_for_sends(8)
    eventually(lambda: len(_stored(cluster, topic)) == len(spans.sent))
    assert _spans(cluster, topic) == sorted(str(n) for n in range(1, len(spans.sent) + 1))
    assert all(context.error is None for context in spans.ended)


def test_half_messages_go_through_the_hooks(cluster: LocalCluster, way: Any, topic: str) -> None:
    spans = Spans()
    make = way(TransactionProducer, AsyncTransactionProducer)
    options: dict[str, Any] = {"group": "t", "check": lambda _: None, "hooks": [spans]}
    with make(cluster.address, **options) as producer:
        producer.send_in_transaction(
            Message(topic, b"x"), lambda _message, _sent: TransactionState.COMMIT
        )
    assert len(spans.ended) == 1
    eventually(lambda: _spans(cluster, topic) == ["1"])


def test_requests_and_replies_go_through_the_hooks(
    cluster: LocalCluster, way: Any, topic: str, group: str, producer: Producer
) -> None:
    asking, answering = Spans(), Spans()
    producer.send(Message(topic, b"makes the topic"))
    eventually(lambda: has_route(producer, topic))
    with Producer(cluster.address, group="answering", hooks=[answering]) as answerer:
        consumer = PushConsumer(cluster.address, group=group)

        @consumer.on(topic)
        def answer(message: Any) -> None:
            if message.body == b"question":
                answerer.send(reply_to(message, b"answer"))

        make = way(Producer, AsyncProducer)
        with consumer, make(cluster.address, group="asking", hooks=[asking]) as asker:
            reply = asker.request(Message(topic, b"question"), timeout_ms=20_000)
    assert (reply.body, reply.get_property("span")) == (b"answer", "1")
    assert len(asking.results) == len(answering.results) == 1


def test_a_failed_send_ends_its_hooks_with_the_error(
    cluster: LocalCluster, way: Any, topic: str
) -> None:
    spans = Spans()
    make = way(Producer, AsyncProducer)
    with make(cluster.address, group="g", hooks=[spans], linger_ms=5) as producer:
        nowhere = MessageQueue(topic, "broker-a", 999)
        raised = []
        sends: list[Callable[[], object]] = [
            lambda: producer.send(Message(topic, b"")),
            lambda: producer.send(Message(topic, b"x"), queue=nowhere),
            lambda: producer.send(Message("a topic", b"x"), sharding_key="k"),
        ]
        for send in sends:
            with pytest.raises(OrbitError) as error:
                send()
            raised.append(error.value)
        with pytest.raises(BadMessage):
            producer.send_many([])
        spans.wait_for_sends(3)
    assert [context.error for context in spans.ended] == raised
    assert [context.result for context in spans.ended] == [None, None, None]


class Failing(SendHook, ConsumeHook):
    """Raises in every hook, after changing the context."""

    def before_send(self, context: SendContext) -> None:
        context.properties.clear()
        raise RuntimeError("before_send")

    def after_send(self, context: SendContext) -> None:
        raise AssertionError("its beginning failed, so it has no end")

    def before_consume(self, context: ConsumeContext) -> None:
        raise RuntimeError("before_consume")

    def after_consume(self, context: ConsumeContext) -> None:
        raise AssertionError("its beginning failed, so it has no end")


class FailingAtTheEnd(SendHook, ConsumeHook):
    def after_send(self, context: SendContext) -> None:
        raise RuntimeError("after_send")

    def after_consume(self, context: ConsumeContext) -> None:
        raise RuntimeError("after_consume")


def test_a_failing_hook_does_not_fail_the_send(
    cluster: LocalCluster, way: Any, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    spans = Spans()
    hooks = [Failing(), spans, FailingAtTheEnd()]
    with way(Producer, AsyncProducer)(cluster.address, group="g", hooks=hooks) as producer:
        for _ in range(3):
            producer.send(Message(topic, b"x", properties={"own": "kept"}))
    assert len(spans.ended) == 3
    assert {record.properties["own"] for record in _stored(cluster, topic)} == {"kept"}
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [text.split(" of hook")[0] for text in warnings] == ["before_send", "after_send"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"empty": ""}, "may be empty"),
        ({"number": 7}, "must be texts"),
        ({"separator": "a\2b"}, "character 2"),
        ({"large": "x" * 40_000}, "more than"),
        ({"DELAY": "3"}, "RocketMQ's own"),
    ],
)
def test_invalid_properties_of_a_hook_are_dropped(
    cluster: LocalCluster,
    topic: str,
    change: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Careless(SendHook):
        def before_send(self, context: SendContext) -> None:
            context.properties["good"] = "but dropped with the bad"
            context.properties.update(change)

    spans = Spans()
    with Producer(cluster.address, group="g", hooks=[spans, Careless()]) as producer:
        producer.send(Message(topic, b"x", properties={"own": "kept"}))
    (record,) = _stored(cluster, topic)
    assert (record.properties["own"], record.properties["span"]) == ("kept", "1")
    assert not {"good", *change} & record.properties.keys()
    assert reason in caplog.text


def test_replacing_the_properties_has_no_effect(
    cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Replacing(SendHook):
        def before_send(self, context: SendContext) -> None:
            context.properties = {"lost": "x"}

    with Producer(cluster.address, group="g", hooks=[Replacing()]) as producer:
        producer.send(Message(topic, b"x", properties={"own": "kept"}))
    (record,) = _stored(cluster, topic)
    assert record.properties["own"] == "kept"
    assert "lost" not in record.properties
    assert "in place" in caplog.text


def test_a_cancelled_send_ends_its_hooks(cluster: LocalCluster, topic: str) -> None:
    spans = Spans()

    async def run() -> None:
        async with AsyncProducer(cluster.address, group="g", hooks=[spans]) as producer:
            await producer.send(Message(topic, b"x"))
            sending = asyncio.ensure_future(producer.send(Message(topic, b"y")))
            await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending

    asyncio.run(run())
    assert isinstance(spans.ended[1].error, OrbitError)
    assert "given up" in str(spans.ended[1].error)


# ---- Consuming

Make = Callable[..., Any]
_span: contextvars.ContextVar[str] = contextvars.ContextVar("span")


@pytest.fixture
def consume(way: Any, cluster: LocalCluster, topic: str, group: str) -> Make:
    """Create a consumer of either kind, with a plain function as its handler."""

    def make(function: Callable[[Any], Any], hooks: list[Any], **options: Any) -> Any:
        how = {name: options.pop(name) for name in ("orderly", "batch") if name in options}
        options = {"group": group, "consume_from": "first", "rebalance_s": 1} | options
        consumer = way(PushConsumer, AsyncPushConsumer)(cluster.address, hooks=hooks, **options)
        if way.kind == "async":

            async def handle(message: Any) -> Any:
                return function(message)

            consumer._target.on(topic, **how)(handle)
        else:
            consumer.on(topic, **how)(function)
        return consumer

    return make


@pytest.mark.parametrize("orderly", [False, True])
def test_a_trace_goes_from_the_sender_through_the_handler(
    cluster: LocalCluster, consume: Make, topic: str, group: str, seen: Seen, orderly: bool
) -> None:
    spans = Spans()

    class Current(ConsumeHook):
        """Makes the sender's span the current one of the handler."""

        def before_consume(self, context: ConsumeContext) -> None:
            (message,) = context.messages
            context.state[self] = _span.set(message.get_property("span") or "")

        def after_consume(self, context: ConsumeContext) -> None:
            _span.reset(context.state[self])

    current: list[str] = []

    def handle(message: Any) -> str:
        current.append(_span.get())
        seen(message)
        return "outcome"

    with Producer(cluster.address, group="g", hooks=[spans]) as producer:
        for _ in range(3):
            producer.send(Message(topic, b"x"))
    with consume(handle, [spans, Current()], orderly=orderly) as consumer:
        seen.wait(3)
        client_id = consumer._member.instance.client_id
    assert sorted(current) == ["1", "2", "3"]
    assert len(spans.handled) == 3
    assert {(each.group, each.client_id) for each in spans.handled} == {(group, client_id)}
    assert {each.outcome for each in spans.handled} == {"outcome"}
    assert sorted(each.state[spans][0] for each in spans.handled) == ["1", "2", "3"]


def test_a_failed_handler_ends_its_hooks_with_the_error(
    consume: Make, send: Any, seen: Seen
) -> None:
    spans = Spans()

    def handle(messages: list[Any]) -> None:
        for message in messages:
            seen(message)
        if messages[0].reconsume_times == 0:
            raise RetryLater("again", messages=messages[:1])

    send("x")
    with consume(handle, [spans, Failing(), FailingAtTheEnd()], batch=2):
        seen.wait(2)
        spans.wait_for_calls(2)
    first, second = spans.handled
    assert isinstance(first.error, RetryLater)
    assert second.error is None
    assert [len(each.messages) for each in spans.handled] == [1, 1]


def test_a_consumer_may_be_started_again_with_its_hooks(
    consume: Make, send: Any, seen: Seen
) -> None:
    spans = Spans()
    consumer = consume(seen, [spans])
    for count in (1, 2):
        send("x")
        with consumer:
            seen.wait(count)
            spans.wait_for_calls(count)
    assert len(spans.begun) == 2, "not twice around the same handler"


def test_an_invalid_hook_is_refused_when_the_client_is_created() -> None:
    class Half:
        def before_send(self, context: SendContext) -> None:
            pass

    class Awaiting(ConsumeHook):
        async def before_consume(self, context: ConsumeContext) -> None:  # type: ignore[override]
            pass

    with pytest.raises(ConfigError, match="no method after_send"):
        Producer("127.0.0.1:9876", group="g", hooks=[Half()])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=r"before_consume of hook .* must be a plain function"):
        AsyncPushConsumer("127.0.0.1:9876", group="g", hooks=[Awaiting()])
