"""Every program in examples/ runs to its end against a cluster in this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
AFTER = {"consume_ordered.py": "send_ordered.py"}
"""Programs that go on with what others have left."""
LIMIT_S = 90


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def run(program: str, address: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / program, address],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_example(program: str, cluster: LocalCluster) -> None:
    if program in AFTER:
        run(AFTER[program], cluster.address)
    assert run(program, cluster.address), "an example should show something"


def test_every_example_is_listed() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert [name for name in PROGRAMS if f"`{name}`" not in text] == []
