"""Both nameservers side by side, with the same real broker registered to both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat.java_cluster import GET_BROKER_CLUSTER_INFO, JavaCluster
from compat.nameserver.asking import Asker
from compat.nameserver.tools import JavaTools, OrbitNameserver, pause, within

REGISTER_TIMEOUT_S = 60


@pytest.fixture(scope="session")
def java_tools_peer(
    java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaTools]:
    tools = JavaTools(tmp_path_factory.mktemp("java-tools"))
    yield tools
    tools.close()


@dataclass
class Pair:
    """The real cluster and our nameserver beside its own."""

    java: JavaCluster
    orbit: OrbitNameserver

    @property
    def addresses(self) -> tuple[str, str]:
        return self.java.nameserver, self.orbit.address

    def orbit_knows_the_broker(self) -> bool:
        asker = Asker(self.orbit.address)
        try:
            return self.java.broker.encode() in asker.ask(GET_BROKER_CLUSTER_INFO).body
        finally:
            asker.close()

    def start_broker(self) -> None:
        self.java.settings = self.java.settings.with_extra(namesrvAddr=";".join(self.addresses))
        self.java.start_broker()
        deadline = within(REGISTER_TIMEOUT_S)
        while not self.orbit_knows_the_broker():
            pause(0.02)
            assert within(0) < deadline, "the broker has not registered with our nameserver"


@pytest.fixture(scope="module")
def pair(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two nameservers without a broker; `start_broker` gives them one."""
    directory = tmp_path_factory.mktemp("pair")
    orbit = OrbitNameserver(directory / "orbit")
    java = JavaCluster(directory / "java")
    try:
        yield Pair(java, orbit)
    finally:
        java.close()
        orbit.close()
