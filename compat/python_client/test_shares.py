"""Every strategy for sharing queues gives the results of Java's own classes, for any group."""

from __future__ import annotations

import random
from typing import Any

from compat.java_client import JavaClient
from orbitmq.client.consumer.assignment import (
    AllocateStrategy,
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    allocate,
)
from orbitmq.message import MessageQueue

ROOMS = ["r1", "r2", "r3"]
CASES_OF_EACH = 150


def _room_of_broker(queue: MessageQueue) -> str:
    return queue.broker_name.partition("-")[0]


def _room_of_client(client_id: str) -> str:
    return client_id.partition("-")[0]


def _nearby(inner: AllocateStrategy) -> AllocateStrategy:
    return MachineRoomNearby(inner, _room_of_broker, _room_of_client)


STRATEGIES: dict[str, AllocateStrategy] = {
    "averagely": Averagely(),
    "circle": AveragelyByCircle(),
    "hash": ConsistentHash(),
    "room": MachineRoom(["r1", "r3"]),
    "nearby-averagely": _nearby(Averagely()),
    "nearby-circle": _nearby(AveragelyByCircle()),
    "nearby-hash": _nearby(ConsistentHash()),
}


def _make_case(chooser: random.Random, strategy: str) -> dict[str, Any]:
    """Return a topic on a few brokers, and a group, of any size and in any order."""
    dash = "@" if strategy == "room" else "-"
    brokers = [
        f"{chooser.choice(ROOMS)}{dash}broker-{name}" for name in "abcde"[: chooser.randint(1, 5)]
    ]
    queues = [[broker, number] for broker in brokers for number in range(chooser.randint(1, 8))]
    ids = {
        f"{chooser.choice(ROOMS)}-10.0.{chooser.randint(0, 255)}.{chooser.randint(0, 255)}@"
        f"{chooser.choice(['DEFAULT', '4711#99', 'Größe', '😀'])}"
        for _ in range(chooser.randint(1, 12))
    }
    chooser.shuffle(queues)
    return {
        "strategy": strategy,
        "topic": chooser.choice(["orders", "%RETRY%billing", "Größe"]),
        "queues": queues,
        "ids": sorted(ids, key=lambda _: chooser.random()),
        "rooms": ["r1", "r3"],
    }


def _shares(case: dict[str, Any]) -> list[list[str]]:
    queues = [MessageQueue(case["topic"], broker, number) for broker, number in case["queues"]]
    strategy = STRATEGIES[case["strategy"]]
    members = sorted(case["ids"], key=lambda one: one.encode("utf-16-be"))
    return [
        [
            f"{queue.broker_name}:{queue.queue_id}"
            for queue in allocate(strategy, member, queues, case["ids"])
        ]
        for member in members
    ]


def test_all_allocation_strategies_equal_javas(jvm: JavaClient) -> None:
    chooser = random.Random(49)
    cases = [_make_case(chooser, name) for name in STRATEGIES for _ in range(CASES_OF_EACH)]
    of_java = jvm.play("shares", cases=cases)
    assert len(of_java) == len(cases)
    for case, shares in zip(cases, of_java, strict=True):
        # Java's nearby strategy visits rooms in the order of a TreeMap, and so do we.
        assert _shares(case) == shares, case
