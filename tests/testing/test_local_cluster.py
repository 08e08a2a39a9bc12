"""The cluster that tests of others run against."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from orbitmq.errors import StoreLocked
from orbitmq.protocol.codes import ResponseCode
from orbitmq.testing import LocalCluster
from orbitmq.testing.plugin import rocketmq
from tests.broker.conftest import Wire, broker_address

__all__ = ["rocketmq"]


def test_the_fixture_is_a_running_cluster(rocketmq: LocalCluster) -> None:
    wire = Wire(broker_address(rocketmq))
    assert wire.send("t").code == ResponseCode.SUCCESS
    wire.close()


def test_nothing_is_left_of_a_temporary_cluster() -> None:
    with LocalCluster(brokers=2) as cluster:
        data = cluster.data
        assert sorted(path.name for path in data.iterdir()) == ["broker-a", "broker-b"]
    assert not data.exists()
    assert "orbitmq-cluster" not in [thread.name for thread in threading.enumerate()]


def test_what_is_kept_is_there_again(tmp_path: Path) -> None:
    for offset in ("0", "1"):
        with LocalCluster(data=tmp_path) as cluster:
            wire = Wire(broker_address(cluster))
            assert wire.send("t").get_ext("queueOffset") == offset
            wire.close()


def test_a_directory_belongs_to_one_cluster(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path), pytest.raises(StoreLocked):
        LocalCluster(data=tmp_path).start()
