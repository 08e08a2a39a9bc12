"""Deletion of expired files: by the hour, by disk usage, and by request."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq._native import NewMessage, Store, StoreOptions
from orbitmq.broker.retention import MANUAL_ROUNDS, Retention
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.config import BrokerConfig

FILE_BYTES = 1 << 16
HOUR_MS = 3_600_000
OLD_H = 100
"""Age of the old files in hours; 72 are kept by default."""


class Disk:
    """A store with a disk usage that a test sets."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.used_ratio = 0.3

    def clean(self, **how: object) -> object:
        return self.store.clean(**how, used_ratio=self.used_ratio)  # type: ignore[arg-type]


class World:
    def __init__(self, directory: Path) -> None:
        options = StoreOptions(commit_log_file_size=FILE_BYTES, index_enabled=False)
        self.directory = directory
        self.store = Store.open(directory, options, create=True)
        self.disk = Disk(self.store)
        self.config = BrokerConfig()
        self.now_ms = time.time_ns() // 1_000_000
        self.stats = BrokerStats("c", lambda: self.now_ms)
        self.retention = Retention(self.config, self.disk, self.stats, lambda: self.now_ms)  # type: ignore[arg-type]
        self._log = directory / "commitlog"
        for _ in range(20):
            self.store.append_many([NewMessage("t", bytes(10_000))])
        # The age of a file is that of the last page written to it.
        assert self.store.wait_flushed(self.store.max_physical_offset, 10_000)
        self.written_to = self.store.max_physical_offset // FILE_BYTES * FILE_BYTES
        assert self.written_to >= 3 * FILE_BYTES
        # Nothing is deleted in this hour unless a test changes the setting.
        self.set(deleteWhen=self.hour(12))

    def set(self, **settings: str) -> None:
        self.config.take(settings, source="test")

    def hour(self, from_now: int) -> str:
        return time.strftime("%H", time.localtime(self.now_ms / 1000 + from_now * 3600))

    @property
    def first(self) -> int:
        """Return the first offset of the log."""
        begin = self.store.min_physical_offset
        assert begin == min(int(path.name) for path in self._log.iterdir())
        return begin

    def age(self) -> None:
        """Make all files but the current one as old as possible."""
        then_s = self.now_ms / 1000 - OLD_H * 3600
        for path in self._log.iterdir():
            if int(path.name) < self.written_to:
                os.utime(path, (then_s, then_s))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_expired_files_are_kept_until_the_hour_of_deletion(world: World) -> None:
    world.age()
    world.retention.run()
    assert world.first == 0
    world.set(deleteWhen=f"{world.hour(12)};{world.hour(0)}")
    world.retention.run()
    assert world.first == world.written_to, "the one that is written to"
    assert world.store.min_offset("t", 0) > 0
    assert world.stats.disk_used_ratio == 0.3


def test_files_that_have_not_expired_are_kept_at_any_hour(world: World) -> None:
    world.set(deleteWhen=world.hour(0))
    world.retention.run()
    world.age()
    world.set(fileReservedTime=str(OLD_H + 1))
    world.retention.run()
    assert world.first == 0
    world.set(fileReservedTime=str(OLD_H - 1))
    world.retention.run()
    assert world.first > 0


def test_expired_files_are_deleted_at_once_when_the_disk_fills(world: World) -> None:
    world.disk.used_ratio = 0.76
    world.retention.run()
    assert world.first == 0, "nothing has expired"
    world.age()
    world.set(diskMaxUsedSpaceRatio="80")
    world.retention.run()
    assert world.first == 0, "the disk may be that full"
    world.set(diskMaxUsedSpaceRatio="75")
    world.retention.run()
    assert world.first == world.written_to


def test_files_of_any_age_are_deleted_when_the_disk_is_nearly_full(world: World) -> None:
    world.disk.used_ratio = 0.86
    world.set(cleanFileForciblyEnable="false")
    world.retention.run()
    assert world.first == 0
    world.set(cleanFileForciblyEnable="true")
    world.retention.run()
    assert world.first > 0


def test_a_deletion_request_lasts_for_several_rounds(world: World) -> None:
    world.retention.request()
    for _ in range(MANUAL_ROUNDS):
        assert world.retention.is_due()
        world.retention.run()
    assert not world.retention.is_due()
    world.age()
    world.retention.run()
    assert world.first == 0
    world.retention.request()
    world.retention.run()
    assert world.first == world.written_to


@pytest.mark.parametrize(
    ("forcibly", "reason", "remedy"),
    [
        (
            "false",
            "cleanFileForciblyEnable=false keeps log files that have not expired",
            "Free space on that disk or set cleanFileForciblyEnable=true.",
        ),
        (
            "true",
            "no log file is left to delete but the one being written",
            "Free space on that disk.",
        ),
    ],
)
def test_a_full_disk_is_logged_with_its_path_its_percentage_and_the_remedy(
    world: World, caplog: pytest.LogCaptureFixture, forcibly: str, reason: str, remedy: str
) -> None:
    root = world.directory
    world.config.take({"storePathRootDir": str(root)}, source="test")
    world.set(cleanFileForciblyEnable="true")
    world.disk.used_ratio = 0.93
    world.retention.run()
    assert world.first == world.written_to, "nothing is left to delete"
    world.set(cleanFileForciblyEnable=forcibly)
    with caplog.at_level(logging.ERROR):
        world.retention.run()
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == (
        "disk space will be full soon, but delete file failed. "
        f"The disk of {root} is 93 % full; sends are refused until it is at most 90 % full, "
        f"and {reason}. {remedy}"
    )
