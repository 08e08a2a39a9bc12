"""Commands as processes with their own home, as a user runs them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

SCRIPTS = Path(sys.executable).parent
LIMIT_S = 60


class Home:
    """A user's home: commands in it find each other's pid files and logs, and no others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_directory = path / ".orbitmq" / "run"
        unset = ("NAMESRV_ADDR", "ORBITMQ_RUN_DIR", "ROCKETMQ_HOME")
        self.environment = {k: v for k, v in os.environ.items() if k not in unset}
        self.environment["HOME"] = str(path)
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._command(words),
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command that keeps running."""
        process = subprocess.Popen(
            self._command(words),
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    @staticmethod
    def _command(words: tuple[str, ...]) -> list[str]:
        first, *rest = words
        if first == "python":
            return [sys.executable, *rest]
        return [str(SCRIPTS / first), *rest]

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def line_of(stream: IO[str] | None, start: str) -> str:
    """Read until a line begins with a text; return the line."""
    assert stream is not None
    seen = []
    for line in stream:
        if line.startswith(start):
            return line.rstrip("\n")
        seen.append(line)
    raise AssertionError(f"no line {start!r} in {seen}")


def quick_start(home: Home) -> tuple[subprocess.Popen[str], subprocess.Popen[str], str]:
    """Start mqnamesrv and mqbroker on loopback; return them and the nameserver's address."""
    port = free_port()
    (home.path / "namesrv.conf").write_text(f"listenPort={port}\n")
    (home.path / "broker.conf").write_text(
        "brokerName=broker-a\nlistenPort=0\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=1048576\n"
    )
    loopback = ("--host", "127.0.0.1")
    namesrv = home.start("mqnamesrv", "-c", str(home.path / "namesrv.conf"), *loopback)
    booted = line_of(namesrv.stdout, "The Name Server")
    assert booted == "The Name Server boot success. serializeType=JSON"
    address = f"localhost:{port}"
    conf = str(home.path / "broker.conf")
    broker = home.start("mqbroker", "-n", address, "-c", conf, *loopback)
    booted = line_of(broker.stdout, "The broker[broker-a, 127.0.0.1:")
    assert booted.endswith(f"] boot success. serializeType=JSON and name server is {address}")
    return namesrv, broker, address


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
