"""How long a queue may be missing, while others are read: nobody waits here, time is played."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.absence import Absences
from orbitmq.spark.cluster import Cluster
from orbitmq.spark.data_loss import DataLoss, MessagesLost

HERE, AWAY = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)
WANTED = {HERE: 3, AWAY: 7}
MAX_ABSENCE_S = 60.0


class PlayedCluster:
    """Has the queues that it is told to have; pauses take no time but the played one."""

    def __init__(self, *queues: MessageQueue) -> None:
        self.now = 0.0
        self.queues = queues

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def patiently(self, what: Any) -> Any:
        return what()

    def registered_brokers(self) -> set[str]:
        return {queue.broker_name for queue in self.queues}

    def route(self, _topic: str) -> SimpleNamespace:
        brokers = dict.fromkeys(self.registered_brokers(), {0: "127.0.0.1:1"})
        return SimpleNamespace(subscribe_queues=self.queues, brokers=brokers)

    def forget_routes(self) -> None:
        pass


def absences(cluster: PlayedCluster, *, fail: bool) -> Absences:
    max_absence_ms = int(MAX_ABSENCE_S * 1000)
    return Absences(
        cast(Cluster, cluster), DataLoss(fail=fail), max_absence_ms, pause=cluster.pause
    )


def triggers(cluster: PlayedCluster, watched: Absences, seconds: int) -> None:
    """Do what a stream does once a second: look for more, and plan a batch of what is there."""
    for _ in range(seconds):
        watched.check(WANTED, cluster.queues)
        watched.await_queues({queue: WANTED[queue] for queue in cluster.queues})
        cluster.now += 1


def test_a_broker_is_gone_in_the_end_also_while_another_is_busy() -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=True)
    with pytest.raises(MessagesLost, match=r"broker gone.* broker-b from offset 7 on"):
        triggers(cluster, watched, 3600)
    assert MAX_ABSENCE_S <= cluster.now <= MAX_ABSENCE_S + 2


def test_it_is_told_once_and_again_after_it_was_back(caplog: pytest.LogCaptureFixture) -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=False)
    with caplog.at_level(logging.WARNING):
        triggers(cluster, watched, 600)
        assert len(caplog.records) == 1
        cluster.queues = (HERE, AWAY)
        triggers(cluster, watched, 1)
        cluster.queues = (HERE,)
        triggers(cluster, watched, int(MAX_ABSENCE_S) - 1)
        assert len(caplog.records) == 1
        triggers(cluster, watched, 600)
        assert len(caplog.records) == 2


def test_a_run_to_a_fixed_end_waits_once_not_before_every_batch() -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=False)
    for _ in range(10):  # batches; before each it waits for all that may come back
        while watched.check(WANTED, cluster.queues):
            cluster.now += 0.5
        watched.await_queues({HERE: 3})
    assert cluster.now <= MAX_ABSENCE_S + 1
