"""Malformed requests and answers of brokers and nameservers: the client continues.

Requests of brokers and answers with JSON bodies are made by chance from a seed, as in
`test_random_requests`; ``ORBITMQ_FUZZ_SEED=random`` looks for new mistakes.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import Message, Producer, PushConsumer, TransactionProducer, TransactionState
from orbitmq._native import Command, dumps_lenient
from orbitmq.admin.clusters import cluster_info
from orbitmq.client.consumer.membership import group_members, lock_queues
from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.rpc.flow import Call, Flow
from orbitmq.rpc.route_table import RouteTable
from orbitmq.rpc.routes import publish_route, route_or_diagnose
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address
from tests.client.conftest import eventually
from tests.client.playing import Play, answer
from tests.hostile.random_requests import QUEUE, ROUTE, Chance
from tests.hostile.test_random_requests import has_reason

REQUESTS = 2000
FLOWS = 2500
SERVED_WITHIN_S = 60
OFFSETS = {"offsetTable": {'{"brokerName":"broker-a","queueId":0,"topic":"t"}': 5}}
OFFSET_LIST = {"offsetTable": [QUEUE | {"offset": 5}]}
CLUSTERS = {
    "brokerAddrTable": {
        "broker-a": {"brokerAddrs": {"0": "a:1"}, "brokerName": "broker-a", "cluster": "c"}
    },
    "clusterAddrTable": {"c": ["broker-a"]},
}
REQUESTS_OF_BROKERS = (
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)
UNANSWERED = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
}


class Served:
    """The bodies that a consumer has handled."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bodies: set[bytes] = set()

    def note(self, body: bytes) -> None:
        with self._changed:
            self._bodies.add(body)
            self._changed.notify_all()

    def wait_for(self, body: bytes) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: body in self._bodies, SERVED_WITHIN_S)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def body_of(chance: Chance, code: int, record: bytes) -> bytes:
    """Return the body of a broker's request; most bodies have mistakes."""
    kind = chance.rng.randrange(4)
    if code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET and kind:
        value: Any = chance.rng.choice([OFFSETS, OFFSET_LIST])
        for _ in range(chance.rng.randint(1, 3)):
            value = chance.spoiled(value)
        return dumps_lenient(value)
    if kind == 0:
        return b""
    if kind == 1:
        return chance.rng.randbytes(chance.rng.randrange(1, 300))
    if kind == 2:
        return record * chance.rng.randrange(3)
    place = chance.rng.randrange(len(record))
    return record[:place] + chance.rng.randbytes(1) + record[place + 1 :]


def test_a_client_goes_on_when_a_broker_sends_bad_requests(
    cluster: LocalCluster, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance, served = Chance(seed), Served()
    consumer = PushConsumer(cluster.address, group="fuzzed", consume_from="first")
    unsure = TransactionProducer(
        cluster.address, group="p", check=lambda _message: TransactionState.ROLLBACK
    )

    @consumer.on("polite")
    def handle(message: Any) -> None:
        served.note(message.body)

    with Producer(cluster.address, group="polite") as producer, unsure:
        unsure.send_in_transaction(
            Message("polite", b"half"), lambda _message, _sent: TransactionState.COMMIT
        )
        producer.send(Message("polite", b"before"), queue=producer.queues("polite")[0])
        with consumer, caplog.at_level(logging.ERROR, logger="orbitmq"):
            served.wait_for(b"before")
            (broker,) = cluster.brokers.values()
            eventually(lambda: "p" in broker.producers.groups)
            ask_clients(cluster, chance, stored_record(cluster))
            producer.send(Message("polite", b"after"))
            served.wait_for(b"after")
    failed = [record for record in caplog.records if record.exc_info and record.exc_info[1]]
    assert [record.getMessage() for record in failed] == []


def stored_record(cluster: LocalCluster) -> bytes:
    """Return a record of the broker's store."""
    wire = Wire(broker_address(cluster))
    pulled = wire.pull("polite", queueId="0", maxMsgNums="1")
    wire.close()
    assert pulled.code == ResponseCode.SUCCESS
    return pulled.body


def ask_clients(cluster: LocalCluster, chance: Chance, record: bytes) -> None:
    """Have the broker send requests to each connected client."""
    (broker,) = cluster.brokers.values()

    async def ask() -> None:
        consumers = list(broker.consumers.groups["fuzzed"].members)
        connections = consumers + list(broker.producers.groups["p"])
        for _ in range(REQUESTS):
            connection = chance.rng.choice(connections)
            code = chance.rng.choice(REQUESTS_OF_BROKERS)
            ext, body = chance.ext(), body_of(chance, code, record)
            if chance.rng.random() < 0.5:
                ext["consumerGroup"] = ext["group"] = "fuzzed"
            if code in UNANSWERED:
                connection.notify(code, ext=ext, body=body)
                continue
            answered = await connection.invoke(code, ext=ext, body=body, timeout_ms=60_000)
            has_reason(code, answered)

    cluster.run(ask())


def test_a_flow_returns_or_fails_cleanly_when_an_answer_has_a_bad_body(seed: int) -> None:
    chance = Chance(seed)
    members = {"consumerIdList": ["a", "b"]}
    locks = {"lockOKMQSet": [QUEUE]}
    bodies = {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: ROUTE,
        RequestCode.GET_BROKER_CLUSTER_INFO: CLUSTERS,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: members,
        RequestCode.LOCK_BATCH_MQ: locks,
    }

    def spoiled(call: Call) -> Command:
        if call.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and chance.rng.random() < 0.3:
            return answer(ResponseCode.TOPIC_NOT_EXIST)
        value: Any = bodies[RequestCode(call.code)]
        for _ in range(chance.rng.randint(1, 3)):
            value = chance.spoiled(value)
        body = dumps_lenient(value)
        if chance.rng.random() < 0.05:
            body = body[: chance.rng.randrange(len(body) + 1)]
        return answer(body=body)

    table = RouteTable(("n:1",))
    table.apply("t", dumps_lenient(ROUTE))
    queue = MessageQueue("t", "broker-a", 0)
    flows: tuple[Callable[[], Flow[Any]], ...] = (
        lambda: publish_route(RouteTable(("n:1",)), "t"),
        lambda: route_or_diagnose(RouteTable(("n:1",)), "t"),
        lambda: group_members(table, "t", "g"),
        lambda: lock_queues(table, "g", "c", [queue]),
        lambda: cluster_info(["n:1"]),
    )
    ends = Counter[tuple[int, bool]]()
    for _ in range(FLOWS):
        number = chance.rng.randrange(len(flows))
        try:
            found = Play(iter(lambda: spoiled, None)).run(flows[number]())
        except OrbitError:
            ends[number, False] += 1
        else:
            ends[number, True] += 1
            if number == 2:
                assert found is None or all(type(member) is str for member in found)
    assert all(ends[number, True] for number in range(len(flows))), "some answers are good"
