"""A server's event loop that stays awake for the next request, or sleeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.remoting import busy_wait as patience
from orbitmq.remoting import coalesce as staying_awake
from orbitmq.remoting.busy_wait import TRIES
from orbitmq.remoting.coalesce import AWAKE_S, LoopKeepAwake


class Turns:
    """A loop that records whether its next turn was requested, with a clock that a test sets."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.now = 100.0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def monotonic(self) -> float:
        return self.now

    def turn(self, seconds: float = 0.0) -> bool:
        """Let time pass and run one turn; return True if the next one begins at once."""
        self.now += seconds
        called, self.soon = self.soon, []
        assert len(called) <= 1
        for callback in called:
            callback()
        return bool(self.soon)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    made = Turns()
    monkeypatch.setattr(staying_awake, "time", made)
    monkeypatch.setattr(patience, "_has_processors_to_spare", True)
    return made


def awake(turns: Any) -> LoopKeepAwake:
    return LoopKeepAwake(turns)


def test_the_loop_stays_awake_briefly_after_each_answer(turns: Turns) -> None:
    loop = awake(turns)
    for _ in range(100):
        loop.answered(1)
        assert turns.turn(AWAKE_S / 2)
        assert turns.turn(AWAKE_S / 4)
    assert not turns.turn(AWAKE_S / 2), "the moment is over"


def test_the_loop_sleeps_after_several_late_requests(turns: Turns) -> None:
    loop = awake(turns)
    for _ in range(TRIES):
        loop.answered(1)
        assert turns.soon
        assert not turns.turn(2 * AWAKE_S)
    loop.answered(1)
    assert not turns.soon, "it has learned"
    loop.answered(1)
    assert turns.soon, "and tries again"


def test_the_loop_sleeps_when_several_connections_were_answered(turns: Turns) -> None:
    loop = awake(turns)
    loop.answered(2)
    assert not turns.soon
    loop.answered(1)
    assert turns.turn()
    loop.answered(2)
    assert not turns.turn()
    for _ in range(10 * TRIES):  # These waits were not wasted: the next request came in time.
        loop.answered(1)
        assert turns.turn()
        loop.answered(2)
        loop.answered(1)
        assert turns.turn(), "one look at a time, whatever happens between two"
