"""Offsets of broadcast consumers in Java's file format."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orbitmq._native import loads_lenient
from orbitmq.client.consumer.offsets import LocalOffsets, OffsetStore, RemoteOffsets
from orbitmq.message import MessageQueue
from tests.client.test_instance import instance

QUEUES = [MessageQueue("T", "a", number) for number in range(3)]
OF_JAVA = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:7,{
\t\t\t"brokerName":"a",
\t\t\t"queueId":1,
\t\t\t"topic":"T"
\t\t}:9
\t}
}"""


def _read(store: OffsetStore) -> list[int]:
    async def run() -> list[int]:
        await store.load()
        return [await store.read(queue) for queue in QUEUES]

    return asyncio.run(run())


def _store(directory: Path) -> LocalOffsets:
    return LocalOffsets(directory, "10.0.0.5@DEFAULT", "g")


def _write(directory: Path, offsets: dict[MessageQueue, int], only: list[MessageQueue]) -> None:
    store = _store(directory)
    for queue, offset in offsets.items():
        store.table.put(queue, offset)
    asyncio.run(store.persist(only, wait=True))


def test_an_offset_file_of_java_is_read(tmp_path: Path) -> None:
    path = tmp_path / "10.0.0.5@DEFAULT" / "g" / "offsets.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(OF_JAVA)
    assert _read(_store(tmp_path)) == [7, 9, -1]


def test_the_offset_file_is_written_as_by_java(tmp_path: Path) -> None:
    _write(tmp_path, {QUEUES[0]: 7, QUEUES[1]: 9}, QUEUES)
    content = (tmp_path / "10.0.0.5@DEFAULT" / "g" / "offsets.json").read_bytes()
    assert content == b"".join(OF_JAVA.split())
    assert loads_lenient(content) == loads_lenient(OF_JAVA)


def test_storing_one_queue_keeps_the_offsets_of_others(tmp_path: Path) -> None:
    _write(tmp_path, {QUEUES[0]: 7, QUEUES[1]: 9}, [QUEUES[0]])
    assert _read(_store(tmp_path)) == [7, 9, -1]


def test_a_broken_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    for offset in (1, 2):
        _write(tmp_path, {QUEUES[0]: offset}, QUEUES)
    path = _store(tmp_path).path
    path.write_bytes(path.read_bytes()[:-5])
    assert _read(_store(tmp_path)) == [1, -1, -1]


def test_concurrent_saves_write_one_complete_file(tmp_path: Path) -> None:
    store = _store(tmp_path)

    async def run() -> None:
        for number in range(20):
            store.table.put(QUEUES[number % 3], number)
            await asyncio.sleep(0)
        await asyncio.gather(*(store.persist([queue]) for queue in QUEUES * 5))

    asyncio.run(run())
    assert _read(_store(tmp_path)) == [18, 19, 17]


def test_a_released_queue_keeps_its_offset_only_in_the_local_store(tmp_path: Path) -> None:
    async def run() -> None:
        local, remote = _store(tmp_path), RemoteOffsets(instance(), "g")
        for store in (local, remote):
            store.table.put(QUEUES[0], 5)
            store.released(QUEUES[0])
        assert await local.read(QUEUES[0]) == 5
        assert remote.table.get(QUEUES[0]) is None

    asyncio.run(run())
