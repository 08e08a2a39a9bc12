"""No message is handled twice by our members while members and brokers are restarted.

Java's client begins with a queue before the member that had it has finished, so a group in which it
takes part has repeats of its own; they are counted and shown (`pytest -s`, `make soak`).
"""

from __future__ import annotations

import pytest

from compat.restarts.conftest import ROUNDS, Play

pytestmark = pytest.mark.counted

only_in_a_soak = pytest.mark.skipif(not ROUNDS, reason="a comparison, for make soak")


@pytest.mark.parametrize("cluster_kind", ["orbitmq", "killed", "apache"])
def test_no_message_is_handled_twice_when_members_and_brokers_restart(play: Play) -> None:
    repeats = play("ooo")
    assert repeats.among_ours == []
    assert (repeats.by_members, repeats.by_brokers) == (0, 0)


@pytest.mark.parametrize("cluster_kind", ["orbitmq"])
def test_our_members_repeat_nothing_beside_a_java_member(play: Play) -> None:
    assert play("ooj").among_ours == []


@only_in_a_soak
@pytest.mark.parametrize("cluster_kind", ["orbitmq", "apache"])
def test_repeats_of_java_members_are_counted_for_comparison(play: Play) -> None:
    play("jjj")


@only_in_a_soak
@pytest.mark.parametrize("cluster_kind", ["apache"])
def test_repeats_are_counted_when_java_may_move_offsets_back(
    play: Play,
) -> None:
    play("ooj")
