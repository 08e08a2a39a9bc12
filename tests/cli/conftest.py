"""One cluster for all commands of a file, and a way to run commands in this process."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orbitmq.admin.admin import Admin
from orbitmq.cli import main
from orbitmq.client.producer.producer import Producer
from orbitmq.testing import LocalCluster
from tests.cli.processes import Home

LIMIT_S = 60.0


@dataclass
class Ran:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def run_command(*words: str, stdin: str | None = None) -> Ran:
    """Run a command in this process; any error but an exit is raised."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        result = CliRunner().invoke(main, ["-q", *words], input=stdin)
    finally:
        # The command's own log stream is closed now.
        root.handlers[:] = handlers
        root.setLevel(level)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def await_true(what: str, is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command against the cluster; it must exit with `code`, by default 0."""
    monkeypatch.setenv("NAMESRV_ADDR", cluster.address)

    def run(*words: str, code: int = 0, stdin: str | None = None) -> Ran:
        ran = run_command(*words, stdin=stdin)
        assert ran.code == code, (words, ran)
        return ran

    return run


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Run a command and return its JSON output."""
    return lambda *words: run(*words, "-o", "json").json


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.address) as admin:
        yield admin


@pytest.fixture(scope="module")
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(cluster.address, group="tests", timeout_ms=10_000) as producer:
        yield producer


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home for commands that run as processes; remaining ones are killed at the end."""
    made = Home(tmp_path)
    yield made
    made.close()
