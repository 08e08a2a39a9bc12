"""Spark drivers in their own processes, which tests watch and kill.

A driver takes seconds to start its JVM. Those that are to be killed one after the other therefore
*stand by*: the next one starts while this one runs, and begins to work when it is told to.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

__all__ = ["Driver"]

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 240.0


class Work(Protocol):
    """Work of a driver; `module` is a program that takes it as JSON."""

    module: str

    def as_json(self) -> str:
        """Return the text that the program takes."""


class Driver:
    """A driver, such as `relay_driver`. Leaving the block kills the remaining processes."""

    def __init__(self, work: Work, log: Path) -> None:
        self._log = log
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", work.module, work.as_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=environment,
                text=True,
                start_new_session=True,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.jvm_pid: int | None = None
        self._is_dead = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, key: str, timeout_s: float = START_TIMEOUT_S) -> Any:
        """Wait until the driver prints a value under this key, and return it."""
        while True:
            try:
                line = self._lines.get(timeout=timeout_s)
            except queue.Empty:
                raise TimeoutError(f"no {key!r} of the driver:\n{self._tail()}") from None
            if line is None:
                code = self.process.wait()
                raise RuntimeError(f"the driver ended ({code}) without {key!r}:\n{self._tail()}")
            if line.startswith("{") and key in (said := json.loads(line)):
                return said[key]

    def go(self) -> None:
        """Let a waiting driver start its queries; return when they run."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.jvm_pid = self.wait_for("jvm")

    def wait_while(self, is_so: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait while a condition holds, the driver runs, and there is time."""
        deadline = time.monotonic() + timeout_s
        while is_so() and self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def kill(self, *, only_jvm: bool = False) -> None:
        """Kill it with kill -9; with `only_jvm` its Python workers end by themselves."""
        if self._is_dead:
            return
        self._is_dead = True
        if only_jvm and self.jvm_pid is not None:
            os.kill(self.jvm_pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._reader.join(5)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]
