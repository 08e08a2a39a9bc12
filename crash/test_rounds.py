"""A writer is killed at a random moment, again and again on one growing directory.

A *life* is a directory and the rounds on it. In each round a writer opens the store (recovering
from the round before), appends under sync flush and is killed: mostly in the midst of its appends,
sometimes already while it starts or recovers. Then, in some lives, the power is cut as well. Then
the store is opened and everything is verified. Half the time that happens on a copy, so that the
next writer meets the wreck itself; else in place, so that it meets a store that was closed.

Files are small: a round crosses the ends of log, queue and index files. The writer's clock runs
fast, so that checkpoints fall between log files and recovery really starts in the middle.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import pytest

from compat.jars import REPOSITORY_ROOT
from crash.power_cut import PowerCut, Remains
from crash.verify import verify
from crash.writer import Acknowledged, WriterSettings, parse_report
from orbitmq._native import Store, StoreOptions

ROUNDS_PER_LIFE = 20
KILL_LIVES = 10
POWER_CUT_LIVES = 2
INDEX_SLOTS = 61
OPTIONS = {
    "commit_log_file_size": 64 << 10,
    "consume_queue_file_size": 20 * 100,
    "index_slots": INDEX_SLOTS,
    "index_entries": 700,
    "checkpoint_interval_ms": 15,
    "queue_flush_interval_ms": 5,
}
# More than a writer can have appended without being able to report it.
UNREPORTED = 50
WRONG_BY_MS = 24 * 3_600_000


@dataclass
class Life:
    root: Path
    chooser: random.Random
    settings: WriterSettings
    acknowledged: list[Acknowledged] = field(default_factory=list)
    flushed_offset: int = 0
    found: int = 0

    @staticmethod
    def begin(root: Path, seed: int) -> Life:
        settings = WriterSettings(
            root=str(root),
            seed=seed & 0x7FFF_FFFF,
            first=0,
            topics=(("Orders", 2), ("Payments", 3)),
            largest_body=2_500,
            options=OPTIONS,
            epoch_ms=1_700_000_000_000,
            tick_ms=200,
        )
        root.mkdir()
        return Life(root, random.Random(seed), settings)

    def write_until_killed(self) -> None:
        complaints = self.root.with_name("writer.err")
        with (
            complaints.open("wb") as stderr,
            subprocess.Popen(
                [sys.executable, "-m", "crash.writer", self.settings.to_json()],
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=REPOSITORY_ROOT,
            ) as process,
        ):
            assert process.stdout is not None
            try:
                reports = self._reports_until_kill(process.stdout)
            finally:
                process.kill()
            reports += process.stdout.readlines()
        assert process.returncode == -9, f"the writer ended by itself: {complaints.read_text()}"
        for line in reports:
            self.acknowledged += parse_report(line)
        last_number = self.settings.first
        if self.acknowledged:
            last_number = max(last_number, self.acknowledged[-1].number)
            self.flushed_offset = self.acknowledged[-1].end
        self.settings = replace(self.settings, first=last_number + UNREPORTED)

    def _reports_until_kill(self, stdout: IO[bytes]) -> list[bytes]:
        """Return at the random moment chosen for the kill."""
        if self.chooser.random() < 0.25:
            time.sleep(self.chooser.uniform(0, 0.12))  # start, recovery, the first appends
            return []
        reports = [stdout.readline() for _ in range(self.chooser.randrange(1, 100))]
        time.sleep(self.chooser.uniform(0, 0.002))
        return [report for report in reports if report]

    def cut_power(self, remains: Remains) -> None:
        PowerCut(self.root, self.flushed_offset, INDEX_SLOTS, remains, self.chooser).strike()

    def recover_and_verify(self, *, after_power_cut: bool) -> None:
        on_copy = self.chooser.random() < 0.5
        root = self.root.with_name("copy") if on_copy else self.root
        if on_copy:
            shutil.copytree(self.root, root)
        with Store.open(root, StoreOptions(flush="sync", **OPTIONS), create=True) as store:  # type: ignore[arg-type]
            self.found = verify(
                store, self.settings, self.acknowledged, after_power_cut=after_power_cut
            )
        if on_copy:
            shutil.rmtree(root)


def live(life: Life, remains: Remains | None) -> None:
    for round_number in range(ROUNDS_PER_LIFE):
        try:
            life.write_until_killed()
            if remains is not None:
                life.cut_power(remains)
            life.recover_and_verify(after_power_cut=remains is not None)
        except Exception as error:
            error.add_note(f"in round {round_number} of {life.root}")
            raise
    # Some three thousand are usual; by the chances above, fewer than this never happens.
    assert life.found > 300, "too little was written to prove anything"
    assert len(list((life.root / "commitlog").iterdir())) > 3


@pytest.mark.parametrize("number", range(KILL_LIVES))
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(
    number: int, crash_seed: int, tmp_path: Path
) -> None:
    live(Life.begin(tmp_path / "store", crash_seed + number), None)


@pytest.mark.parametrize("number", range(POWER_CUT_LIVES))
@pytest.mark.parametrize("remains", Remains, ids=lambda remains: remains.name.lower())
def test_nothing_acknowledged_is_lost_in_a_power_cut(
    remains: Remains, number: int, crash_seed: int, tmp_path: Path
) -> None:
    live(Life.begin(tmp_path / "store", crash_seed + 1_000 + number), remains)


@pytest.mark.parametrize("remains", Remains, ids=lambda remains: remains.name.lower())
def test_nothing_is_lost_in_a_power_cut_when_the_clock_jumps(
    remains: Remains, crash_seed: int, tmp_path: Path
) -> None:
    life = Life.begin(tmp_path / "store", crash_seed + 2_000)
    life.settings = replace(life.settings, swing_ms=WRONG_BY_MS)
    live(life, remains)
