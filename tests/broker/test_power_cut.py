"""Offsets on disk never run ahead of the log: a power cut loses no delayed or half message.

A broker that flushes by itself only at its end delivers, moves or asks, and saves its tables. What
a power cut leaves at that moment (`crash.power_cut`) is another broker's to work with.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crash.power_cut import PowerCut, Remains
from orbitmq._native import decode_records
from orbitmq.broker.app import Broker
from orbitmq.errors import FlushFailed
from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address
from .test_delay_and_retry import wait_for
from .test_transactions import SETTINGS, begin, hear_of_producer

NO_FLUSH = {
    "flushIntervalCommitLog": "3600000",
    "flushCommitLogThoroughInterval": "3600000",
    "messageIndexEnable": "false",
    "messageDelayLevel": "1s 2s",
    "mappedFileSizeCommitLog": str(1 << 20),
} | SETTINGS


class Running:
    """A broker, and a connection to it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.broker: Broker
        (self.broker,) = cluster.brokers.values()
        self.wire = Wire(broker_address(cluster))

    def flush(self) -> None:
        """Flush everything stored so far to disk."""
        assert self.broker.store.wait_flushed(self.broker.store.max_physical_offset, 30_000)

    def check_round(self) -> None:
        before_ms = self.broker.clock()
        while self.broker.clock() == before_ms:  # Wait for the next millisecond.
            time.sleep(0.0005)
        self.cluster.run(self.broker.transaction_check.round())


@contextmanager
def running(data: Path) -> Iterator[Running]:
    with LocalCluster(data=data, settings=NO_FLUSH) as cluster:
        made = Running(cluster)
        yield made
        made.wire.close()


def cut_power(alive: Running, data: Path, left: Path) -> None:
    """Copy the directory of a running broker without the parts that no flush has covered."""
    flushed_offset = alive.broker.store.flushed_offset
    # A running save renames its file while this copies.
    shutil.copytree(data, left, ignore=shutil.ignore_patterns("*.tmp"))
    (root,) = [path.parent for path in left.rglob("commitlog")]
    PowerCut(root, flushed_offset, 0, Remains.ZEROS, random.Random(1)).strike()


def test_a_delayed_message_survives_a_power_cut(tmp_path: Path) -> None:
    data, left = tmp_path / "data", tmp_path / "left"
    with running(data) as alive:
        assert alive.wire.send("t", b"later", properties="DELAY\x011").code == 0
        alive.flush()
        assert wait_for(alive.wire, "t").body == b"later"
        alive.cluster.run(alive.broker.tables.save_delay_offsets())
        cut_power(alive, data, left)
    with running(left) as after:
        assert after.broker.store.max_offset(SCHEDULE_TOPIC, 0) == 1
        assert wait_for(after.wire, "t").body == b"later"


def test_a_timed_message_survives_a_power_cut(tmp_path: Path) -> None:
    data, left = tmp_path / "data", tmp_path / "left"
    with running(data) as alive:
        assert alive.wire.send("t", b"timed", properties="TIMER_DELAY_MS\x01200").code == 0
        alive.flush()
        assert wait_for(alive.wire, "t").body == b"timed"
        alive.cluster.run(alive.broker.tables.save_timers())
        cut_power(alive, data, left)
    with running(left) as after:
        assert after.broker.store.max_offset(TIMER_TOPIC, 0) == 1
        assert wait_for(after.wire, "t").body == b"timed"


def test_a_half_message_survives_a_power_cut(tmp_path: Path) -> None:
    data, left = tmp_path / "data", tmp_path / "left"
    with running(data) as alive:
        begin(alive.wire, b"pay")
        alive.flush()
        alive.check_round()
        alive.cluster.run(alive.broker.tables.save_offsets())
        cut_power(alive, data, left)
    with running(left) as after:
        assert after.broker.store.max_offset(TRANS_HALF_TOPIC, 0) >= 1
        hear_of_producer(after.wire)
        after.check_round()
        asked = after.wire.next_push()
        assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
        assert decode_records(asked.body)[0].body == b"pay"


class LateDisk:
    """A store whose log is not flushed in time."""

    max_physical_offset = 1000

    def wait_flushed(self, _offset: int, _timeout_ms: int) -> bool:
        return False


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("consumerOffset.json", lambda broker: broker.tables.save_offsets()),
        ("delayOffset.json", lambda broker: broker.tables.save_delay_offsets()),
        ("timers.json", lambda broker: broker.tables.save_timers()),
    ],
)
def test_offsets_are_not_saved_before_the_log_is_flushed(
    tmp_path: Path, name: str, save: Callable[[Broker], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, and the next save tries again."""
    with running(tmp_path) as alive:
        broker, run = alive.broker, alive.cluster.run
        assert alive.wire.send("t", properties="DELAY\x011").code == 0
        assert wait_for(alive.wire, "t").properties["DELAY"] == "1"
        file = broker.tables.directory / name
        with monkeypatch.context() as late:
            late.setattr(broker.tables, "store", LateDisk())
            broker.timers.is_dirty = broker.offsets.is_dirty = True
            file.unlink(missing_ok=True)
            with pytest.raises(FlushFailed, match=f"{name} is not written"):
                run(save(broker))
            assert not file.exists()
        run(save(broker))
        assert file.exists()
