"""The official Go client as a process, controlled by its command line.

A `GoClient` gathers the JSON lines its process prints (see `go-client/main.go`) on a thread, so
that a test can wait for them with a deadline. Ending the process's input stops a consumer the
orderly way; `kill` is SIGKILL.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compat.jars import REPOSITORY_ROOT

__all__ = ["GoClient", "GoError", "Line", "build_driver", "go_tool"]

SOURCES = Path(__file__).resolve().parent / "go-client"
DRIVER = REPOSITORY_ROOT / ".build" / "go-client" / "driver"
LOG_LINES_SHOWN = 30

Line = dict[str, Any]


class GoError(Exception):
    """A Go process failed or stopped printing; the text holds its last output."""


def go_tool() -> str | None:
    """Return the path of `go`, or None when the machine lacks it."""
    return shutil.which("go")


def build_driver() -> Path:
    """Build the driver; Go's own cache makes this cheap when nothing has changed."""
    go = go_tool()
    if go is None:
        raise GoError("go (1.18 or newer) is needed to run the Go client")
    DRIVER.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", str(DRIVER), "."],
        cwd=SOURCES,
        env=os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise GoError(f"go build failed:\n{done.stderr}")
    return DRIVER


class GoClient:
    """One process of the driver and its output so far."""

    def __init__(self, driver: Path, verb: str, home: Path, **options: str | int | bool) -> None:
        arguments = [
            f"-{name.replace('_', '-')}={str(value).lower() if value is True else value}"
            for name, value in options.items()
            if value is not False
        ]
        home.mkdir(parents=True, exist_ok=True)
        self.said: list[Line] = []
        self._log = home / f"{verb}-{time.monotonic_ns()}.log"
        self._what = f"{verb} {' '.join(arguments)}"
        self._heard = threading.Condition()
        self._ended = False
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(driver), verb, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"HOME": str(home), "ROCKETMQ_GO_LOG_LEVEL": "warn"},
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            with self._heard:
                self.said.append(line)
                self._heard.notify_all()
        with self._heard:
            self._ended = True
            self._heard.notify_all()

    # ---- Output

    def _all(self, kind: str) -> list[Any]:
        with self._heard:
            return [line[kind] for line in self.said if kind in line]

    @property
    def got(self) -> list[Line]:
        """Messages its consumer has received, in that order."""
        return self._all("got")

    @property
    def sent(self) -> list[Line]:
        """Messages whose sends were acknowledged to its producer."""
        return self._all("sent")

    @property
    def errors(self) -> list[str]:
        """Failures the client has reported."""
        return self._all("error")

    def numbers(self) -> set[int]:
        """Numbers of the messages its consumer has received."""
        return {line["number"] for line in self.got}

    def until(self, enough: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait until the output satisfies a condition."""
        deadline = time.monotonic() + timeout_s
        with self._heard:
            while not enough():
                remaining = deadline - time.monotonic()
                if self._ended or remaining <= 0:
                    raise self.error(f"{'ended' if self._ended else 'waited'}, missing: {what}")
                self._heard.wait(remaining)

    def ready(self, timeout_s: float = 60) -> GoClient:
        """Wait until a consumer has started."""
        self.until(lambda: any("ready" in line for line in self.said), timeout_s, "ready")
        return self

    def until_said(self, lines: int, timeout_s: float = 60) -> None:
        """Wait until it has printed a number of lines."""
        self.until(lambda: len(self.said) >= lines, timeout_s, f"{lines} lines")

    def until_got(self, numbers: set[int], timeout_s: float = 60) -> None:
        """Wait until a consumer has received all of these messages."""
        seen: set[int] = set()
        read = 0

        def enough() -> bool:
            nonlocal read
            seen.update(line["got"]["number"] for line in self.said[read:] if "got" in line)
            read = len(self.said)
            return numbers <= seen

        self.until(enough, timeout_s, f"{len(numbers)} messages")

    # ---- End of the process

    def finish(self, timeout_s: float = 60) -> GoClient:
        """Wait until it ends by itself, which must be successful."""
        self._wait(timeout_s)
        if not any("stopped" in line for line in self.said):
            raise self.error("ended out of order")
        return self

    def stop(self, timeout_s: float = 60) -> GoClient:
        """End a consumer's input and wait until it has shut down."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
        return self.finish(timeout_s)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._wait(30)

    def _wait(self, timeout_s: float) -> None:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.error(f"still runs after {timeout_s} s") from None
        self._listener.join(30)

    def close(self) -> None:
        """Remove the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def error(self, what: str) -> GoError:
        """Return an error with the end of the process's output."""
        log = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        said = [json.dumps(line) for line in self.said[-5:]]
        return GoError("\n".join([f"{self._what}: {what}", *said, *log]))
