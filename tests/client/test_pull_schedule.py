"""Queues that have their turns: shared out, pulled by hand, committed when the function says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import Admin, AsyncPullSchedule, PullSchedule
from orbitmq.errors import ClientClosed, ConfigError
from orbitmq.testing import LocalCluster
from tests.client.conftest import eventually

Start = Callable[..., Any]


class Turns:
    """The turns there were, in order."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.queues: dict[Any, int] = {}
        self.lock = threading.Lock()

    def note(self, turn: Any, messages: list[Any]) -> None:
        with self.lock:
            self.queues[turn.queue] = self.queues.get(turn.queue, 0) + 1
            self.bodies += [message.body for message in messages]


@pytest.fixture
def start(way: Any, cluster: LocalCluster, group: str) -> Iterator[Start]:
    """Starts a schedule that pulls, and calls a plain function with what came."""
    started = []

    def start(topic: str, take: Callable[[Any, list[Any]], None], **settings: Any) -> Any:
        settings = {"group": group, "consume_from": "first", "rebalance_s": 1} | settings
        schedule = way(PullSchedule, AsyncPullSchedule)(cluster.address, **settings)
        inner = getattr(schedule, "_target", schedule)

        async def pull_awaiting(turn: Any) -> None:
            result = await turn.pull(7)
            take(turn, result.messages)
            turn.commit(result.next_offset)
            turn.next_in_s = 0.01

        def pull(turn: Any) -> None:
            result = turn.pull(7)
            take(turn, result.messages)
            turn.commit(result.next_offset)
            turn.next_in_s = 0.01

        inner.on(topic)(pull_awaiting if way.kind == "async" else pull)
        started.append(schedule)
        return schedule.start()

    yield start
    for schedule in started:
        schedule.stop()


def test_every_queue_has_its_turns(
    start: Start, send: Any, topic: str, group: str, cluster: LocalCluster
) -> None:
    bodies = [str(number) for number in range(40)]
    send(*bodies)
    turns = Turns()
    schedule = start(topic, turns.note)
    eventually(lambda: len(turns.bodies) >= 40 and len(turns.queues) == 4)
    eventually(lambda: min(turns.queues.values()) > 3)
    schedule.stop()
    assert sorted(turns.bodies) == sorted(body.encode() for body in bodies)
    with Admin(cluster.address) as admin:
        assert admin.group_lag(group, topic).total == 0
    send("later")
    again = Turns()
    start(topic, again.note)
    eventually(lambda: again.bodies == [b"later"])


def test_members_share_the_queues(start: Start, send: Any, topic: str) -> None:
    send("x")
    one, other = Turns(), Turns()
    start(topic, one.note)
    start(topic, other.note)

    def shared() -> bool:
        one.queues.clear()
        other.queues.clear()
        eventually(lambda: len(one.queues) + len(other.queues) >= 4)
        mine, others = set(one.queues), set(other.queues)
        return len(mine) == len(others) == 2 and not mine & others

    eventually(shared)


def test_a_turn_that_fails_comes_again_from_where_it_was(
    start: Start, send: Any, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    send("a")
    turns, failed = Turns(), threading.Event()

    def take(turn: Any, messages: list[Any]) -> None:
        if messages and not failed.is_set():
            failed.set()
            raise ValueError("not yet")
        turns.note(turn, messages)

    start(topic, take, error_delay_ms=10)
    eventually(lambda: turns.bodies == [b"a"])
    assert failed.is_set()
    assert any("the turn of" in record.message for record in caplog.records)


def test_a_function_may_end_it(cluster: LocalCluster, send: Any, topic: str, group: str) -> None:
    send("a")
    ended = threading.Event()
    schedule = PullSchedule(cluster.address, group=group, consume_from="first")

    @schedule.on(topic)
    def pull(turn: Any) -> None:
        if turn.pull().messages:
            schedule.stop()
            ended.set()

    schedule.start()
    assert ended.wait(30)
    assert not schedule.is_running


def test_what_is_wrong_is_said(cluster: LocalCluster) -> None:
    async def coroutine(_turn: Any) -> None:
        """Do nothing."""

    schedule = PullSchedule(cluster.address, group="g")
    with pytest.raises(ConfigError, match="nothing to call"):
        schedule.start()
    with pytest.raises(ConfigError, match="AsyncPullSchedule"):
        schedule.on("T")(coroutine)
    schedule.on("T")(lambda turn: None)
    with schedule:
        with pytest.raises(ClientClosed, match="already"):
            schedule.start()
        with pytest.raises(ConfigError, match="before the start"):
            schedule.on("U")
