"""Two (or more) real brokers behind one real nameserver, to check the client suites with.

A suite whose scenarios hold here and fail against OrbitMQ has found something.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat.java_cluster import BrokerSettings, JavaCluster, StoreSizes

LOCK_LIVES_MS = 5_000


class OneOfSeveral(JavaCluster):
    """A broker that registers with a nameserver of another `JavaCluster`."""

    def __init__(
        self, directory: Path, settings: BrokerSettings, home: OneOfSeveral | None
    ) -> None:
        self._home = home
        super().__init__(directory, settings)

    def _start_nameserver(self) -> None:
        if self._home is None:
            super()._start_nameserver()
        else:
            self.nameserver_port = self._home.nameserver_port

    def _more_flags(self) -> list[str]:
        return [f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_LIVES_MS}"]


class JavaPair:
    """The interface of `orbitmq.testing.LocalCluster` for Apache RocketMQ."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], release: str = "4.9.7"
    ) -> None:
        self._directory = directory
        self._release = release
        self._settings = dict(settings)
        self._brokers: dict[str, OneOfSeveral] = {}
        names = ("broker-a", "broker-b")
        for name in names:
            self._add_broker(name)
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(self.start_broker, names))

    @property
    def address(self) -> str:
        return next(iter(self._brokers.values())).nameserver

    def start_broker(self, name: str) -> None:
        if name not in self._brokers:
            self._add_broker(name)
        self._brokers[name].start_broker()

    def _add_broker(self, name: str) -> None:
        first = next(iter(self._brokers.values()), None)
        settings = BrokerSettings(
            name=name,
            sizes=StoreSizes(commit_log_file_size=64 << 20, consume_queue_file_size=6_000_000),
            extra=self._settings,
            release=self._release,
        )
        self._brokers[name] = OneOfSeveral(self._directory / name, settings, first)

    def stop_broker(self, name: str) -> None:
        self._brokers[name].stop_broker()

    def stop(self) -> None:
        for broker in reversed(self._brokers.values()):
            broker.close()
