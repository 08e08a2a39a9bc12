"""The broker: sends and pulls over sockets, what it takes when idle, how soon it is there.

Both brokers run side by side with their default store settings, ours as `orbitmq up`, Java's as
nameserver and broker with both JIT compilers and 2 GiB of heap; the load goes to one at a time. It
is `crates/store/examples/loadgen.rs`: synchronous requests over 1, 8 and 64 connections.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.measurements import Outcome, fresh_directory
from benches.sides import HEAP, REPOSITORY_ROOT, BenchError, Figures, Side
from compat.java_cluster import BrokerSettings, JavaCluster, StoreSizes, free_port
from compat.java_machine import JavaProcess
from orbitmq._native import Command, FrameReader
from orbitmq.protocol.codes import RequestCode, ResponseCode

TOPIC = "bench"
QUEUES = 8
CONNECTIONS = (1, 8, 64)
BODY_BYTES = 128
DEFAULT_SIZES = StoreSizes(1 << 30, 6_000_000, 5_000_000, 20_000_000)
START_TIMEOUT_S = 60
PAUSE_S = 0.005


@dataclass(frozen=True)
class BrokerSizes:
    """How much of everything; `quick` is for trying the harness, not for quoting."""

    rounds: int = 3
    messages: int = 200_000
    warmup: int = 300_000

    @staticmethod
    def quick() -> BrokerSizes:
        return BrokerSizes(1, 20_000, 20_000)


class FastJavaCluster(JavaCluster):
    """The suites' cluster with the flags of a machine in earnest."""

    def _java(self, main_class: str, conf: Path, name: str) -> JavaProcess:
        home = self.directory / "home"
        heap = HEAP if name == "broker" else "512m"
        flags = [f"-Drocketmq.home.dir={home}", f"-Xms{heap}", f"-Xmx{heap}"]
        flags += ["-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"]
        return JavaProcess(
            main_class,
            ["-c", str(conf)],
            home=home,
            log=self.directory / f"{name}.log",
            flags=flags,
        )

    def pids(self) -> list[int]:
        processes = [process for process in (self._nameserver, self._broker) if process is not None]
        return [process.process.pid for process in processes]


@dataclass
class Running:
    """A broker that has accepted its first message."""

    address: str
    start_s: float
    pids: list[int]

    @property
    def resident_mb(self) -> float:
        return sum(_resident_kb(pid) for pid in self.pids) / 1000


def load_side() -> Side:
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    command += ["-p", "orbitmq-store", "--example", "loadgen"]
    if subprocess.run(command, cwd=REPOSITORY_ROOT, check=False).returncode:
        raise BenchError("the load generator does not build")
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY_ROOT / "target"))
    return Side("loadgen", [str(target / "release" / "examples" / "loadgen")])


def broker(sizes: BrokerSizes, work: Path) -> tuple[list[Outcome], list[str]]:
    """Measure all of it; returns the outcomes and the commands of the load."""
    load = load_side()
    outcomes: list[Outcome] = []
    with fresh_directory(work, "broker") as directory:
        starts = [_starts(directory, number) for number in range(sizes.rounds)]
        ours, theirs = zip(*starts, strict=True)
        outcomes.append(_outcome("first message after", "s", "≤ 1 s", "start_s", ours, theirs))
        outcomes.append(_outcome("idle, resident", "MB", "≤ 80 MB", "resident_mb", ours, theirs))
        with our_broker(directory / "ours") as us, java_broker(directory / "java") as them:

            def run(verb: str, at: Running, connections: int, messages: int) -> Figures:
                return load.run(
                    verb, "--address", at.address, "--topic", TOPIC, "--queues", str(QUEUES),
                    "--connections", str(connections), "--messages", str(messages),
                    "--body", str(BODY_BYTES),
                )  # fmt: skip

            for verb, factor in (("send", 1), ("pull", 5)):
                for at in (us, them):
                    run(verb, at, 8, sizes.warmup * factor)
                for connections in CONNECTIONS:
                    rounds = [
                        [run(verb, at, connections, sizes.messages * factor) for at in (us, them)]
                        for _ in range(sizes.rounds)
                    ]
                    outcomes.append(
                        Outcome(
                            f"{verb}, connections: {connections}",
                            "messages/s",
                            "≥ 1",
                            [ours["per_second"] for ours, _ in rounds],
                            [theirs["per_second"] for _, theirs in rounds],
                        )
                    )
    return outcomes, load.commands_run


def _starts(directory: Path, number: int) -> tuple[Figures, Figures]:
    with our_broker(directory / f"ours-{number}") as us:
        ours = {"start_s": us.start_s, "resident_mb": us.resident_mb}
    with java_broker(directory / f"java-{number}") as them:
        theirs = {"start_s": them.start_s, "resident_mb": them.resident_mb}
    return ours, theirs


def _outcome(
    name: str,
    unit: str,
    target: str,
    key: str,
    ours: tuple[Figures, ...],
    theirs: tuple[Figures, ...],
) -> Outcome:
    return Outcome(name, unit, target, [f[key] for f in ours], [f[key] for f in theirs], False)


@contextmanager
def our_broker(directory: Path) -> Iterator[Running]:
    port = free_port(neighbours=(-2,))
    began = time.monotonic()
    command = [sys.executable, "-m", "orbitmq.cli", "up"]
    command += ["--data", str(directory), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        address = f"127.0.0.1:{port}"
        _until_accepted(address, lambda: process.poll() is None)
        yield Running(address, time.monotonic() - began, [process.pid])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def java_broker(directory: Path) -> Iterator[Running]:
    directory.mkdir()
    began = time.monotonic()
    cluster = FastJavaCluster(directory, BrokerSettings(sizes=DEFAULT_SIZES))
    try:
        cluster.start_broker()
        _until_accepted(cluster.broker, lambda: True)
        yield Running(cluster.broker, time.monotonic() - began, cluster.pids())
    finally:
        cluster.close()


def _until_accepted(address: str, runs: Callable[[], bool]) -> None:
    """Send a message again and again until it is accepted."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _accepts(address):
        if not runs() or time.monotonic() > deadline:
            raise BenchError(f"no broker at {address}")
        select.select([], [], [], PAUSE_S)


def _accepts(address: str) -> bool:
    ext = {
        "producerGroup": "bench",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": str(QUEUES),
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(time.time_ns() // 1_000_000),
        "flag": "0",
        "properties": "",
    }
    host, _, port = address.rpartition(":")
    reader = FrameReader()
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, int(port)), timeout=5) as connection,
    ):
        request = Command(RequestCode.SEND_MESSAGE, ext=ext, body=b"first", version=407)
        connection.sendall(request.encode())
        while data := connection.recv(1 << 16):
            for answer in reader.feed(data):
                return bool(answer.code == ResponseCode.SUCCESS)
    return False


def _resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise BenchError(f"process {pid} is gone")
