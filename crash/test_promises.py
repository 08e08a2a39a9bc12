"""Promises of a broker beyond storing, over `kill -9`: transactions in every state, timers.

A committed message is seen, one that was rolled back never is, one whose outcome nobody said is
asked about by the broker that comes back, and a timed message comes at its time or, if nobody was
there then, at once. Repeats are allowed after a kill, losses are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orbitmq import Admin, Message, Producer
from orbitmq.client.consumer.pull import PullConsumer
from orbitmq.client.producer.transaction import TransactionProducer, TransactionState
from tests.spark.broker_process import BrokerProcess

ROUNDS = 3
OF_EACH = 10
DELAY_MS = 1500
LIMIT_S = 60
TOPIC = "Promises"


def outcome(state: TransactionState) -> Callable[[Message, Any], TransactionState]:
    return lambda _message, _sent: state


def stored(address: str) -> set[bytes]:
    """Return all messages that a consumer could receive."""
    found = set()
    with Admin(address) as admin, PullConsumer(address, group="reader") as consumer:
        for queue, ends in admin.topic_ends(TOPIC).items():
            offset = ends.min_offset
            while offset < ends.max_offset:
                result = consumer.pull(queue, offset, block=False)
                found |= {message.body for message in result.messages}
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
    return found


def test_acknowledged_messages_are_never_lost(tmp_path: Path) -> None:
    settings = ("transactionCheckInterval=500", "transactionTimeOut=200")
    wanted: set[bytes] = set()
    with BrokerProcess(tmp_path, *settings) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic(TOPIC, queues=2)
        for number in range(ROUNDS):
            with TransactionProducer(
                broker.address, group="deciders", check=lambda _message: None
            ) as producer:
                for item in range(OF_EACH):
                    name = b"%d/%d" % (number, item)
                    for state in TransactionState:
                        body = state.name.encode() + name
                        producer.send_in_transaction(Message(TOPIC, body), outcome(state))
                    wanted |= {b"COMMIT" + name, b"UNKNOWN" + name}
            with Producer(broker.address, group="timed") as timed:
                for item in range(OF_EACH):
                    body = b"timed%d/%d" % (number, item)
                    timed.send(Message(TOPIC, body, properties={"TIMER_DELAY_MS": str(DELAY_MS)}))
                    wanted.add(body)
            broker.kill()
            broker.start()
        commit = TransactionState.COMMIT
        with TransactionProducer(
            broker.address, group="deciders", check=lambda _message: commit
        ) as producer:
            producer.queues(TOPIC)  # From now on the broker can send checks to it.
            deadline = time.monotonic() + LIMIT_S
            while not wanted <= (seen := stored(broker.address)):
                assert time.monotonic() < deadline, sorted(wanted - seen)
                time.sleep(0.1)
        assert {body for body in seen if body.startswith(b"ROLLBACK")} == set()
