"""A victim for hostile peers: its resource use, and service for other clients."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import decode_records
from orbitmq.protocol.codes import ResponseCode
from tests.broker.conftest import Wire

MIB = 1 << 20
SAMPLE_S = 0.01
SERVED_WITHIN_S = 10.0
GONE_WITHIN_S = 30.0


class Victim:
    """A process with a nameserver and a broker."""

    def __init__(self, log: Path, *, descriptors: int | None = None) -> None:
        self.log = log
        self._log = log.open("wb")
        limit = [] if descriptors is None else [str(descriptors)]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("victim.py")), *limit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        where = self._heard()
        self.broker: str = where["broker"]
        self.nameserver: str = where["nameserver"]
        self.store = Path(where["store"])
        self.polite = Wire(self.broker)
        self._served = 0
        self.polite.send("polite", b"created")
        self._sockets_at_rest = self.sockets

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        heard: dict[str, Any] = json.loads(self._process.stdout.readline())
        return heard

    @property
    def held(self) -> int:
        """Number of pulls that the broker holds."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        held: int = self._heard()["held"]
        return held

    @property
    def memory(self) -> int:
        """Resident bytes of the process itself: the kernel can take back mapped store files."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024

    @property
    def descriptors(self) -> int:
        """Number of files and sockets that the process has open."""
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    @property
    def sockets(self) -> int:
        """Number of sockets that the process has open."""
        count = 0
        for entry in os.scandir(f"/proc/{self._process.pid}/fd"):
            try:
                count += str(Path(entry.path).readlink()).startswith("socket:")
            except FileNotFoundError:
                continue  # Closed a moment ago.
        return count

    def serves_others(self) -> None:
        """Assert that a well-behaved client is served in time."""
        began = time.monotonic()
        self._served += 1
        body = f"round trip {self._served}".encode()
        sent = self.polite.send("polite", body)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        assert sent.ext is not None
        pulled = self.polite.pull("polite", int(sent.ext["queueOffset"]))
        assert pulled.code == ResponseCode.SUCCESS, pulled.remark
        assert decode_records(pulled.body)[0].body == body
        assert time.monotonic() - began < SERVED_WITHIN_S

    @contextmanager
    def keeps(self, within_mib: int) -> Iterator[None]:
        """Assert that memory grows by at most `within_mib` meanwhile, and that nothing remains."""
        before = most = self.memory
        ended = threading.Event()

        def sample() -> None:
            nonlocal most
            while not ended.wait(SAMPLE_S):
                most = max(most, self.memory)

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            yield
        finally:
            ended.set()
            sampler.join()
        self.serves_others()
        self.until(lambda: self.sockets <= self._sockets_at_rest, "sockets are still open")
        self.until(lambda: self.held == 0, "pulls are still held")
        grown = (max(most, self.memory) - before) / MIB
        assert grown < within_mib, f"memory grew by {grown:.0f} MiB"

    def until(self, true: Callable[[], bool], else_what: str) -> None:
        deadline = time.monotonic() + GONE_WITHIN_S
        while not true():
            assert time.monotonic() < deadline, else_what
            select.select([], [], [], SAMPLE_S)

    def close(self) -> None:
        self.polite.close()
        self._process.communicate(timeout=20)
        self._log.close()
        assert self._process.returncode == 0


@pytest.fixture(scope="session")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    victim = Victim(tmp_path_factory.mktemp("victim") / "log")
    try:
        yield victim
    finally:
        victim.close()


@pytest.fixture
def seed() -> int:
    wanted = os.environ.get("ORBITMQ_FUZZ_SEED", "18")
    chosen = random.randrange(1 << 32) if wanted == "random" else int(wanted)
    print(f"ORBITMQ_FUZZ_SEED={chosen}")  # pytest shows it when the test fails.
    return chosen


@pytest.fixture
def own_victim(tmp_path: Path) -> Iterator[Victim]:
    """A cluster that no other test uses: its state afterwards does not matter."""
    victim = Victim(tmp_path / "log")
    try:
        yield victim
    finally:
        victim.close()


@pytest.fixture
def peers(victim: Victim) -> Iterator[Callable[[], socket.socket]]:
    """Connect to the broker; connections left open are closed after the test."""
    made: list[socket.socket] = []

    def connect() -> socket.socket:
        host, _, port = victim.broker.rpartition(":")
        made.append(socket.socket())
        # Buffers of the kernel would only make the tests longer.
        made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
        made[-1].settimeout(10)
        made[-1].connect((host, int(port)))
        return made[-1]

    yield connect
    for peer in made:
        peer.close()
