"""Programs of examples/ that are also run on Apache's brokers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compat.jars import REPOSITORY_ROOT
from compat.java_client import Cluster

SAYS = {"request_reply.py": "1.20 EUR", "transaction.py": "COMMIT"}


@pytest.mark.parametrize("program", SAYS)
def test_an_example_runs(program: str, cluster: Cluster) -> None:
    command = [sys.executable, str(REPOSITORY_ROOT / "examples" / program), cluster.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert SAYS[program] in done.stdout
