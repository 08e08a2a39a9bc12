"""A Spark standalone cluster from the pyspark package: one master and two workers.

Ports are chosen by the processes themselves and read from their logs, so that nothing has to guess
a free one. A process counts as up when its log says what the others wait for: the master its
address, a worker that it is registered.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

__all__ = ["StandaloneCluster"]

SPARK_HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 90.0
ROOT = Path(__file__).parents[2]


class _Daemon:
    """One process of the cluster and its log."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        self.log = directory / f"{name}.log"
        environment = os.environ | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # The executors' Python must find the drivers' modules, and the Spark under test.
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        }
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the log has a matching line."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = self.log.read_text(errors="replace")
            if found := re.search(pattern, text):
                return found
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.log.name}: ended with {self.process.returncode}\n{text}")
            time.sleep(0.05)
        raise TimeoutError(f"{self.log.name}: no {pattern!r} in {START_TIMEOUT_S} s\n{text}")

    def stop(self) -> None:
        """End the process and all its children."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class StandaloneCluster:
    """A master and its workers; `url` is the master address for drivers."""

    def __init__(self, directory: Path, *, workers: int = 2) -> None:
        self._directory = directory
        self._worker_count = workers
        self._daemons: list[_Daemon] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stop()

    def executor_pids(self) -> list[int]:
        """Return the processes that run tasks now."""
        groups = {daemon.process.pid for daemon in self._daemons}
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            pid = int(directory.name)
            # A process may end while it is examined.
            with contextlib.suppress(OSError):
                command = (directory / "cmdline").read_bytes()
                if os.getpgid(pid) in groups and b"CoarseGrainedExecutorBackend" in command:
                    found.append(pid)
        return found

    def _daemon(self, name: str, *arguments: str) -> _Daemon:
        daemon = _Daemon(self._directory, name, *arguments)
        self._daemons.append(daemon)
        return daemon

    def _start(self) -> None:
        here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = self._daemon("master", "org.apache.spark.deploy.master.Master", *here)
        self.url = master.wait_for(r"spark://127\.0\.0\.1:[1-9]\d*")[0]
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._directory / "work"))
        workers = [
            self._daemon(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *here, *size, self.url
            )
            for number in range(self._worker_count)
        ]
        for worker in workers:
            worker.wait_for("Successfully registered with master")

    def _stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.stop()
        self._daemons.clear()
