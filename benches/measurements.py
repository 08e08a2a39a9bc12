"""What is measured, in rounds: each side once a round, in turn, so that a slow minute hits both.

The figure of a side is the median of its rounds; the ratio is ours over the peer's.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.sides import Figures, Side

QUEUES = 8
RECORD_OVERHEAD_BYTES = 147
"""What a record of these benchmarks has beside its body: fixed fields, topic, unique key, tag."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `quick` is for trying the harness, not for quoting."""

    rounds: int = 3
    append_log_mib: int = 448
    append_warmup: int = 500_000
    read_messages: int = 10_000_000
    read_warmup: int = 1_000_000
    open_log_gib: int = 10
    open_queues: int = 1_000

    @staticmethod
    def quick() -> Sizes:
        return Sizes(1, 64, 50_000, 500_000, 100_000, 1, 100)


@dataclass(frozen=True)
class Outcome:
    name: str
    unit: str
    target: str
    ours: list[float]
    theirs: list[float]
    """Empty when there is nobody to compare with."""
    higher_is_better: bool = True
    peer: str = "RocketMQ 4.9.7"

    @property
    def our_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def their_median(self) -> float | None:
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        """How many times better ours is than the peer's."""
        if self.their_median is None:
            return None
        if self.higher_is_better:
            return self.our_median / self.their_median
        return self.their_median / self.our_median


@contextmanager
def fresh_directory(work: Path, name: str) -> Iterator[Path]:
    directory = work / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def append(rust: Side, java: Side, sizes: Sizes, work: Path, body_bytes: int) -> list[Outcome]:
    """A burst after a warm-up and a pause of two seconds: the same bytes of log for every size."""
    messages = (sizes.append_log_mib << 20) // (body_bytes + RECORD_OVERHEAD_BYTES)

    def once(side: Side) -> Figures:
        with fresh_directory(work, f"append-{side.name}") as directory:
            return side.run(
                "append", "--dir", str(directory), "--body", str(body_bytes),
                "--messages", str(messages), "--warmup", str(sizes.append_warmup),
                "--queues", str(QUEUES),
            )  # fmt: skip

    ours, theirs = _in_turn(once, rust, java, sizes.rounds)
    return [_rate(f"append, {body_bytes}-byte bodies", ours, theirs)]


def read(rust: Side, java: Side, sizes: Sizes, work: Path) -> list[Outcome]:
    """Both read the same store, which our side fills: the files are the same files."""
    with fresh_directory(work, "read") as directory:
        rust.run(
            "append", "--dir", str(directory), "--body", "128", "--warmup", "0",
            "--messages", str(sizes.read_messages), "--queues", str(QUEUES),
        )  # fmt: skip

        def once(side: Side) -> Figures:
            return side.run(
                "read", "--dir", str(directory), "--messages", str(sizes.read_messages),
                "--warmup", str(sizes.read_warmup), "--queues", str(QUEUES),
            )  # fmt: skip

        ours, theirs = _in_turn(once, rust, java, sizes.rounds)
    return [_rate(f"read {sizes.read_messages:,} messages by queue", ours, theirs)]


def open_store(rust: Side, java: Side, sizes: Sizes, work: Path) -> list[Outcome]:
    with fresh_directory(work, "open") as directory:
        rust.run(
            "fill", "--dir", str(directory), "--log-gib", str(sizes.open_log_gib),
            "--queues", str(sizes.open_queues), "--body", "1024",
        )  # fmt: skip

        def once(side: Side) -> Figures:
            return side.run("open", "--dir", str(directory))

        ours, theirs = _in_turn(once, rust, java, sizes.rounds)
    name = f"open {sizes.open_log_gib} GiB, {sizes.open_queues:,} queues"

    def outcome(key: str, unit: str, target: str) -> Outcome:
        return Outcome(name, unit, target, [f[key] for f in ours], [f[key] for f in theirs], False)

    return [outcome("seconds", "s", "< 1 s"), outcome("resident_mb", "MB", "< 100 MB")]


def _in_turn(
    once: Callable[[Side], Figures], rust: Side, java: Side, rounds: int
) -> tuple[list[Figures], list[Figures]]:
    figures: dict[str, list[Figures]] = {java.name: [], rust.name: []}
    for _ in range(rounds):
        for side in (java, rust):
            os.sync()  # nobody is to pay for what the one before left to be written
            figures[side.name].append(once(side))
    return figures[rust.name], figures[java.name]


def _rate(name: str, ours: list[Figures], theirs: list[Figures]) -> Outcome:
    key = "messages_per_s"
    return Outcome(name, "messages/s", "≥ 4", [f[key] for f in ours], [f[key] for f in theirs])
