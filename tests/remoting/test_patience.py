"""Adaptive spinning: it stops when waits are wasted and resumes when they pay."""

from __future__ import annotations

import pytest

from orbitmq.remoting import busy_wait as patience
from orbitmq.remoting.busy_wait import MOST_SKIPPED, TRIES, AdaptiveSpin


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_has_processors_to_spare", True)


def waits(learned: AdaptiveSpin, times: int, *, pay: bool) -> str:
    """Make `times` waits; return their kinds: A for awake, s for asleep."""
    seen = ""
    for _ in range(times):
        if learned.for_this_one():
            seen += "A"
            (learned.paid if pay else learned.wasted)()
        else:
            seen += "s"
    return seen


def test_wasted_waits_are_skipped_for_longer_and_longer() -> None:
    seen = waits(AdaptiveSpin(), 100_000, pay=False)
    tries = "A" * TRIES
    assert seen.startswith(tries + "s" + tries + "ss" + tries + "ssss" + tries + "s" * 8 + "A")
    assert max(map(len, seen.split("A"))) == MOST_SKIPPED


def test_one_useful_wait_resets_the_skipping() -> None:
    learned = AdaptiveSpin()
    waits(learned, 1000, pay=False)
    while not learned.for_this_one():
        pass
    learned.paid()
    assert waits(learned, 1000, pay=True) == "A" * 1000
    assert waits(learned, TRIES + 2, pay=False) == "A" * TRIES + "sA"


def test_a_few_late_answers_do_not_count() -> None:
    learned = AdaptiveSpin()
    for _ in range(100):
        assert waits(learned, TRIES - 1, pay=False) + waits(learned, 1, pay=True) == "A" * TRIES


def test_no_wait_spins_when_only_one_processor_is_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "_has_processors_to_spare", False)
    assert waits(AdaptiveSpin(), 100, pay=True) == "s" * 100
