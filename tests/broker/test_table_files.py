"""Files under ``config/``: written only when their content has changed, and restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address


def test_an_idle_broker_writes_no_table_files(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        files = [
            broker.tables.directory / name for name in ("delayOffset.json", "consumerFilter.json")
        ]

        async def save() -> list[int]:
            await broker.tables.save_delay_offsets()
            await broker.tables.save_filters()
            return [file.stat().st_mtime_ns for file in files]

        first = cluster.run(save())
        assert cluster.run(save()) == first
        wire = Wire(broker_address(cluster))
        assert wire.send("t", properties="DELAY\x011").code == 0
        wire.close()
        broker.delay.load({"offsetTable": {"1": 1}})
        changed = cluster.run(save())
        assert changed[0] > first[0]
        assert changed[1] == first[1]


def test_bad_rows_are_set_aside_and_the_rest_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        wire = Wire(broker_address(cluster))
        assert wire.send("good").code == 0
        (broker,) = cluster.brokers.values()
        directory = broker.tables.directory
        wire.close()
    spoil(directory / "topics.json", "topicConfigTable", bad={"readQueueNums": 2**31}, seven=7)
    spoil(directory / "subscriptionGroup.json", "subscriptionGroupTable", bad={"groupName": 7})
    spoil(directory / "consumerOffset.json", "offsetTable", bad=[1], good={"0": "x", "1": 0})
    spoil(directory / "delayOffset.json", "offsetTable", x=1)
    spoil(directory / "timers.json", "heads", x=1)
    spoil(directory / "consumerFilter.json", "filterDataByTopic", bad=7)
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        assert broker.topics.find("good") is not None
        assert broker.topics.find("bad") is None
        assert "TOOLS_CONSUMER" in broker.groups.groups
        assert "row 'bad' of" in caplog.text
        assert "readQueueNums is 2147483648" in caplog.text
        kept = loads_lenient((directory / "topics.json.rejected").read_bytes())
        assert kept == {"bad": {"readQueueNums": 2**31}, "seven": 7}
        wire = Wire(broker_address(cluster))
        assert wire.send("good").code == 0
        wire.close()


def spoil(path: Path, table: str, **rows: object) -> None:
    value = loads_lenient(path.read_bytes()) if path.exists() else {}
    value[table] = {**(value.get(table) or {}), **rows}
    path.write_bytes(dumps_lenient(value))


def test_an_unreadable_table_is_loaded_from_its_backup(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        wire = Wire(broker_address(cluster))
        for topic in ("one", "two", "three"):
            assert wire.send(topic).code == 0
        (broker,) = cluster.brokers.values()
        path = broker.tables.directory / "topics.json"
        wire.close()
    path.write_bytes(b'{"topicConfigTable":[]}')
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        assert broker.topics.find("one") is not None
