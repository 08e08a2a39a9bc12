"""Stopping a broker: running work ends, and all tables are saved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from orbitmq import persist
from orbitmq._native import loads_lenient
from orbitmq.broker.app import Broker
from orbitmq.broker.periodic import PeriodicTasks
from orbitmq.broker.state.files import TableFiles
from orbitmq.cluster import Standalone
from orbitmq.config import BrokerConfig
from orbitmq.errors import StoreClosed

OFFSETS = "consumerOffset.json"
TURNS = 10
"""Turns of the event loop; enough for all work that needs no thread."""


def opened(root: Path) -> Broker:
    config = BrokerConfig(
        store_path_root_dir=str(root), namesrv_addr=None, mapped_file_size_commit_log=1 << 20
    )
    broker = Broker(config, hosts=())
    broker.open(0)
    return broker


def test_a_running_save_ends_before_the_last_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    really_save = persist.save

    def save(path: Path, content: bytes) -> None:
        if path.name == OFFSETS:
            began.set()
            assert may_go_on.wait(60)
        really_save(path, content)

    async def stop_while_saving() -> None:
        broker = opened(tmp_path)
        housekeeping = PeriodicTasks()
        broker.offsets.commit("t", "g", 0, 1)
        housekeeping.every(0, broker.tables.save_offsets)
        await asyncio.to_thread(began.wait)
        broker.offsets.commit("t", "g", 0, 2)
        stopping = asyncio.create_task(housekeeping.stop())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        waits = not stopping.done()
        may_go_on.set()
        await stopping
        await broker.stop()
        assert waits

    monkeypatch.setattr(persist, "save", save)
    asyncio.run(stop_while_saving())
    saved = loads_lenient((tmp_path / "config" / OFFSETS).read_bytes())
    assert saved == {"offsetTable": {"t@g": {0: 2}}}


def test_a_failed_save_does_not_prevent_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_save = persist.save

    def save(path: Path, content: bytes) -> None:
        if path.name == OFFSETS:
            raise OSError("no space left on device")
        really_save(path, content)

    async def stop() -> None:
        broker = opened(tmp_path)
        monkeypatch.setattr(persist, "save", save)
        await broker.stop()
        with pytest.raises(StoreClosed):
            broker.store.queues()

    asyncio.run(stop())
    assert (tmp_path / "config" / "timers.json").exists()


def test_a_failed_save_is_repeated_when_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_save = persist.save
    is_full = True

    def save(path: Path, content: bytes) -> None:
        if is_full:
            raise OSError("no space left on device")
        really_save(path, content)

    async def save_twice() -> None:
        nonlocal is_full
        broker = opened(tmp_path)
        monkeypatch.setattr(persist, "save", save)
        broker.offsets.commit("t", "g", 0, 1)
        broker.timers.is_dirty = True
        for saves in (broker.tables.save_offsets, broker.tables.save_timers):
            with pytest.raises(OSError, match="no space left"):
                await saves()
        is_full = False
        await broker.tables.save_offsets()
        await broker.tables.save_timers()
        assert (tmp_path / "config" / OFFSETS).exists()
        assert (tmp_path / "config" / "timers.json").exists()
        await broker.stop()

    asyncio.run(save_twice())


def test_a_shared_port_is_closed_before_the_last_save_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standalone = Standalone(tmp_path, port=0, settings={"mappedFileSizeCommitLog": str(1 << 20)})
    really_save_all: Callable[[TableFiles], Coroutine[Any, Any, None]] = TableFiles.save_all
    refused = []

    async def save_all(tables: TableFiles) -> None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", standalone.port)
            writer.close()
        except ConnectionRefusedError as error:
            refused.append(error)
        await really_save_all(tables)

    async def start_and_stop() -> None:
        await standalone.start()
        await standalone.stop()

    monkeypatch.setattr(TableFiles, "save_all", save_all)
    asyncio.run(start_and_stop())
    assert refused
