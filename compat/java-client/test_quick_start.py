"""RocketMQ's quick start: the official Java client with `mqnamesrv` and `mqbroker` of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.java_client import JavaClient
from tests.cli.processes import LIMIT_S, Home, quick_start


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def test_the_quick_start_works_with_the_java_client(
    home: Home, java_peer_jars: Path, tmp_path: Path
) -> None:
    namesrv, broker, address = quick_start(home)
    client = JavaClient(tmp_path / "java", "JSON", address)
    try:
        client.play("send_creates_topic")
        client.play("push_concurrently")
    finally:
        client.close()
    for word, process in (("broker", broker), ("namesrv", namesrv)):
        assert home.run("mqshutdown", word).returncode == 0
        assert process.wait(LIMIT_S) == 0
