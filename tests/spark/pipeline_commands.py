"""``orbitmq pipeline run`` as a process, and files for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ENDLESS", "QUIET", "command", "members", "running"]

QUIET = """
[spark]
master = "local[1]"
conf = { "spark.ui.enabled" = false, "spark.driver.memory" = "512m" }
"""
ENDLESS = f"""
kind = "sql"
checkpoint = "state"
{QUIET}
[source.numbers]
format = "rate"
stream = true
options = {{ rowsPerSecond = 20, note = "${{NOTE_SECRET:-x}}" }}
[[sink]]
format = "parquet"
path = "out"
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "orbitmq.cli", *words]


@contextmanager
def running(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a pipeline in its own process session; the remaining processes are killed at the end."""
    with subprocess.Popen(
        command("pipeline", "run", str(file), "--output", "json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            for pid in members(process.pid):
                os.kill(pid, signal.SIGKILL)


def members(session: int) -> list[int]:
    """Return the processes of a process session; Spark's Python workers have other groups."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(place.name)) == session:
                found.append(int(place.name))
        except ProcessLookupError:
            pass
    return found
