"""The cluster of the Java client's suite, and its JVMs.

`ORBITMQ_COMPAT_AGAINST=java` plays the same scenarios against Apache RocketMQ itself: that is how a
scenario is shown to expect nothing but what the real broker does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from compat.java_client import AGAINST_JAVA, ENCODINGS, IMPATIENT, Cluster, JavaClient
from compat.java_pair import LOCK_LIVES_MS, JavaPair
from orbitmq.testing import LocalCluster

SETTINGS = {
    # Retries begin at level 3. The others are for the delay scenario.
    "messageDelayLevel": "1s 2s 1s 1s 1s 3s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
}


class OurCluster(LocalCluster):
    """Two brokers; the locks of a killed orderly consumer expire after seconds."""

    def start_broker(self, name: str) -> None:
        super().start_broker(name)
        self.brokers[name].locks.max_live_ms = LOCK_LIVES_MS

    def start(self) -> Self:
        super().start()
        for broker in self.brokers.values():
            broker.locks.max_live_ms = LOCK_LIVES_MS
        return self


@pytest.fixture(scope="session")
def cluster(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers, called broker-a and broker-b, behind one nameserver."""
    running: Cluster
    if AGAINST_JAVA:
        running = JavaPair(tmp_path_factory.mktemp("java-pair"), SETTINGS)
    else:
        running = OurCluster(brokers=2, settings=SETTINGS).start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session", params=ENCODINGS)
def encoding(request: pytest.FixtureRequest) -> str:
    """Encoding of the headers that the client writes."""
    return str(request.param)


@pytest.fixture(scope="session")
def client(
    cluster: Cluster, encoding: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    """One warm JVM with the client's own periods, for all scenarios of an encoding."""
    started = JavaClient(tmp_path_factory.mktemp("java-client"), encoding, cluster.address)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def impatient_client(
    cluster: Cluster, encoding: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    """A JVM whose clients check their queues every second instead of every twenty."""
    home = tmp_path_factory.mktemp("java-client-impatient")
    started = JavaClient(home, encoding, cluster.address, flags=IMPATIENT)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def doomed_client(cluster: Cluster, encoding: str, tmp_path: Path) -> Iterator[JavaClient]:
    """One more of these JVMs, to be killed."""
    started = JavaClient(tmp_path / "doomed", encoding, cluster.address, flags=IMPATIENT)
    try:
        yield started
    finally:
        started.kill()
