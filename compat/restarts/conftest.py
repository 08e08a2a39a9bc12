"""Clusters whose brokers are restarted, and a JVM for Java's members.

`SOAK` plays every test so many times, with Java's own client alone for comparison.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.java_client import Cluster, JavaClient
from compat.java_cluster import free_port
from compat.java_pair import JavaPair
from compat.restarts.killed_pair import KilledPair
from compat.restarts.rolling import BROKERS, JavaMember, Member, OurMember, Repeats, Stage
from orbitmq.testing import LocalCluster

ROUNDS = int(os.environ.get("SOAK", "0"))
_marks = itertools.count(1)

Play = Callable[[str], Repeats]
"""Restarts a group of members named by letters: `o` is one of ours, `j` one of Java's."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "round_number" in metafunc.fixturenames:
        metafunc.parametrize("round_number", range(1, max(ROUNDS, 1) + 1))


@pytest.fixture(scope="session")
def apache(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two of Apache's brokers."""
    started = JavaPair(tmp_path_factory.mktemp("restarts") / "apache", {})
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def orbitmq() -> Iterator[Cluster]:
    """Two brokers of ours."""
    ports = {name: free_port(neighbours=(-2,)) for name in BROKERS}
    with LocalCluster(brokers=2, ports=ports) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers of ours that are killed with SIGKILL."""
    started = KilledPair(tmp_path_factory.mktemp("restarts") / "killed")
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def jvm(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """A JVM with Java's own client and its own periods."""
    started = JavaClient(tmp_path_factory.mktemp("jvm"), "JSON", "")
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def play(
    cluster_kind: str, request: pytest.FixtureRequest, tmp_path: Path, round_number: int
) -> Play:
    """Restart everything while a group works, see `rolling.py`."""
    cluster: Cluster = request.getfixturevalue(cluster_kind)
    mark = f"{cluster_kind}{next(_marks)}"
    stage = Stage(cluster, mark)

    def ours(name: str) -> Member:
        return OurMember(cluster, stage.topic, stage.group, name)

    def java(name: str) -> Member:
        jvm: JavaClient = request.getfixturevalue("jvm")
        jvm.nameserver = cluster.address
        return JavaMember(jvm, mark, stage.topic, name, tmp_path)

    def restart(members: str) -> Repeats:
        repeats = stage.restart_all([{"o": ours, "j": java}[letter] for letter in members])
        print(
            f"round {round_number}, {members} on {cluster_kind}: {repeats.by_members} repeats by "
            f"restarts of members, {repeats.by_brokers} of brokers, "
            f"{len(repeats.among_ours)} of them among ours"
        )
        return repeats

    return restart
