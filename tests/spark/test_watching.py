"""Requests of an idle stream: few, however many queues; and no message is missed."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, cast

import pytest

from orbitmq._native import Command
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.spark.cluster import Reach, SourceCluster
from orbitmq.spark.offsets import OffsetBounds, Offsets
from orbitmq.spark.source.end_watcher import HOLD_AGAIN_S, Watch

TRIGGER_S = 0.05


class Broker:
    """Counts requests; holds pulls until a message arrives."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: Counter[str] = Counter()
        self.offsets: dict[MessageQueue, int] = {}
        self.refuses_pulls = False
        self.is_reachable = True
        self._answers: deque[tuple[int, Command]] = deque()
        self._held: dict[int, int] = {}

    # ---- Interface of a broker

    def arrive(self, queue: MessageQueue) -> None:
        self.offsets[queue] += 1
        for opaque, queue_id in list(self._held.items()):
            if queue_id == queue.queue_id:
                del self._held[opaque]
                self._answers.append((opaque, Command(ResponseCode.SUCCESS, opaque=opaque)))

    # ---- Interface of a cluster

    def clock(self) -> float:
        return self.now

    def patiently(self, what: Any) -> Any:
        return what()

    def reachable_ends(self, queues: list[MessageQueue]) -> Reach:
        self.asked["ends"] += 1
        if not self.is_reachable:
            return Reach(unreachable={"b"})
        return Reach({queue: OffsetBounds(0, self.offsets[queue]) for queue in queues})

    def address(self, _topic: str, _broker: str) -> str:
        return "b:1"

    def new_pipeline(self, _address: str) -> Broker:
        return self

    def pull_fields(self, queue: MessageQueue, offset: int, _count: int) -> dict[str, str]:
        return {"queueId": str(queue.queue_id), "queueOffset": str(offset)}

    # ---- Interface of a connection

    def send(self, code: int, fields: dict[str, str]) -> int:
        assert code == RequestCode.PULL_MESSAGE
        self.asked["pull"] += 1
        opaque = self.asked["pull"]
        if self.refuses_pulls:
            refusal = Command(ResponseCode.NO_PERMISSION, opaque=opaque)
            self._answers.append((opaque, refusal))
        else:
            self._held[opaque] = int(fields["queueId"])
        return opaque

    def poll(self) -> dict[int, Command]:
        answers = dict(self._answers)
        self._answers.clear()
        return answers

    def close(self) -> None:
        self._held.clear()
        self._answers.clear()


def watched(broker: Broker, queues: int) -> tuple[Watch, Offsets]:
    broker.offsets = {MessageQueue("t", "b", number): 0 for number in range(queues)}
    names = sorted(broker.offsets)
    return Watch(cast(SourceCluster, broker), lambda: names), dict.fromkeys(names, 0)


def idle(broker: Broker, watch: Watch, began: Offsets, seconds: float) -> None:
    """Poll like Spark, about a hundred times a second, and read the new messages at once."""
    end = broker.now + seconds
    while broker.now < end:
        for queue, reach in watch.ends(began).items():
            began[queue] = reach.max_offset
        broker.now += TRIGGER_S


@pytest.mark.parametrize("queues", [1, 64, 100, 400])
@pytest.mark.parametrize("refuses_pulls", [False, True])
def test_an_idle_stream_sends_at_most_two_requests_a_second(
    queues: int, refuses_pulls: bool
) -> None:
    broker = Broker()
    broker.refuses_pulls = refuses_pulls
    watch, began = watched(broker, queues)
    idle(broker, watch, began, 2)
    before = broker.asked.total()
    idle(broker, watch, began, 120)
    assert broker.asked.total() - before <= 2 * 120


def test_pulls_are_held_again_after_a_busy_broker_recovers() -> None:
    broker = Broker()
    broker.refuses_pulls = True
    watch, began = watched(broker, 8)
    idle(broker, watch, began, 2)
    broker.refuses_pulls = False
    idle(broker, watch, began, HOLD_AGAIN_S)
    before = broker.asked.total()
    idle(broker, watch, began, 60)
    assert broker.asked.total() - before < 60  # Without held pulls it would be twice as many.


@pytest.mark.parametrize("queues", [1, 64, 101])
def test_a_new_message_is_noticed_with_few_requests(queues: int) -> None:
    broker = Broker()
    watch, began = watched(broker, queues)
    idle(broker, watch, began, 2)
    before = broker.asked.total()
    for number in range(10):
        queue = MessageQueue("t", "b", number * 7 % queues)
        seen = began[queue]
        broker.arrive(queue)
        idle(broker, watch, began, 0.15 if queues <= 100 else 0.6)
        assert began[queue] == seen + 1
    # One request for its end, one to confirm it, and one pull for the queue of the message.
    assert broker.asked.total() - before <= 10 * 3 + 2


def test_an_unreachable_broker_is_requested_again_soon() -> None:
    broker = Broker()
    watch, began = watched(broker, 3)
    broker.is_reachable = False
    idle(broker, watch, began, 10)
    assert watch.reach.unreachable == {"b"}
    assert broker.asked.total() <= 21
    broker.is_reachable = True
    broker.arrive(MessageQueue("t", "b", 2))
    idle(broker, watch, began, 1)
    assert (watch.reach.unreachable, began[MessageQueue("t", "b", 2)]) == (set(), 1)
