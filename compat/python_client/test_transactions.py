"""Transactions against every kind of broker: commits, rollbacks, and checks of lost outcomes.

The brokers here ask for lost outcomes after a second, not after a minute as they would by default.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Way, await_true, count
from orbitmq._native import ReceivedMessage
from orbitmq.admin.admin import Admin
from orbitmq.client.producer.transaction import (
    AsyncTransactionProducer,
    TransactionProducer,
    TransactionState,
)
from orbitmq.message import Message

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)


class Checks:
    """Answers checks of brokers, and keeps the checked messages."""

    def __init__(self) -> None:
        self.asked: list[ReceivedMessage] = []
        self.answers: list[TransactionState | Exception] = []
        self.answers_by_body: dict[bytes, TransactionState] = {}
        self._changed = threading.Condition()

    def __call__(self, message: ReceivedMessage) -> TransactionState | None:
        with self._changed:
            self.asked.append(message)
            self._changed.notify_all()
            if message.body in self.answers_by_body:
                return self.answers_by_body[message.body]
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, wanted: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= wanted, 30)


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def producer(
    cluster: Cluster, way: Way, is_async: bool, group: str, checks: Checks
) -> Iterator[TransactionProducer]:
    async def check_later(message: ReceivedMessage) -> TransactionState | None:
        return checks(message)

    make = way(TransactionProducer, AsyncTransactionProducer)
    with make(
        cluster.address,
        group=group,
        check=check_later if is_async else checks,
        timeout_ms=10_000,
    ) as producer:
        yield producer


def always(state: TransactionState | None) -> Callable[[Message, Any], TransactionState | None]:
    return lambda _message, _sent: state


def test_a_message_is_visible_only_after_its_commit(
    producer: TransactionProducer, topic: str, admin: Admin
) -> None:
    seen_before = []

    def work(message: Message, sent: Any) -> TransactionState:
        seen_before.append(count(admin, topic))
        assert sent.transaction_id == sent.message_id
        return COMMIT

    message = Message(topic, b"paid", tags="t", keys=["order-1"], properties={"shop": "7"})
    result = producer.send_in_transaction(message, work)
    assert result.state is COMMIT
    assert seen_before == [0]
    await_true("the message is there", lambda: count(admin, topic) == 1)
    await_true("its key is indexed", lambda: admin.messages_by_key(topic, "order-1"))
    [stored] = admin.messages_by_key(topic, "order-1")
    assert stored.body == b"paid"
    assert stored.properties["shop"] == "7"
    assert stored.properties["UNIQ_KEY"] == result.sent.message_id


def test_a_rolled_back_message_is_neither_delivered_nor_checked(
    producer: TransactionProducer, topic: str, admin: Admin, checks: Checks
) -> None:
    def holds(wanted: int) -> bool:
        return count(admin, topic) == wanted

    checks.answers_by_body = {b"no": ROLLBACK, b"yes": COMMIT}
    # A machine may be so slow that a broker asks after a second, before the outcome has reached it;
    # not three times in a row.
    for number in range(1, 4):
        checks.asked.clear()
        dropped = producer.send_in_transaction(Message(topic, b"no"), always(ROLLBACK))
        lost = producer.send_in_transaction(Message(topic, b"yes"), always(UNKNOWN))
        assert (dropped.state, lost.state) == (ROLLBACK, UNKNOWN)
        await_true("the other message is there", partial(holds, number))
        # They may be of two brokers, whose rounds are a second apart.
        checks.wait(1)
        if {message.message_id for message in checks.asked} == {lost.sent.message_id}:
            break
    else:
        pytest.fail("brokers ask for what was rolled back")
    assert holds(number)


def test_an_unknown_outcome_is_checked_until_it_is_known(
    producer: TransactionProducer, topic: str, admin: Admin, checks: Checks
) -> None:
    checks.answers = [RuntimeError("the database is away"), UNKNOWN, COMMIT]

    def fail(_message: Message, _sent: Any) -> TransactionState:
        raise RuntimeError("killed in the middle")

    body = b"compressed" * 1000
    message = Message(topic, body, tags="t", keys=["a", "b"], properties={"shop": "7"})
    result = producer.send_in_transaction(message, fail)
    assert result.state is UNKNOWN
    checks.wait(3)
    await_true("the message is there", lambda: count(admin, topic) == 1)
    asked = checks.asked[0]
    assert asked.message_id == result.sent.message_id
    assert asked.transaction_id == result.sent.message_id
    assert asked.topic == topic
    assert asked.body == body
    assert asked.tags == "t"
    assert asked.keys == ("a", "b")
    assert asked.get_property("shop") == "7"


def test_another_producer_of_the_group_can_answer_a_check(
    cluster: Cluster, topic: str, group: str, admin: Admin
) -> None:
    with TransactionProducer(
        cluster.address, group=group, check=lambda _message: None, timeout_ms=10_000
    ) as first:
        lost = first.send_in_transaction(Message(topic, b"lost"), always(None))
    checks = Checks()
    checks.answers = [COMMIT]
    with TransactionProducer(cluster.address, group=group, check=checks) as second:
        second.queues(topic)  # From now on brokers know it.
        checks.wait(1)
        await_true("the message is there", lambda: count(admin, topic) == 1)
    assert checks.asked[0].message_id == lost.sent.message_id
