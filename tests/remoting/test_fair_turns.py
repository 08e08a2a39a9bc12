"""Shares of the event loop's turns, with a clock that the work itself moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from orbitmq.remoting.coalesce import WriteCoalescer
from orbitmq.remoting.fair_turns import SHARE_S, TURN_S, FairTurns


class Loop:
    """A test clock, and a loop whose turns a test begins."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.soon: list[Callable[[], None]] = []
        self.turns = FairTurns(self.soon.append, lambda: self.now_s)

    def turn(self) -> None:
        soon, self.soon[:] = list(self.soon), []
        for work in soon:
            work()


class Busy:
    """A connection with a given number of requests, each of which takes a fifth of a share."""

    def __init__(self, loop: Loop, requests: int) -> None:
        self._loop = loop
        self.left = requests
        self.is_aborted = False
        loop.turns.join(self)

    def work(self, until_s: float) -> bool:
        while self.left:
            self.left -= 1
            self._loop.now_s += SHARE_S / 5
            if self._loop.now_s >= until_s:
                break
        return bool(self.left)

    def abort(self) -> None:
        self.is_aborted = True


class Broken(Busy):
    """A connection that fails."""

    def work(self, until_s: float) -> bool:
        raise ZeroDivisionError("boom")


def test_all_connections_get_shares_in_rotation() -> None:
    loop = Loop()
    many = [Busy(loop, 1000) for _ in range(3)]
    loop.turn()
    done = [1000 - one.left for one in many]
    assert max(done) - min(done) <= 6
    assert min(done) > 0


def test_a_turn_ends_when_more_work_is_left() -> None:
    loop = Loop()
    many = [Busy(loop, 1000) for _ in range(100)]
    began = loop.now_s
    loop.turn()
    assert TURN_S <= loop.now_s - began < TURN_S + SHARE_S
    assert sum(one.left < 1000 for one in many) < 100
    while loop.soon:
        loop.turn()
    assert not any(one.left for one in many)


def test_the_share_of_a_read_ends_with_the_turn() -> None:
    loop = Loop()
    assert loop.turns.share() == loop.now_s + SHARE_S
    loop.now_s += TURN_S
    assert loop.turns.share() <= loop.now_s
    loop.turn()
    assert loop.turns.share() == loop.now_s + SHARE_S


def test_a_failing_connection_is_closed_and_the_others_go_on() -> None:
    loop = Loop()
    broken, fine = Broken(loop, 1), Busy(loop, 1)
    loop.turn()
    assert broken.is_aborted
    assert not fine.left
    assert not loop.soon


def test_answers_are_written_before_others_get_their_next_shares() -> None:
    order: list[str] = []

    class Flooding:
        def work(self, until_s: float) -> bool:
            order.append("share")
            return False

        def abort(self) -> None: ...

    class Asking:
        def write_collected(self) -> None:
            order.append("answer")

    async def turn() -> None:
        loop = asyncio.get_running_loop()
        turns = FairTurns.of(loop)
        turns.share()  # One connection has read more than its share,
        turns.join(Flooding())
        WriteCoalescer.of(loop).join(Asking())  # and another one, after it, is answered.
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(turn())
    assert order == ["answer", "share"]
