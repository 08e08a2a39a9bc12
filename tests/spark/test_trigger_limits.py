"""Byte limits, for which the size of messages has to be estimated."""

from __future__ import annotations

from typing import cast

import pytest

from orbitmq._native import encode_record
from orbitmq.errors import BrokerRefused, ConnectionLost, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.source.options import BatchLimits
from orbitmq.spark.source.task_plan import LOOK_AGAIN_S, PRESUMED_BYTES, TriggerLimits

QUEUE = MessageQueue("orders", "broker-a", 0)
RECORD = encode_record("orders", b"x" * 300)


class Broker:
    """Returns messages of one size while it is reachable."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fault: OrbitError | None = None

    def sample(self, _queue: MessageQueue, _offset: int, count: int) -> bytes:
        if self.fault is not None:
            raise self.fault
        return RECORD * count


def offsets_of_a_batch(broker: Broker, limits: TriggerLimits) -> int:
    broker.now += LOOK_AGAIN_S
    ends = limits.apply({QUEUE: 0}, {QUEUE: 100_000}, may_wait=False)
    assert ends is not None
    return ends[QUEUE]


def limited(broker: Broker) -> TriggerLimits:
    limits = BatchLimits(None, len(RECORD) * 1000, None, 0)
    return TriggerLimits(limits, cast(SourceCluster, broker), lambda: broker.now)


def test_an_absent_broker_does_not_end_a_stream() -> None:
    broker = Broker()
    limits = limited(broker)
    broker.fault = ConnectionLost("broker-a is away")
    assert offsets_of_a_batch(broker, limits) == int(len(RECORD) * 1000 / PRESUMED_BYTES)
    broker.fault = None
    assert offsets_of_a_batch(broker, limits) == 1000
    broker.fault = ConnectionLost("broker-a is away")
    assert offsets_of_a_batch(broker, limits) == 1000, "what was seen last is the better guess"


def test_a_refusal_of_the_broker_is_raised() -> None:
    broker = Broker()
    broker.fault = BrokerRefused(ResponseCode.NO_PERMISSION, "not for you", address="b:1")
    with pytest.raises(BrokerRefused, match="not for you"):
        offsets_of_a_batch(broker, limited(broker))
