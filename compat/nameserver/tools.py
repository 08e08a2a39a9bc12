"""The Python end of `java/Tools.java`, and a nameserver of ours as its own process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from compat.java_machine import JavaProcess, compile_java

JAVA_SOURCES = Path(__file__).resolve().parent / "java"
LOGBACK = '<configuration><root level="OFF"/></configuration>\n'


class JavaTools:
    """Carries out one task at a time; `Tools.java` describes the fields of each task."""

    def __init__(self, home: Path) -> None:
        conf = home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "logback_tools.xml").write_text(LOGBACK)
        self._java = JavaProcess(
            "Tools",
            [],
            home=home,
            log=home / "tools.log",
            classes=compile_java(JAVA_SOURCES),
            flags=[f"-Drocketmq.home.dir={home}"],
            conversing=True,
        )

    def do(self, task: str, **words: Any) -> Any:
        stdin, stdout = self._java.process.stdin, self._java.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": task, **words}).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self._java.process.wait()
            raise self._java.error(f"ended while it was to {task}")
        answer = json.loads(line)
        if "error" in answer:
            raise self._java.error(f"could not {task}: {answer['error']}")
        return answer.get("ok")

    def mqadmin(self, *arguments: str) -> str:
        """Return the output of a command."""
        return str(self.do("mqadmin", arguments=list(arguments)))

    def close(self) -> None:
        stdin = self._java.process.stdin
        if stdin is not None and not stdin.closed:
            stdin.close()  # The end of its input makes it exit.
        self._java.stop()


class OrbitNameserver:
    """`orbitmq nameserver` on loopback."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._log = (directory / "orbitmq.log").open("ab")
        conf = directory / "namesrv.conf"
        conf.write_text("listenPort=0\n")
        command = [sys.executable, "-m", "orbitmq.cli", "nameserver", "--host", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "-c", str(conf)],
            env={**os.environ, "HOME": str(directory)},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("NAMESRV_ADDR="):
                self.address = line.strip().removeprefix("NAMESRV_ADDR=")
                return
        raise AssertionError(f"no nameserver:\n{self.log()}")

    def log(self) -> str:
        return (self.directory / "orbitmq.log").read_text()

    def close(self) -> None:
        self._process.terminate()
        assert self._process.wait(10) == 0, self.log()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


def pause(seconds: float) -> None:
    """Wait for another process whose work gives no event."""
    select.select([], [], [], seconds)


def within(seconds: float) -> float:
    """Return the moment on the monotonic clock by which something must have happened."""
    return time.monotonic() + seconds
