"""Fixtures shared by every suite that needs a real Java peer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat import jars
from compat.java_cluster import BrokerSettings, JavaCluster, free_port
from compat.java_machine import java_tools
from compat.java_peer import JavaPeer

MakeCluster = Callable[..., JavaCluster]


@pytest.fixture(scope="session")
def java_peer_jars() -> Path:
    """The directory of the locked jars. Without a JDK: a failure in CI, a logged skip elsewhere."""
    if java_tools() is None:
        reason = "java and javac (JDK 17) are needed to run Apache RocketMQ; they are not here"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return jars.fetch()


@pytest.fixture(scope="session")
def java_peer(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    """One warm JVM with the real client, for all tests of the run."""
    peer = JavaPeer(tmp_path_factory.mktemp("java-peer"))
    try:
        yield peer
    finally:
        peer.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def make_java_cluster(java_peer_jars: Path, tmp_path: Path) -> Iterator[MakeCluster]:
    """Start real clusters; they are removed after the test, whatever its result."""
    clusters: list[JavaCluster] = []

    def make(settings: BrokerSettings | None = None) -> JavaCluster:
        cluster = JavaCluster(tmp_path / f"java-{len(clusters)}", settings)
        clusters.append(cluster)
        return cluster

    try:
        yield make
    finally:
        for cluster in clusters:
            cluster.close()


@pytest.fixture
def java_cluster(
    make_java_cluster: MakeCluster, request: pytest.FixtureRequest
) -> Iterator[JavaCluster]:
    """A running nameserver and a broker that waits for `start_broker`; logs shown on failure."""
    cluster = make_java_cluster()
    failed_before = request.session.testsfailed
    yield cluster
    if request.session.testsfailed > failed_before:
        print(cluster.logs())
