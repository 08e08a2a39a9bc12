"""Time limits for missing queues while others are read; all time is simulated."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orbitmq.errors import BrokerBusy, ConnectionLost, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.cluster import Endpoint, Reach, SourceCluster
from orbitmq.spark.offsets import OffsetBounds
from orbitmq.spark.source.availability import (
    LOOK_AGAIN_S,
    SURE_AFTER_S,
    QueueAvailability,
    Sightings,
)
from orbitmq.spark.source.data_loss import (
    AWAY,
    Absence,
    AwayStrategy,
    BrokerAway,
    DataLoss,
    MessagesLost,
)

HERE, THERE = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)
WANTED = {HERE: 3, THERE: 7}
MAX_ABSENCE_S = 60.0
ROUTE_TTL_S = 1.0


class PlayedCluster:
    """A cluster with queues that a test sets; pauses take only simulated time.

    Routes are kept for a while, as they are by a real one.
    """

    def __init__(self, *queues: MessageQueue) -> None:
        self.now = 0.0
        self.pauses = 0
        self.queues = queues
        self.registered: set[str] | None = None
        """Brokers that nameservers list; None means those that have queues."""
        self.nameservers_answer = True
        self.read_routes = 0
        self._route: tuple[float, tuple[MessageQueue, ...]] | None = None
        self.silent: set[str] = set()
        """Brokers that are registered and do not answer."""
        self.dying: set[str] = set()
        """Brokers that answer only once more."""
        self.unknown: set[tuple[str, str]] = set()
        """Topics that a broker does not have, although a nameserver lists them."""

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1

    def patiently(self, what: Any) -> Any:
        return what()

    def registered_brokers(self) -> set[str] | None:
        if not self.nameservers_answer:
            return None
        if self.registered is not None:
            return self.registered
        return {queue.broker_name for queue in self.queues}

    def route(self, _topic: str) -> SimpleNamespace | None:
        if self._route is None or self.now >= self._route[0] + ROUTE_TTL_S:
            self.read_routes += 1
            self._route = (self.now, self.queues)
        queues = self._route[1]
        if not queues:
            return None
        brokers = {queue.broker_name: {0: "127.0.0.1:1"} for queue in queues}
        return SimpleNamespace(subscribe_queues=queues, brokers=brokers)

    def forget_routes(self) -> None:
        self._route = None

    def seen(self) -> Reach:
        """Return the end offsets a trigger finds with the known routes."""
        route = self.route("t")
        return self.reachable_ends([] if route is None else route.subscribe_queues)

    def reachable_ends(self, queues: Iterable[MessageQueue]) -> Reach:
        reach = Reach(unreachable=self.silent & {queue.broker_name for queue in queues})
        for queue in queues:
            if (queue.topic, queue.broker_name) in self.unknown:
                reach.unknown.add((queue.topic, queue.broker_name))
            elif queue.broker_name not in self.silent:
                reach.ends[queue] = OffsetBounds(0, 9)
        return reach

    def endpoint(self, _topic: str, broker: str) -> Endpoint:
        if broker in self.dying:
            raise ConnectionLost(f"{broker} is gone")
        return Endpoint(f"{broker}:1", frozenset())


def absences(
    cluster: PlayedCluster, *, fail: bool, when_away: AwayStrategy | None = None
) -> QueueAvailability:
    losses = DataLoss(fail=fail, when_away=when_away or ("fail" if fail else "wait"))
    max_absence_ms = int(MAX_ABSENCE_S * 1000)
    return QueueAvailability(
        cast(SourceCluster, cluster), losses, max_absence_ms, pause=cluster.pause
    )


def triggers(cluster: PlayedCluster, watched: QueueAvailability, seconds: int) -> None:
    """Do the work of a stream once a second: look for new messages, and plan a batch."""
    for _ in range(seconds):
        watched.check(WANTED, cluster.reachable_ends(cluster.queues))
        watched.await_queues({queue: WANTED[queue] for queue in cluster.queues})
        cluster.now += 1


def test_a_broker_away_too_long_is_an_error_even_when_another_is_busy() -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=True)
    with pytest.raises(BrokerAway, match=r"broker is away.* broker-b from offset 7 on") as caught:
        triggers(cluster, watched, 3600)
    assert MAX_ABSENCE_S <= cluster.now <= MAX_ABSENCE_S + 2
    says_nothing_of_loss(str(caught.value))


def says_nothing_of_loss(text: str) -> None:
    assert "failOnDataLoss" not in text
    assert "messages are lost" not in text
    assert "not lost" in text
    assert "maxBrokerAbsence" in text


@pytest.mark.parametrize("away_s", [0.25, 0.5, 1.25, 1.75, 2, 4, 5.5, 30])
@pytest.mark.parametrize("others", [True, False], ids=["beside others", "alone"])
def test_a_returning_broker_is_never_reported_as_a_deleted_topic(
    away_s: float, others: bool
) -> None:
    back = (HERE, THERE) if others else (THERE,)
    wanted = dict.fromkeys(back, 3)
    for step in range(20):  # The broker leaves at any moment of a route's life.
        cluster = PlayedCluster(*back)
        watched = absences(cluster, fail=True)
        for queues, seconds in ((back, 1 + step / 20), (back[:-1], away_s), (back, 3)):
            cluster.queues = queues
            end = cluster.now + seconds
            while cluster.now < end:
                watched.check(wanted, cluster.seen())
                cluster.now += 0.05
        assert not watched.check(wanted, cluster.seen())


@pytest.mark.parametrize("away_s", [2, 30])
def test_a_batch_waiting_for_a_broker_reports_no_deleted_topic(away_s: float) -> None:
    class Returning(PlayedCluster):
        """Lets the broker return during a look, after the registrations are read."""

        def registered_brokers(self) -> set[str] | None:
            if self.now >= away_s:
                self.queues = (HERE, THERE)
            return super().registered_brokers()

    cluster = Returning(HERE)
    ends, _ = absences(cluster, fail=True).await_queues(WANTED)
    assert set(ends) == {HERE, THERE}
    assert away_s <= cluster.now <= away_s + 2


def test_a_deleted_topic_is_reported_after_a_short_delay() -> None:
    cluster = PlayedCluster(HERE)
    cluster.registered = {"broker-a", "broker-b"}
    watched = absences(cluster, fail=True)
    with pytest.raises(MessagesLost, match=r"topic deleted.* broker-b from offset 7 on"):
        triggers(cluster, watched, 3600)
    assert SURE_AFTER_S <= cluster.now <= SURE_AFTER_S + 1


def test_a_removed_queue_is_reported_after_a_short_delay() -> None:
    cluster = PlayedCluster(HERE, MessageQueue("t", "broker-b", 1))
    watched = absences(cluster, fail=True)
    with pytest.raises(MessagesLost, match=r"queue removed.* broker-b from offset 7 on"):
        watched.await_queues(WANTED)
    assert SURE_AFTER_S <= cluster.now <= SURE_AFTER_S + 1


@pytest.mark.parametrize("away_s", [4, 40])
def test_a_topic_missing_on_a_returned_broker_is_reported_soon(away_s: int) -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=True)
    triggers(cluster, watched, away_s)
    cluster.registered = {"broker-a", "broker-b"}
    with pytest.raises(MessagesLost, match=r"topic deleted.* broker-b from offset 7 on"):
        triggers(cluster, watched, 3600)
    assert away_s + SURE_AFTER_S <= cluster.now <= away_s + SURE_AFTER_S + 1


def test_no_absence_is_reported_while_no_nameserver_answers() -> None:
    cluster = PlayedCluster(HERE)
    cluster.nameservers_answer = False
    watched = absences(cluster, fail=True)
    for _ in range(3600):
        assert watched.check(WANTED, cluster.reachable_ends([HERE]))
        cluster.now += 1


def test_routes_are_read_again_before_an_absence_is_reported() -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=True)
    watched.check(WANTED, cluster.seen())
    before = cluster.read_routes
    cluster.now += LOOK_AGAIN_S  # The route is younger than its limit.
    watched.check(WANTED, cluster.seen())
    assert cluster.read_routes > before


DELETED: Absence = "topic deleted"


@pytest.mark.parametrize(
    ("sights", "told"),
    [
        ([(0, DELETED), (1, DELETED)], []),
        ([(0, DELETED), (1.5, DELETED), (2, DELETED)], [1.5]),
        ([(0, AWAY), (30, AWAY), (59, AWAY)], []),
        ([(0, AWAY), (60, AWAY), (61, AWAY)], [60]),
        # Each cause has its own time.
        ([(0, AWAY), (59, DELETED), (60, DELETED), (61, DELETED)], [61]),
        ([(0, DELETED), (1, AWAY), (2, DELETED), (3, DELETED), (3.5, DELETED)], [3.5]),
        ([(0, DELETED), (1, "queue removed"), (2, "queue removed"), (3, "queue removed")], [3]),
        # A route ends the sightings of a topic; a broker is back when its queues are read.
        ([(0, DELETED), (1, None), (2, DELETED), (3, DELETED)], []),
        ([(0, AWAY), (30, None), (60, AWAY)], [60]),
        # A loss is reported once; an absence may later prove to be a loss.
        ([(0, DELETED), (2, DELETED), (3, AWAY), (99, AWAY), (100, None), (104, DELETED)], [2]),
        ([(0, AWAY), (60, AWAY), (61, DELETED), (63, DELETED)], [60, 63]),
    ],
)
def test_an_absence_is_reported_after_consistent_sightings(
    sights: list[tuple[float, Absence | None]], told: list[float]
) -> None:
    seen = Sightings(MAX_ABSENCE_S)
    assert [now for now, cause in sights if seen.see(THERE, cause, now)] == told
    last = [cause for now, cause in sights if now in told]
    assert seen.told(THERE) == (last[-1] if last else None)
    seen.are_back([HERE, THERE])
    assert seen.told(THERE) is None


def test_a_warning_comes_once_per_absence(caplog: pytest.LogCaptureFixture) -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=False)
    with caplog.at_level(logging.WARNING):
        triggers(cluster, watched, 600)
        assert len(caplog.records) == 1
        cluster.queues = (HERE, THERE)
        triggers(cluster, watched, 1)
        cluster.queues = (HERE,)
        triggers(cluster, watched, int(MAX_ABSENCE_S) - 1)
        assert len(caplog.records) == 1
        triggers(cluster, watched, 600)
        assert len(caplog.records) == 2


def test_a_run_to_a_fixed_end_waits_for_a_broker_only_once() -> None:
    cluster = PlayedCluster(HERE)
    watched = absences(cluster, fail=False)
    for _ in range(10):  # Batches; before each it waits for everything that may come back.
        while watched.check(WANTED, cluster.reachable_ends(cluster.queues)):
            cluster.now += 0.5
        watched.await_queues({HERE: 3})
    assert cluster.now <= MAX_ABSENCE_S + 1


@pytest.mark.parametrize("trouble", ["silent", "dying"])
def test_a_batch_waits_for_a_broker_that_does_not_answer(trouble: str) -> None:
    cluster = PlayedCluster(HERE, THERE)
    setattr(cluster, trouble, {"broker-b"})
    watched = absences(cluster, fail=True)
    with pytest.raises(BrokerAway, match=r"broker is away.* broker-b from offset 7 on") as caught:
        watched.await_queues(WANTED)
    assert MAX_ABSENCE_S <= cluster.now <= MAX_ABSENCE_S + 1
    says_nothing_of_loss(str(caught.value))
    ends, endpoints = absences(cluster, fail=True, when_away="skip").await_queues(WANTED)
    assert (set(ends), set(endpoints)) == ({HERE}, {"broker-a"})


@pytest.mark.parametrize("fail", [True, False])
def test_a_batch_waits_without_limit_when_the_strategy_is_wait(
    fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Returning(PlayedCluster):
        def pause(self, seconds: float) -> None:
            super().pause(seconds)
            if self.now >= 3600:
                self.silent.clear()

    cluster = Returning(HERE, THERE)
    cluster.silent = {"broker-b"}
    with caplog.at_level(logging.WARNING):
        ends, _ = absences(cluster, fail=fail, when_away="wait").await_queues(WANTED)
    assert set(ends) == {HERE, THERE}
    assert 3600 <= cluster.now <= 3602
    (told,) = caplog.messages
    says_nothing_of_loss(told)


def test_a_topic_unknown_to_its_broker_counts_as_deleted() -> None:
    cluster = PlayedCluster(HERE, THERE)
    cluster.unknown = {("t", "broker-b")}
    with pytest.raises(MessagesLost, match=r"topic deleted.* broker-b from offset 7 on"):
        absences(cluster, fail=True).await_queues(WANTED)
    assert SURE_AFTER_S <= cluster.now <= SURE_AFTER_S + 1


def task_losses(cluster: PlayedCluster, max_absence_ms: int | None, **more: Any) -> DataLoss:
    return DataLoss(max_absence_ms=max_absence_ms, pause=cluster.pause, clock=cluster.clock, **more)


def try_on(losses: DataLoss, error: OrbitError) -> None:
    """Raise the error repeatedly, as long as it is tolerated."""
    while True:
        losses.had_trouble(error)


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("interval_ms", [0, 500])
def test_a_task_of_a_stream_waits_as_long_as_a_batch(fail: bool, interval_ms: int) -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, 60_000, fail=fail, retries=3, retry_interval_ms=interval_ms)
    lost = ConnectionLost("cannot connect to broker-b:1")
    for _ in range(2):
        began, cluster.pauses = cluster.now, 0
        with pytest.raises(BrokerAway, match=r"away.*cannot connect to broker-b:1") as caught:
            try_on(losses, lost)
        says_nothing_of_loss(str(caught.value))
        assert 60 <= cluster.now - began <= 61
        assert cluster.pauses <= 610
        losses.made_progress()  # The time limit starts again.


def test_a_task_waits_without_limit_when_the_strategy_is_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, 60_000, fail=True, when_away="wait")
    with caplog.at_level(logging.WARNING):
        while cluster.now < 3600:
            losses.had_trouble(ConnectionLost("cannot connect to broker-b:1"))
    (told,) = caplog.messages
    says_nothing_of_loss(told)


def test_a_broker_busy_for_too_long_is_not_reported_as_away() -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, 60_000, fail=True)
    with pytest.raises(BrokerBusy, match="too much to do"):
        try_on(losses, BrokerBusy(2, "too much to do"))
    assert cluster.now == 60


def test_a_task_of_a_batch_stops_after_its_retries() -> None:
    cluster = PlayedCluster()
    losses = task_losses(cluster, None, fail=True, retries=3)
    with pytest.raises(ConnectionLost):
        try_on(losses, ConnectionLost("gone"))
    assert cluster.now == 3 * 0.5
