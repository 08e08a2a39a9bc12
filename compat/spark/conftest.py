"""The Spark suite's session and Apache RocketMQ itself, a broker of each release for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat import jars
from compat.java_cluster import BrokerSettings, JavaCluster
from compat.nameserver.tools import JavaTools
from compat.python_client.guarded import Guarded
from tests.spark.conftest import spark

__all__ = ["spark"]


@pytest.fixture(scope="session", params=["4.9.7", "5.4.0"])
def java(
    request: pytest.FixtureRequest, java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaCluster]:
    """A broker that filters by SQL; use your own topics, and leave it running."""
    if request.param == "5.4.0":
        jars.fetch(jars.LOCK_FILE_5_4)
    settings = BrokerSettings(release=request.param).with_extra(enablePropertyFilter="true")
    cluster = JavaCluster(tmp_path_factory.mktemp("java") / request.param, settings)
    try:
        cluster.start_broker()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def guarded(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Nameserver of a 4.9.7 broker that serves only known accounts, see `guarded.py`."""
    cluster = Guarded(tmp_path_factory.mktemp("guarded") / "java", "4.9.7")
    yield cluster.address
    cluster.stop()


@pytest.fixture(scope="session")
def tools(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTools]:
    """The real mqadmin, 4.9.7, in a warm JVM."""
    running = JavaTools(tmp_path_factory.mktemp("tools"))
    try:
        yield running
    finally:
        running.close()
