"""Delayed messages: the properties of each argument, and invalid arguments."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orbitmq import Message, Producer, RetryLater
from orbitmq.client.consumer.pull import PullConsumer
from orbitmq.client.producer.batch import can_linger, make_batch
from orbitmq.client.producer.message import SendPolicy, make_outgoing
from orbitmq.client.producer.transaction import TransactionProducer, TransactionState
from orbitmq.client.trace import message_type
from orbitmq.errors import BadMessage, BrokerRefused
from orbitmq.testing import LocalCluster
from tests.client.conftest import LIMIT_S

SOON = timedelta(seconds=0.5)
IN_2100 = datetime(2100, 1, 1, tzinfo=UTC)
IN_2100_MS = 4_102_444_800_000


def properties_of(message: Message) -> dict[str, str]:
    """Return the properties that are sent with a message."""
    text = make_outgoing(message, "g", SendPolicy()).ext["i"]
    return dict(pair.split("\1", 1) for pair in text.split("\2"))


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"delay": timedelta(minutes=90)}, "TIMER_DELAY_MS", "5400000"),
        ({"delay": 2}, "TIMER_DELAY_MS", "2000"),
        ({"delay": 0.0001}, "TIMER_DELAY_MS", "1"),
        ({"deliver_at": IN_2100}, "TIMER_DELIVER_MS", str(IN_2100_MS)),
        ({"deliver_at": IN_2100_MS}, "TIMER_DELIVER_MS", str(IN_2100_MS)),
        ({"delay_level": 18}, "DELAY", "18"),
    ],
)
def test_an_argument_becomes_a_property(given: dict[str, Any], name: str, value: str) -> None:
    message = Message("T", b"x", properties={"shop": "7"}, **given)
    assert properties_of(message)[name] == value
    assert message.all_properties()[name] == value
    assert message.properties == {"shop": "7"}
    assert message.is_delayed
    assert message_type(message) == message_type(Message("T", b"x", delay_level=1))
    assert not can_linger(message, SendPolicy())
    with pytest.raises(BadMessage, match="delayed messages cannot be batched"):
        make_batch([message], "g", SendPolicy())


def test_a_delay_of_zero_is_no_delay() -> None:
    message = Message("T", b"x", delay=timedelta(0))
    assert not message.is_delayed
    assert properties_of(message).keys() == {"UNIQ_KEY", "WAIT"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delay_level": 99}, r"delay_level is 99: brokers have levels 1 .* to 18"),
        ({"delay_level": 19}, "use delay="),
        ({"delay_level": -1}, "delay_level is -1"),
        ({"delay_level": "3"}, "delay_level is '3'"),
        ({"delay": -1}, "must not be negative"),
        ({"delay": timedelta(seconds=-1)}, "must not be negative"),
        ({"delay": float("inf")}, "nor without an end"),
        ({"delay": float("nan")}, "nor without an end"),
        ({"delay": "1m"}, "a timedelta, or a number of seconds"),
        ({"delay": True}, "a timedelta, or a number of seconds"),
        ({"deliver_at": datetime(2001, 1, 1, tzinfo=UTC)}, "which is past: to deliver"),
        ({"deliver_at": int(time.time()) + 60}, r"past \(seconds\? It must be milliseconds\)"),
        ({"deliver_at": "tomorrow"}, "a datetime, or epoch milliseconds"),
        ({"delay": 1, "deliver_at": IN_2100}, "give one of them"),
        ({"delay": 1, "delay_level": 1}, "delay_level goes without"),
        ({"deliver_at": IN_2100, "delay_level": 1}, "delay_level goes without"),
        ({"delay": 1, "properties": {"TIMER_DELAY_SEC": "1"}}, "leave the property out"),
    ],
)
def test_invalid_delivery_times_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadMessage, match=words):
        Message("T", b"x", **given)


def test_a_retry_with_an_unknown_delay_level_is_refused() -> None:
    assert RetryLater(delay_level=18).delay_level == 18
    assert RetryLater.dead_letter().delay_level == -1
    for level in (99, 19, -2):
        with pytest.raises(BadMessage, match=f"delay_level is {level}"):
            RetryLater(delay_level=level)


def test_send_back_with_an_unknown_delay_level_is_refused(
    cluster: LocalCluster, send: Callable[..., Any], group: str, topic: str
) -> None:
    send("x")
    with PullConsumer(cluster.address, group=group) as consumer:
        results = [consumer.pull(queue, 0) for queue in consumer.queues(topic)]
        (message,) = [message for result in results for message in result.messages]
        with pytest.raises(BadMessage, match="delay_level is 99"):
            consumer.send_back(message, delay_level=99)


@pytest.mark.parametrize("way_to_say", ["delay", "deliver_at", "in a transaction"])
def test_a_message_is_delivered_when_it_is_due(
    cluster: LocalCluster, group: str, topic: str, way_to_say: str
) -> None:
    begin_ms = time.time_ns() // 1_000_000
    due_ms = begin_ms + 500
    # Created at once: on a busy machine the time might be past soon.
    when: dict[str, Any] = {"deliver_at": due_ms} if way_to_say == "deliver_at" else {"delay": SOON}
    message = Message(topic, b"x", **when)
    if way_to_say == "in a transaction":
        with TransactionProducer(
            cluster.address, group=group, check=lambda _message: None
        ) as transacting:
            transacting.send_in_transaction(message, lambda _m, _sent: TransactionState.COMMIT)
    else:
        with Producer(cluster.address, group=group) as producer:
            producer.send(message)
    (broker,) = cluster.brokers.values()
    deadline = time.monotonic() + LIMIT_S
    stored_ms = 0
    while not stored_ms:
        assert time.monotonic() < deadline, "it was not delivered"
        for name, queue_id in broker.store.queues():
            if name == topic and (found := broker.store.read(name, queue_id, 0)).records():
                (record,) = found.records()
                stored_ms = record.store_timestamp
        time.sleep(0.01)
    assert stored_ms >= due_ms


def test_a_broker_refuses_deliveries_too_far_ahead(cluster: LocalCluster) -> None:
    with (
        Producer(cluster.address, group="g") as producer,
        pytest.raises(BrokerRefused, match="timerMaxDelaySec") as caught,
    ):
        producer.send(Message("far", b"x", delay=timedelta(days=41)))
    assert "maxMessageSize" not in str(caught.value)
