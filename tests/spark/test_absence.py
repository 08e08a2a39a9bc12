"""How long a queue may be missing, while others are read: nobody waits here, time is played."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orbitmq.errors import BrokerBusy, ConnectionLost, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.absence import SURE_AFTER_S, Absences
from orbitmq.spark.cluster import Cluster, Endpoint, Reach
from orbitmq.spark.data_loss import DataLoss, MessagesLost
from orbitmq.spark.offsets import QueueEnds

HERE, AWAY = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)
WANTED = {HERE: 3, AWAY: 7}
MAX_ABSENCE_S = 60.0


class PlayedCluster:
    """Has the queues that it is told to have; pauses take no time but the played one."""

    def __init__(self, *queues: MessageQueue) -> None:
        self.now = 0.0
        self.pauses = 0
        self.queues = queues
        self.silent: set[str] = set()
        """Brokers that are registered and do not answer."""
        self.dying: set[str] = set()
        """Brokers that answer once and no more."""
        self.unknown: set[tuple[str, str]] = set()
        """Topics that a broker does not have, although a nameserver says so."""

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1

    def patiently(self, what: Any) -> Any:
        return what()

    def registered_brokers(self) -> set[str]:
        return {queue.broker_name for queue in self.queues}

    def route(self, _topic: str) -> SimpleNamespace:
        brokers = {name: {0: "127.0.0.1:1"} for name in self.registered_brokers()}
        return SimpleNamespace(subscribe_queues=self.queues, brokers=brokers)

    def forget_routes(self) -> None:
        pass

    def reachable_ends(self, queues: Iterable[MessageQueue]) -> Reach:
        reach = Reach(unreachable=self.silent & {queue.broker_name for queue in queues})
        for queue in queues:
            if (queue.topic, queue.broker_name) in self.unknown:
                reach.unknown.add((queue.topic, queue.broker_name))
            elif queue.broker_name not in self.silent:
                reach.ends[queue] = QueueEnds(0, 9)
        return reach

    def endpoint(self, _topic: str, broker: str) -> Endpoint:
        if broker in self.dying:
            raise ConnectionLost(f"{broker} is gone")
        return Endpoint(f"{broker}:1", frozenset())


def absences(cluster: PlayedCluster, *, fail: bool) -> Absences:
    max_absence_ms = int(MAX_ABSENCE_S * 1000)
    return Absences(
        cast(Cluster, cluster), DataLoss(fail=fail), max_absence_ms, pause=cluster.pause
    )


def triggers(cluster: PlayedCluster, watched: Absences, seconds: int) -> None:
    """Do what a stream does once a second: look for more, and plan a batch of what is there."""
    for _ in range(seconds):
        watched.check(WANTED, cluster.reachable_ends(cluster.queues))
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
        while watched.check(WANTED, cluster.reachable_ends(cluster.queues)):
            cluster.now += 0.5
        watched.await_queues({HERE: 3})
    assert cluster.now <= MAX_ABSENCE_S + 1


@pytest.mark.parametrize("trouble", ["silent", "dying"])
def test_a_batch_waits_for_a_broker_that_does_not_answer(trouble: str) -> None:
    cluster = PlayedCluster(HERE, AWAY)
    setattr(cluster, trouble, {"broker-b"})
    watched = absences(cluster, fail=True)
    with pytest.raises(MessagesLost, match=r"broker gone.* broker-b from offset 7 on"):
        watched.await_queues(WANTED)
    assert MAX_ABSENCE_S <= cluster.now <= MAX_ABSENCE_S + 1
    ends, endpoints = absences(cluster, fail=False).await_queues(WANTED)
    assert (set(ends), set(endpoints)) == ({HERE}, {"broker-a"})


def test_a_topic_that_its_broker_does_not_know_is_deleted_whatever_nameservers_say() -> None:
    cluster = PlayedCluster(HERE, AWAY)
    cluster.unknown = {("t", "broker-b")}
    with pytest.raises(MessagesLost, match=r"topic deleted.* broker-b from offset 7 on"):
        absences(cluster, fail=True).await_queues(WANTED)
    assert SURE_AFTER_S <= cluster.now <= SURE_AFTER_S + 1


def task_losses(cluster: PlayedCluster, max_absence_ms: int | None, **more: Any) -> DataLoss:
    return DataLoss(max_absence_ms=max_absence_ms, pause=cluster.pause, clock=cluster.clock, **more)


def try_on(losses: DataLoss, error: OrbitError) -> None:
    """Be refused for as long as that is put up with."""
    while True:
        losses.had_trouble(error)


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("interval_ms", [0, 500])
def test_a_task_of_a_stream_waits_for_a_broker_as_long(fail: bool, interval_ms: int) -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, 60_000, fail=fail, retries=3, retry_interval_ms=interval_ms)
    lost = ConnectionLost("cannot connect to broker-b:1")
    for _ in range(2):
        began, cluster.pauses = cluster.now, 0
        with pytest.raises(MessagesLost, match=r"broker gone.*cannot connect to broker-b:1"):
            try_on(losses, lost)
        assert 60 <= cluster.now - began <= 61
        assert cluster.pauses <= 610
        losses.made_progress()  # patience begins anew


def test_a_broker_that_is_busy_for_too_long_is_not_called_gone() -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, 60_000, fail=True)
    with pytest.raises(BrokerBusy, match="too much to do"):
        try_on(losses, BrokerBusy(2, "too much to do"))
    assert cluster.now == 60


def test_a_task_of_a_batch_tries_so_many_times() -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, None, fail=True, retries=3)
    with pytest.raises(ConnectionLost):
        try_on(losses, ConnectionLost("gone"))
    assert cluster.now == 3 * 0.5
