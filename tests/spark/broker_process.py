"""A broker with its nameserver as a process of its own, which can be killed and comes back."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq import Admin
from orbitmq.errors import OrbitError

__all__ = ["BrokerProcess"]

SETTINGS = ("mappedFileSizeCommitLog=67108864", "maxHashSlotNum=50000", "maxIndexNum=200000")


class BrokerProcess:
    """``orbitmq up`` on a port and a directory that stay the same over its lives."""

    def __init__(self, data: Path, *settings: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.data = data
        self.address = f"127.0.0.1:{self._port}"
        self._settings = [word for one in (*SETTINGS, *settings) for word in ("--set", one)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; returns when the broker is registered."""
        words = ["up", "--data", str(self.data), "--port", str(self._port), *self._settings]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "orbitmq.cli", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OrbitError), Admin(self.address) as admin:
                if admin.cluster_info().brokers:
                    return
            assert self._process.poll() is None, "the broker did not start"
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def kill(self) -> None:
        """End it with kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None
