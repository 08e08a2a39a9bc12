"""A real Apache RocketMQ on loopback, started from its jars: one nameserver, one broker.

The broker keeps everything it writes below one store directory, which tests open with OrbitMQ once
the broker is down. File sizes are small so that a few thousand messages fill several files of every
kind; nothing is ever deleted by age or disk use. A broker is ready when the nameserver knows it:
registration is the last step of its start.

    cluster = JavaCluster(directory)
    cluster.start_broker();  ...;  cluster.stop_broker()      # or kill_broker()
    cluster.close()

It is 4.9.7 unless the settings name another of `RELEASES`.

Ports: the broker takes `port`, `port - 2` (its fast remoting server) and `port + 1` (replication).
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import struct
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from compat.jars import LOCK_FILE, LOCK_FILE_5_4
from compat.java_machine import JavaProcess

START_TIMEOUT_S = 120
POLL_PAUSE_S = 0.05
GET_BROKER_CLUSTER_INFO = 106
# Below the range the kernel hands out for outgoing connections, so that a port found free now is
# still free when a broker comes back to it.
PORT_RANGE = (20_000, 30_000)

LOGBACK = """<?xml version="1.0" encoding="UTF-8"?>
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <logger name="RocketmqRemoting" level="WARN"/>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
"""


@dataclass(frozen=True)
class Release:
    """Properties of a release needed to start it; its log configuration uses these names."""

    lock_file: Path
    log_configuration: str
    settings: dict[str, str] = field(default_factory=dict)

    def flags(self, home: Path, process: str) -> list[str]:
        log_configuration = home / "conf" / self.log_configuration.format(process)
        return [
            f"-Drocketmq.home.dir={home}",
            f"-Drmq.logback.configurationFile={log_configuration}",  # 5.x reads it only there.
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.98",
            "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.97",
        ]


RELEASES = {
    "4.9.7": Release(LOCK_FILE, "logback_{}.xml"),
    "5.4.0": Release(
        LOCK_FILE_5_4,
        "rmq.{}.logback.xml",
        # By default it writes its 37 MB of timers every second, even if there are none.
        {"timerFlushIntervalMs": "60000"},
    ),
}


@dataclass(frozen=True)
class StoreSizes:
    """File sizes under the names of the broker's configuration."""

    commit_log_file_size: int = 4 << 20
    consume_queue_file_size: int = 20 * 1000
    index_slots: int = 5_000
    index_entries: int = 20_000

    def broker_settings(self) -> dict[str, str]:
        return {
            "mappedFileSizeCommitLog": str(self.commit_log_file_size),
            "mappedFileSizeConsumeQueue": str(self.consume_queue_file_size),
            "maxHashSlotNum": str(self.index_slots),
            "maxIndexNum": str(self.index_entries),
        }


@dataclass(frozen=True)
class BrokerSettings:
    """Settings a test may choose; `extra` holds any other key of broker.conf."""

    name: str = "java-a"
    cluster: str = "compat"
    sizes: StoreSizes = field(default_factory=StoreSizes)
    flush: str = "ASYNC_FLUSH"
    release: str = "4.9.7"
    extra: dict[str, str] = field(default_factory=dict)

    def with_extra(self, **extra: str) -> BrokerSettings:
        return replace(self, extra={**self.extra, **extra})


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


_claims: list[socket.socket] = []


def _claim(port: int) -> bool:
    """Keep a port from whoever else asks `free_port`, in any process, for as long as we live.

    A server listens seconds after its port was chosen, and suites run side by side. The name of a
    local socket can be had once on a machine, and is free again when its process ends.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0orbitmq-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def free_port(neighbours: tuple[int, ...] = ()) -> int:
    """Return a free loopback port whose neighbours at these distances are free as well."""
    chooser = random.Random(os.urandom(8))
    for _ in range(1000):
        port = chooser.randrange(*PORT_RANGE)
        wanted = [port + distance for distance in (0, *neighbours)]
        if all(_claim(each) and _is_free(each) for each in wanted):
            return port
    raise OSError(f"no free port in {PORT_RANGE}")


def _remoting_call(port: int, code: int) -> bytes | None:
    """One remoting request without fields; the response's body, None when nobody answers yet."""
    header = json.dumps(
        {"code": code, "language": "PYTHON", "version": 407, "opaque": 1, "flag": 0}
    ).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
            with connection.makefile("rb") as stream:
                length, header_length = struct.unpack(">ii", stream.read(8))
                return stream.read(length - 4)[header_length & 0xFFFFFF :]
    except (OSError, struct.error):
        return None


class JavaCluster:
    def __init__(self, directory: Path, settings: BrokerSettings | None = None) -> None:
        self.directory = directory
        self.settings = settings or BrokerSettings()
        self.store_root = directory / "store"
        self.release = RELEASES[self.settings.release]
        self.nameserver_port = free_port()
        self.broker_port = free_port(neighbours=(-2, 1))
        self._nameserver: JavaProcess | None = None
        self._broker: JavaProcess | None = None
        conf = directory / "home" / "conf"
        conf.mkdir(parents=True)
        for process in ("broker", "namesrv"):
            (conf / self.release.log_configuration.format(process)).write_text(LOGBACK)
        self._start_nameserver()

    @property
    def nameserver(self) -> str:
        return f"127.0.0.1:{self.nameserver_port}"

    @property
    def broker(self) -> str:
        return f"127.0.0.1:{self.broker_port}"

    def _java(self, main_class: str, conf: Path, name: str) -> JavaProcess:
        home = self.directory / "home"
        return JavaProcess(
            main_class,
            ["-c", str(conf)],
            home=home,
            log=self.directory / f"{name}.log",
            flags=[*self.release.flags(home, name), *self._more_flags()],
            lock_file=self.release.lock_file,
        )

    def _more_flags(self) -> list[str]:
        return []

    def _start_nameserver(self) -> None:
        conf = self.directory / "namesrv.conf"
        conf.write_text(f"listenPort={self.nameserver_port}\n")
        self._nameserver = self._java("org.apache.rocketmq.namesrv.NamesrvStartup", conf, "namesrv")
        self._await_registration(self._nameserver, None)

    def _broker_conf(self) -> str:
        never = (time.localtime().tm_hour + 12) % 24
        settings = {
            "namesrvAddr": self.nameserver,
            "brokerClusterName": self.settings.cluster,
            "brokerName": self.settings.name,
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(self.broker_port),
            "storePathRootDir": str(self.store_root),
            "storePathCommitLog": str(self.store_root / "commitlog"),
            "flushDiskType": self.settings.flush,
            "autoCreateTopicEnable": "true",
            "deleteWhen": f"{never:02d}",
            "fileReservedTime": "720",
            "cleanFileForciblyEnable": "false",
            "diskMaxUsedSpaceRatio": "95",
            # Reading everything back in a few calls, and no refusals on a busy machine:
            "maxTransferCountOnMessageInMemory": "1000",
            "maxTransferBytesOnMessageInMemory": str(4 << 20),
            "maxTransferCountOnMessageInDisk": "1000",
            "maxTransferBytesOnMessageInDisk": str(4 << 20),
            "waitTimeMillsInSendQueue": "10000",
            "osPageCacheBusyTimeOutMills": "10000",
            **self.settings.sizes.broker_settings(),
            **RELEASES[self.settings.release].settings,
            **self.settings.extra,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def start_broker(self) -> None:
        assert self._broker is None, "the broker already runs"
        conf = self.directory / "broker.conf"
        conf.write_text(self._broker_conf())
        self._broker = self._java("org.apache.rocketmq.broker.BrokerStartup", conf, "broker")
        self._await_registration(self._broker, self.broker)

    def _await_registration(self, process: JavaProcess, address: str | None) -> None:
        """Repeat until the nameserver answers and, if an address is given, lists it."""
        deadline = time.monotonic() + START_TIMEOUT_S
        wanted = f'"{address}"'.encode() if address else b""
        while True:
            body = _remoting_call(self.nameserver_port, GET_BROKER_CLUSTER_INFO)
            if body is not None and wanted in body:
                return
            if not process.running:
                raise process.error("ended during its start")
            if time.monotonic() > deadline:
                raise process.error("was not ready in time")
            select.select([], [], [], POLL_PAUSE_S)

    def _await_departure(self) -> None:
        """Wait until the nameserver has removed the broker, to distinguish a new one."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.broker.encode() in (
            _remoting_call(self.nameserver_port, GET_BROKER_CLUSTER_INFO) or b""
        ):
            if time.monotonic() > deadline:
                assert self._nameserver is not None
                raise self._nameserver.error("still lists a broker that is gone")
            select.select([], [], [], POLL_PAUSE_S)

    def stop_broker(self) -> None:
        """Stop it with SIGTERM, like an operator: everything is flushed, `abort` is removed."""
        assert self._broker is not None, "no broker runs"
        broker, self._broker = self._broker, None
        broker.stop()
        self._await_departure()

    def kill_broker(self) -> None:
        """Kill it with SIGKILL."""
        assert self._broker is not None, "no broker runs"
        broker, self._broker = self._broker, None
        broker.kill()
        self._await_departure()

    def logs(self) -> str:
        """Return the ends of both logs, for the report of a failed test."""
        parts = []
        for log in sorted(self.directory.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-40:]
            parts.append(f"---- {log.name}\n" + "\n".join(lines))
        return "\n".join(parts)

    def close(self) -> None:
        for process in (self._broker, self._nameserver):
            if process is not None:
                process.kill()
        self._broker = self._nameserver = None
