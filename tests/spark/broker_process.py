"""A broker in its own process, which can be killed and restarted.

Its port is below those that the kernel hands out for outgoing connections. So nobody takes it while
the broker is away, and no other broker of this process has it.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq import Admin
from orbitmq.errors import OrbitError

__all__ = ["BrokerProcess", "MemberProcess"]

SETTINGS = ("mappedFileSizeCommitLog=67108864", "maxHashSlotNum=50000", "maxIndexNum=200000")


START_TIMEOUT_S = 120.0
PORTS = (10_000, 20_000)
TRIES = 1000

_taken: set[int] = set()


def _free_port() -> int:
    """Return a free port whose second neighbour below is free as well, for the fast server."""
    dice = random.SystemRandom()
    for _ in range(TRIES):
        port = dice.randrange(*PORTS)
        wanted = {port, port - 2}
        if not wanted & _taken and all(map(_is_free, wanted)):
            _taken.update(wanted)
            return port
    raise OSError(f"no free port in {PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class BrokerProcess:
    """``orbitmq up`` on a port and a directory that stay the same over restarts."""

    def __init__(self, data: Path, *settings: str) -> None:
        self._port = _free_port()
        self.data = data
        self._log = data.with_name(f"{data.name}.log")
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
        """Start it; return when the broker is registered."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "orbitmq.cli", "-v", *self._words()],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OrbitError), Admin(self.address) as admin:
                if self._is_in(admin.cluster_info().brokers):
                    return
            assert self._process.poll() is None, f"the broker did not start:\n{self._tail()}"
            assert time.monotonic() < deadline, f"the broker is not registered:\n{self._tail()}"
            time.sleep(0.05)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def _words(self) -> list[str]:
        return ["up", "--data", str(self.data), "--port", str(self._port), *self._settings]

    def _is_in(self, brokers: Collection[str]) -> bool:
        return bool(brokers)

    def kill(self) -> None:
        """Kill it with kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


class MemberProcess(BrokerProcess):
    """``orbitmq broker``, one of several with a nameserver in another process."""

    def __init__(self, name: str, data: Path, nameserver: str) -> None:
        super().__init__(data)
        self.name = name
        self.address = nameserver
        self._conf = data.with_name(f"{data.name}.conf")

    def start(self) -> None:
        """Start it; return when the broker is registered."""
        settings = {
            "brokerName": self.name,
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self._port),
            "storePathRootDir": str(self.data),
            **dict(each.split("=", 1) for each in SETTINGS),
        }
        self._conf.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        super().start()

    def _words(self) -> list[str]:
        return ["broker", "-c", str(self._conf), "-n", self.address, "--host", "127.0.0.1"]

    def _is_in(self, brokers: Collection[str]) -> bool:
        return self.name in brokers
