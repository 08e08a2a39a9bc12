"""The common limit on unfinished frames of all connections."""

from __future__ import annotations

from orbitmq.remoting.partial_frames import PartialFrames

MIB = 1 << 20


def test_the_oldest_unfinished_frames_are_closed_first() -> None:
    frames: PartialFrames[str] = PartialFrames(limit_bytes=10 * MIB)
    assert frames.note("a", 4 * MIB) == []
    assert frames.note("b", 4 * MIB) == []
    assert frames.note("a", 5 * MIB) == []
    assert frames.total_bytes == 9 * MIB
    assert frames.note("c", 3 * MIB) == ["a"]
    assert frames.note("c", 9 * MIB) == ["b"]
    assert frames.total_bytes == 9 * MIB


def test_a_completed_frame_makes_room() -> None:
    frames: PartialFrames[str] = PartialFrames(limit_bytes=10 * MIB)
    for _ in range(100):
        assert frames.note("a", 6 * MIB) == []
        assert frames.note("b", 4 * MIB) == []
        assert frames.note("a", 0) == []
        frames.forget("b")
    assert frames.total_bytes == 0


def test_small_parts_do_not_count() -> None:
    frames: PartialFrames[int] = PartialFrames(limit_bytes=MIB)
    assert all(frames.note(peer, 1000) == [] for peer in range(10_000))
    assert frames.total_bytes == 0
