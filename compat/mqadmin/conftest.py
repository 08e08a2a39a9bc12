"""mqadmin in a warm JVM, and the two brokers it examines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat.java_cluster import JavaCluster
from compat.mqadmin.normalise import neutral
from compat.mqadmin.sides import ACCOUNTS, SETTINGS, Side, java_settings, of_java, of_ours
from compat.nameserver.tools import JavaTools
from orbitmq.testing import LocalCluster


@dataclass
class Both:
    """The real broker and ours."""

    sides: tuple[Side, Side]
    tools: JavaTools

    def run(self, *command: str) -> tuple[str, str]:
        """Run a command against both; return the neutral outputs, Java's first."""
        java, ours = (self._run(side, command) for side in self.sides)
        return java, ours

    def _run(self, side: Side, command: tuple[str, ...]) -> str:
        words = {"broker": side.broker, "id": side.message_ids[3], "dir": str(side.directory)}
        words["home"] = str(side.home)
        arguments = [word.format_map(words) for word in command]
        return neutral(self.tools.mqadmin(*arguments, "-n", side.nameserver), side)


@pytest.fixture(scope="module")
def both(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("mqadmin")
    java = JavaCluster(directory / "java", java_settings())
    homes = directory / "java" / "home", directory / "ours"
    for home in homes:
        (home / "conf" / "acl").mkdir(parents=True, exist_ok=True)
        (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    tools = JavaTools(directory / "tools")
    try:
        with LocalCluster(settings=SETTINGS | {"rocketmqHome": str(homes[1])}) as ours:
            java.start_broker()
            sides = of_java(java, homes[0]), of_ours(ours, homes[1])
            for side in sides:
                side.prepare()
            yield Both(sides, tools)
            for side in sides:
                side.close()
    finally:
        tools.close()
        java.close()
