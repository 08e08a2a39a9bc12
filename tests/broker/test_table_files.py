"""Files under ``config/``: written when there is something to write, and not otherwise."""

from __future__ import annotations

from pathlib import Path

from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address


def test_a_broker_at_rest_leaves_the_disk_be(tmp_path: Path) -> None:
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
