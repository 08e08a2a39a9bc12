"""The official Java client and two nameservers, each of which stops once under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.java_client import IMPATIENT, JavaClient
from orbitmq.testing import LocalCluster


@pytest.fixture
def guided_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, nameservers=2) as running:
        yield running


@pytest.fixture
def guided_client(
    guided_cluster: LocalCluster, java_peer_jars: Path, tmp_path: Path
) -> Iterator[JavaClient]:
    started = JavaClient(tmp_path / "guided", "JSON", guided_cluster.address, flags=IMPATIENT)
    try:
        yield started
    finally:
        started.close()


def test_clients_go_on_when_nameservers_stop_and_start(
    guided_client: JavaClient, guided_cluster: LocalCluster
) -> None:
    wishes = {
        "stop_nameserver": lambda index: guided_cluster.stop_nameserver(int(index)),
        "start_nameserver": lambda index: guided_cluster.start_nameserver(int(index)),
    }
    told = guided_client.play("nameservers_come_and_go", wishes=wishes, limit_ms=240_000)
    assert told["acknowledged"] > 1000
