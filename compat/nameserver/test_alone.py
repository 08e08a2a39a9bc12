"""A real broker registered only with our nameserver, and real clients that use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.java_cluster import BrokerSettings, JavaCluster
from compat.java_peer import JavaPeer
from compat.nameserver.tools import JavaTools, OrbitNameserver

MESSAGES = 500


class GuidedByUs(JavaCluster):
    """A real broker whose only nameserver is ours."""

    def __init__(self, directory: Path, orbit: OrbitNameserver) -> None:
        self._orbit = orbit
        super().__init__(directory, BrokerSettings())

    def _start_nameserver(self) -> None:
        self.nameserver_port = int(self._orbit.address.rpartition(":")[2])


@pytest.fixture
def guided(java_peer_jars: Path, tmp_path: Path) -> Iterator[GuidedByUs]:
    orbit = OrbitNameserver(tmp_path / "orbit")
    cluster = GuidedByUs(tmp_path / "java", orbit)
    try:
        cluster.start_broker()
        yield cluster
    finally:
        cluster.close()
        orbit.close()


def test_a_broker_and_its_clients_need_no_other_nameserver(
    guided: GuidedByUs, java_peer: JavaPeer, java_tools_peer: JavaTools, tmp_path: Path
) -> None:
    assert guided.broker in java_tools_peer.mqadmin("clusterList", "-n", guided.nameserver)
    java_peer.do(
        "write",
        nameserver=guided.nameserver,
        broker_name=guided.settings.name,
        topics={"Alone": 4},
        create_topics=True,
        delay_levels=[1],
        seed=7,
        first=0,
        count=MESSAGES,
        threads=2,
        manifest=str(tmp_path / "written"),
    )
    consumed = java_peer.do(
        "consume",
        nameserver=guided.nameserver,
        group="alone",
        topics=["Alone"],
        expected=MESSAGES,
        quiet_ms=30_000,
        out=str(tmp_path / "consumed"),
    )
    assert consumed == {"consumed": MESSAGES}
    guided.stop_broker()
    assert guided.broker not in java_tools_peer.mqadmin("clusterList", "-n", guided.nameserver)
    guided.start_broker()
    assert "Alone" in java_tools_peer.mqadmin("topicList", "-n", guided.nameserver)
