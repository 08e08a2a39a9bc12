"""Fixtures of the Go suite: the driver, its cluster, and its processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat import go_system
from compat.go_peer import GoClient, build_driver, go_tool
from compat.go_system import MakeSystem, StartGo, System


@pytest.fixture(scope="session")
def go_driver() -> Path:
    """The compiled driver. Without Go: a failure in CI, a logged skip elsewhere."""
    if go_tool() is None:
        reason = "go (1.18 or newer) is needed to run the official Go client; it is not here"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return build_driver()


@pytest.fixture
def make_system(tmp_path: Path) -> Iterator[MakeSystem]:
    """Start clusters; they are removed after the test."""
    systems: list[System] = []

    def make(**settings: str) -> System:
        systems.append(go_system.make_system(tmp_path / f"cluster-{len(systems)}", settings))
        return systems[-1]

    yield make
    for system in systems:
        system.close()


@pytest.fixture
def system(make_system: MakeSystem) -> System:
    """A new cluster: messages of another attempt would be visible in a used one."""
    return make_system()


@pytest.fixture
def go(go_driver: Path, system: System, tmp_path: Path) -> Iterator[StartGo]:
    """Start the Go client with a verb and its options; processes end after the test."""
    clients: list[GoClient] = []

    def start(verb: str, topic: str, *, at: System | None = None, **options: Any) -> GoClient:
        options.setdefault("group", f"go-{verb}")
        client = GoClient(
            go_driver,
            verb,
            tmp_path / f"home-{len(clients)}",
            nameserver=(at or system).address,
            topic=topic,
            **options,
        )
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()
