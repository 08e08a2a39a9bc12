"""The limits that all connections of a server share, tested without connections."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from orbitmq.remoting.limits import Newcomers
from orbitmq.remoting.rare_log import EVERY_S, RareLog
from orbitmq.remoting.shared_budget import SMALL_BYTES, SharedBudget
from orbitmq.remoting.unsent import Unsent

MIB = 1 << 20


# ---- Budgets of owners


def test_every_peer_gets_what_it_requests_below_the_limit() -> None:
    budget: SharedBudget[str] = SharedBudget(10 * MIB)
    assert budget.take("greedy", 9 * MIB)
    assert budget.take("modest", MIB)
    assert budget.total_bytes == 10 * MIB


def test_only_peers_with_large_amounts_are_refused_beyond_the_limit() -> None:
    budget: SharedBudget[str] = SharedBudget(10 * MIB)
    assert budget.take("greedy", 10 * MIB)
    assert not budget.take("greedy", 1000)
    for _ in range(4):
        assert budget.take("modest", SMALL_BYTES // 4)
    assert not budget.take("modest", 1)
    budget.give_back("greedy", 10 * MIB)
    assert budget.take("modest", MIB)
    assert budget.total_bytes == MIB + SMALL_BYTES


# ---- Unsent bytes


@dataclass(eq=False)
class Peer:
    unsent_bytes: int = 0
    taken_bytes: int = 0


def test_peers_that_read_nothing_for_longest_are_closed() -> None:
    unsent: Unsent[Peer] = Unsent(limit_bytes=10 * MIB)
    slow, stuck, last = Peer(4 * MIB), Peer(4 * MIB), Peer(4 * MIB)
    assert unsent.note(slow) == []
    assert unsent.note(stuck) == []
    slow.taken_bytes = 1
    assert unsent.note(last) == [stuck]
    assert unsent.total_bytes == 8 * MIB
    unsent.forget(slow)
    unsent.forget(last)
    assert unsent.total_bytes == 0


def test_bytes_sent_meanwhile_do_not_count() -> None:
    unsent: Unsent[Peer] = Unsent(limit_bytes=10 * MIB)
    fast = [Peer(4 * MIB) for _ in range(10)]
    for peer in fast:
        assert unsent.note(peer) == []
        peer.unsent_bytes = 0
    assert unsent.total_bytes <= 10 * MIB


def test_small_amounts_do_not_count() -> None:
    unsent: Unsent[Peer] = Unsent(limit_bytes=MIB)
    assert all(unsent.note(Peer(1000)) == [] for _ in range(10_000))
    assert unsent.total_bytes == 0


# ---- Closing of new connections


def test_the_oldest_connection_without_a_request_is_closed() -> None:
    newcomers = Newcomers()
    closed: list[str] = []

    def closing(name: str, *, has_asked: bool = False) -> None:
        def close() -> str | None:
            if has_asked:
                return None
            closed.append(name)
            return name

        newcomers.add(name, close)

    closing("asked", has_asked=True)
    closing("gone")
    closing("old")
    closing("new")
    newcomers.discard("gone")
    assert newcomers.make_room()
    assert closed == ["old"]
    assert newcomers.make_room()
    assert not newcomers.make_room()


# ---- Logging of repeated events


def test_of_many_equal_events_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    log = RareLog(logging.getLogger("rare"), clock_s=lambda: now)
    for number in range(100):
        log.warning("event %d", number)
    now += EVERY_S
    log.warning("event %d", 100)
    assert [record.getMessage() for record in caplog.records] == [
        "event 0",
        "event 100 (99 more like it in the last while)",
    ]
