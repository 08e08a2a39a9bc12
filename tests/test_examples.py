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
ELSEWHERE = {"request_reply.py": "compat/python_client/test_examples.py"}
"""Programs that need Apache's broker, and the test that runs them."""
AFTER = {"consume_ordered.py": "send_ordered.py"}
"""Programs that go on with what others have left."""
LIMIT_S = 40


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


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name not in ELSEWHERE])
def test_example(program: str, cluster: LocalCluster) -> None:
    if program in AFTER:
        run(AFTER[program], cluster.address)
    assert run(program, cluster.address), "an example should show something"


def test_every_example_is_listed() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert [name for name in PROGRAMS if f"`{name}`" not in text] == []


def test_programs_that_run_elsewhere_do_run_there() -> None:
    root = EXAMPLES.parent
    for program, test in ELSEWHERE.items():
        assert f'"{program}"' in (root / test).read_text()
