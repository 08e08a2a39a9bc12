"""More seeded faults: queues and their owners, and a transaction without an end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq._native import dumps_lenient
from orbitmq.admin.admin import Admin
from orbitmq.admin.explain import observe_group as looking_at_groups
from orbitmq.client.consumer.assignment import ByConfig
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transaction import TransactionProducer, TransactionState
from orbitmq.message import Message, MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address
from tests.cli.conftest import Run, await_true, run_command
from tests.cli.test_explain import Findings, await_verdict

SETTINGS = {
    # The test runs the rounds of checks.
    "transactionCheckInterval": "3600000",
    "transactionTimeOut": "0",
    "transactionCheckMax": "1",
}
USUAL: dict[str, Any] = {"consume_from": "first", "rebalance_s": 0.1, "stop_timeout_s": 1.0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings=SETTINGS) as cluster:
        yield cluster


def explain(*words: str) -> Findings:
    ran = run_command("explain", *words, "--watch-s", "0.1", "--patience", "0.05", "-o", "json")
    assert ran.code in (0, 3), ran
    findings: Findings = ran.json
    return findings


@pytest.fixture
def wire(cluster: LocalCluster) -> Iterator[Wire]:
    wire = Wire(broker_address(cluster))
    yield wire
    wire.close()


def test_a_member_that_does_not_answer_is_reported(
    run: Run, admin: Admin, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that hangs is connected but answers no requests."""
    monkeypatch.setattr(looking_at_groups, "CONSUMER_TIMEOUT_MS", 500)
    admin.create_topic("asked", queues=1)
    wire.heartbeat("deaf", "asked", client_id="hanging@1")
    finding = await_verdict(lambda: explain("group", "deaf"), "consumer-silent")
    assert finding["evidence"]["client"] == "hanging@1"
    assert finding["severity"] == "fault"


def test_a_queue_locked_by_another_client_is_reported(
    run: Run, cluster: LocalCluster, admin: Admin, producer: Producer, wire: Wire
) -> None:
    admin.create_topic("steps", queues=1)
    queue = {"topic": "steps", "brokerName": "broker-a", "queueId": 0}
    body = {"clientId": "of-the-past", "consumerGroup": "in-order", "mqSet": [queue]}
    assert wire.ask(RequestCode.LOCK_BATCH_MQ, body=dumps_lenient(body)).code == 0
    producer.send(Message("steps", b"x"))
    consumer = PushConsumer(cluster.address, group="in-order", **USUAL)
    consumer.on("steps", orderly=True)(lambda message: None)
    with consumer:
        finding = await_verdict(lambda: explain("group", "in-order"), "not-locked")
    assert "steps" in finding["evidence"]["queue"]


def test_a_queue_without_a_member_is_reported(
    run: Run, cluster: LocalCluster, admin: Admin, producer: Producer
) -> None:
    """Members with configured queues, and a topic that has grown since."""
    admin.create_topic("grown", queues=2)
    first, second = (MessageQueue("grown", "broker-a", number) for number in range(2))
    producer.send(Message("grown", b"x"), queue=second)
    admin.set_offsets("assigned", {second: 0})
    consumer = PushConsumer(cluster.address, group="assigned", strategy=ByConfig([first]), **USUAL)
    consumer.on("grown")(lambda message: None)
    with consumer:
        finding = await_verdict(lambda: explain("group", "assigned"), "queue-without-owner")
    assert "1" in finding["evidence"]["queue"]


def test_a_transaction_without_an_end_is_reported(
    run: Run, cluster: LocalCluster, admin: Admin
) -> None:
    admin.create_topic("paid", queues=1)
    with TransactionProducer(
        cluster.address, group="forgetful", check=lambda message: TransactionState.UNKNOWN
    ) as producer:
        sent = producer.send_in_transaction(
            Message("paid", b"x", keys=["forgotten"]),
            lambda message, sent: TransactionState.UNKNOWN,
        ).sent
    (broker,) = cluster.brokers.values()
    for _ in range(3):  # Checked once, then discarded.
        before = broker.clock()
        while broker.clock() == before:
            time.sleep(0.001)
        cluster.run(broker.transaction_check.round())
    finding = await_verdict(lambda: explain("message", sent.message_id, "-t", "paid"), "discarded")
    assert finding["severity"] == "fault"
    assert "TRANS_CHECK_MAX_TIME_TOPIC" in finding["advice"]


def test_expired_messages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that was away too long, and a message that no longer exists."""
    settings = {"mappedFileSizeCommitLog": str(1 << 16), "fileReservedTime": "0"}
    with LocalCluster(settings=settings) as cluster, Admin(cluster.address) as admin:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.address)
        admin.create_topic("old", queues=1)
        queue = MessageQueue("old", "broker-a", 0)
        with Producer(cluster.address, group="p") as producer:
            sent = [producer.send(Message("old", os.urandom(20_000))) for _ in range(12)]
        admin.set_offsets("late", {queue: 0})
        (broker,) = cluster.brokers.values()

        def is_deleted() -> bool:
            assert run_command("broker", "clean-log", "-b", "broker-a").code == 0
            cluster.run(broker._clean())  # A round that would come within ten seconds.
            return admin.topic_ends("old")[queue].min_offset > 0

        await_true("the first messages are deleted", is_deleted)
        finding = await_verdict(lambda: explain("group", "late"), "offset-expired")
        assert finding["evidence"]["consumerOffset"] == 0
        finding = await_verdict(lambda: explain("message", sent[0].offset_id), "expired")
        assert finding["severity"] == "fault"
