"""Tables that change often are saved seldom, in order, and before an answer that promises it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from orbitmq import persist
from orbitmq._native import loads_lenient
from orbitmq.protocol.codes import RequestCode
from orbitmq.table_saver import TableSaver
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address, send_ext


class Table:
    def __init__(self, path: Path) -> None:
        self.value = 0
        self.saver = TableSaver(path, self._snapshot)

    def _snapshot(self) -> Any:
        value = self.value
        return lambda: {"value": value}

    def change(self) -> None:
        self.value += 1
        self.saver.changed()

    def on_disk(self) -> int:
        value: int = loads_lenient(self.saver.path.read_bytes())["value"]
        return value


class Disk:
    """Counts saves, and lets them wait or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saves = 0
        self.threads: set[int] = set()
        self.error: OSError | None = None
        self.gate = threading.Event()
        self.gate.set()
        self._save = persist.save
        monkeypatch.setattr(persist, "save", self.save)

    def save(self, path: Path, content: bytes) -> None:
        self.gate.wait(20)
        self.saves += 1
        self.threads.add(threading.get_ident())
        if self.error is not None:
            raise self.error
        self._save(path, content)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_many_changes_are_few_saves_by_a_thread(tmp_path: Path, disk: Disk) -> None:
    async def run() -> None:
        table = Table(tmp_path / "table.json")
        disk.gate.clear()
        for _ in range(1000):
            table.change()
            await asyncio.sleep(0)
        disk.gate.set()
        await table.saver.saved()
        assert table.on_disk() == 1000
        assert disk.saves <= 2
        assert threading.get_ident() not in disk.threads
        await table.saver.close()

    asyncio.run(run())


def test_what_changed_during_a_save_is_saved_by_the_next(tmp_path: Path, disk: Disk) -> None:
    async def run() -> None:
        table = Table(tmp_path / "table.json")
        disk.gate.clear()
        table.change()
        await asyncio.sleep(0.01)
        table.change()
        waiting = asyncio.ensure_future(table.saver.saved())
        disk.gate.set()
        await waiting
        assert table.on_disk() == 2
        assert table.saver.is_saved
        await table.saver.close()

    asyncio.run(run())


def test_closing_saves_what_is_not_saved_yet(tmp_path: Path, disk: Disk) -> None:
    async def run() -> None:
        table = Table(tmp_path / "table.json")
        for _ in range(3):
            table.change()
            await table.saver.saved()
            table.change()
        await table.saver.close()
        assert table.on_disk() == 6
        table.change()
        await table.saver.saved()
        assert table.on_disk() == 7

    asyncio.run(run())


def test_a_disk_that_refuses_is_told_to_those_who_wait_and_tried_again(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        table = Table(tmp_path / "table.json")
        disk.error = OSError(28, "No space left on device")
        table.change()
        with pytest.raises(OSError, match="No space"):
            await table.saver.saved()
        assert not table.saver.is_saved
        disk.error = None
        await table.saver.saved()
        assert table.on_disk() == 1
        await table.saver.close()

    asyncio.run(run())
    assert "table.json cannot be saved" in caplog.text


def test_a_message_that_creates_a_topic_is_acknowledged_with_the_topic_on_disk(
    tmp_path: Path, disk: Disk
) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        wire, other = Wire(broker_address(cluster)), Wire(broker_address(cluster))
        disk.gate.clear()
        posted = wire.post(RequestCode.SEND_MESSAGE, send_ext("fresh"))
        second = other.post(RequestCode.SEND_MESSAGE, send_ext("fresh"))
        other.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert posted not in wire._responses
        assert second not in other._responses, "its topic is not on disk either"
        disk.gate.set()
        assert wire.answer(posted).code == other.answer(second).code == 0
        saved = loads_lenient((broker.tables.directory / "topics.json").read_bytes())
        assert "fresh" in saved["topicConfigTable"]
        wire.close()
        other.close()
