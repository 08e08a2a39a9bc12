"""Log lines about messages that failed, were given back, or became dead letters."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import MessageQueue, PushConsumer, RetryLater
from orbitmq._native import ReceivedMessage, decode_messages, encode_record
from orbitmq.client.consumer.retry import send_back, send_copy
from orbitmq.errors import ConnectionLost
from orbitmq.rpc.route_table import Nameservers, RouteTable
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, eventually
from tests.client.playing import Play, Reaction, answer
from tests.client.test_routes import route_body

LOGGER = "orbitmq.client"
DEAD = "is a dead letter of group"


def received(topic: str, reconsume_times: int) -> ReceivedMessage:
    data = encode_record(
        topic,
        b"body",
        store_host=("10.0.0.9", 10911),
        reconsume_times=reconsume_times,
        properties={"UNIQ_KEY": "ID", "RETRY_TOPIC": "T"},
    )
    (message,) = decode_messages(data, MessageQueue(topic, "a", 0))
    return message


def routes() -> RouteTable:
    table = RouteTable(Nameservers(("ns:9876",)))
    table.apply("%RETRY%g", route_body("a"))
    return table


def dead_letters(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if DEAD in record.getMessage()]


@pytest.mark.parametrize(
    ("topic", "tries", "delay_level", "reactions", "is_dead"),
    [
        ("%RETRY%g", 4, 0, [answer()], False),
        ("%RETRY%g", 5, 0, [answer()], True),
        ("%RETRY%g", 0, -1, [answer()], True),
        # Retried locally: the broker's record knows no attempt.
        ("T", 5, 0, [answer()], False),
        ("%RETRY%g", 3, 0, [ConnectionLost("x"), answer()], False),
        ("%RETRY%g", 4, 0, [ConnectionLost("x"), answer()], True),
    ],
)
def test_a_dead_letter_is_logged_when_the_broker_has_made_it_one(
    caplog: pytest.LogCaptureFixture,
    topic: str,
    tries: int,
    delay_level: int,
    reactions: list[Reaction],
    is_dead: bool,
) -> None:
    flow = send_back(
        routes(),
        "g",
        received(topic, tries),
        "a",
        delay_level=delay_level,
        max_reconsume_times=5,
    )
    Play(reactions).run(flow)
    name = received(topic, tries).topic
    text = f"message ID of topic {name} {DEAD} g after {tries + 1} attempts; it is in topic %DLQ%g"
    assert dead_letters(caplog) == [text] * is_dead


def test_a_dead_letter_is_not_logged_when_no_broker_took_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = send_copy(routes(), "g", received("T", 5), reconsume_times=5, max_reconsume_times=5)
    with pytest.raises(ConnectionLost):
        Play([ConnectionLost("x")]).run(flow)
    assert not dead_letters(caplog)


@pytest.mark.parametrize("orderly", [False, True], ids=["any order", "in order"])
def test_a_dead_letter_is_logged_once_after_its_failures(
    cluster: LocalCluster,
    send: Callable[..., list[str]],
    topic: str,
    group: str,
    seen: Seen,
    caplog: pytest.LogCaptureFixture,
    orderly: bool,
) -> None:
    consumer = PushConsumer(
        cluster.address,
        group=group,
        consume_from="first",
        max_reconsume_times=1,
        suspend_ms=10,
        rebalance_s=1,
    )

    @consumer.on(topic, orderly=orderly)
    def handle(message: Any) -> None:
        seen(message)
        raise ValueError("never")

    (message_id,) = send("bad")
    with consumer:
        seen.wait(2)
        eventually(lambda: dead_letters(caplog))
    (line,) = dead_letters(caplog)
    assert line.startswith(f"message {message_id} of topic {topic} {DEAD} {group} after 2 attempts")
    failures = [record for record in caplog.records if "failed on message" in record.getMessage()]
    assert len(failures) == 2
    for record in failures:
        assert record.levelno == logging.WARNING
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ValueError)


@pytest.mark.parametrize("orderly", [False, True], ids=["any order", "in order"])
def test_a_retry_by_the_handler_is_logged_without_a_traceback(
    cluster: LocalCluster,
    send: Callable[..., list[str]],
    topic: str,
    group: str,
    seen: Seen,
    caplog: pytest.LogCaptureFixture,
    orderly: bool,
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    consumer = PushConsumer(
        cluster.address, group=group, consume_from="first", suspend_ms=10, rebalance_s=1
    )

    @consumer.on(topic, orderly=orderly)
    def handle(message: Any) -> None:
        seen(message)
        if message.reconsume_times == 0:
            raise RetryLater("the bank does not answer", delay_level=1)

    (message_id,) = send("x")
    with consumer:
        seen.wait(2)
    about = [record for record in caplog.records if "the bank" in record.getMessage()]
    (line,) = about
    assert line.levelno <= logging.INFO
    assert line.exc_info is None
    assert message_id in line.getMessage()
    assert "\n" not in line.getMessage()
    assert not [r for r in caplog.records if r.exc_info and r.name.startswith(LOGGER)]


def test_one_failure_of_a_batch_is_one_line(
    cluster: LocalCluster,
    send: Callable[..., list[str]],
    topic: str,
    group: str,
    seen: Seen,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    send("0")  # Create the topic.
    ids = send("1", "2", "3", queue=queue)
    (broker,) = cluster.brokers.values()
    eventually(lambda: broker.store.max_offset(topic, 0) >= 3)  # One pull returns all three.
    consumer = PushConsumer(
        cluster.address, group=group, consume_from="first", concurrency=1, rebalance_s=1
    )

    @consumer.on(topic, batch=10)
    def handle(messages: list[Any]) -> None:
        for message in messages:
            seen(message)
        if messages[0].queue_id == 0 and messages[0].reconsume_times == 0:
            raise ValueError("not yet")

    with consumer:
        seen.wait_for(lambda: sum(m.reconsume_times for m in seen.messages) >= 3)
    lines = [r.getMessage() for r in caplog.records if "failed on message" in r.getMessage()]
    assert all(sum(one in line for line in lines) == 1 for one in ids)
    assert sum(all(one in line for one in ids) for line in lines) == 1
