"""Cluster on a thread of its own, for blocking tests and for tests with an event loop."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from orbitmq.broker.app import Broker
from orbitmq.cluster import Cluster

__all__ = ["LocalCluster"]

T = TypeVar("T")

TEST_SETTINGS = {
    # Test clusters are short-lived: small files instead of gigabytes.
    "mappedFileSizeCommitLog": str(64 << 20),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    # A broker must not reject messages only because other tests keep the machine busy.
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}


class LocalCluster:
    """Nameservers and brokers in this process, on free ports of 127.0.0.1.

    Without `data`, all files are in a temporary directory that `stop` deletes. `settings` are
    RocketMQ's own keys and apply to every broker. `ports` gives fixed ports to brokers that are to
    be restarted, see `Cluster`.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        nameservers: int = 1,
        data: Path | str | None = None,
        settings: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="orbitmq-") if data is None else None
        directory = Path(self._temporary.name if self._temporary else str(data))
        self._cluster = Cluster(
            directory,
            brokers=brokers,
            nameservers=nameservers,
            settings=TEST_SETTINGS | dict(settings or {}),
            ports=ports,
        )
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="orbitmq-cluster", daemon=True)
        self.data = directory

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the cluster's thread and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def address(self) -> str:
        """The nameservers' addresses for clients."""
        return self._cluster.address

    @property
    def brokers(self) -> dict[str, Broker]:
        """The running brokers by name; use them in the cluster's thread only."""
        return self._cluster.brokers

    def start(self) -> Self:
        """Start all servers; return when clients can connect."""
        self._thread.start()
        try:
            self.run(self._cluster.start())
        except BaseException:
            self.stop()
            raise
        return self

    def start_nameserver(self, index: int) -> None:
        """Start a stopped nameserver again, on its port."""
        self.run(self._cluster.start_nameserver(index))

    def stop_nameserver(self, index: int) -> None:
        """Stop a nameserver; clients and brokers keep its address."""
        self.run(self._cluster.stop_nameserver(index))

    def start_broker(self, name: str) -> None:
        """Start a broker; a broker that ran before opens its old store."""
        self.run(self._cluster.start_broker(name))

    def stop_broker(self, name: str) -> None:
        """Stop a broker."""
        self.run(self._cluster.stop_broker(name))

    def stop(self) -> None:
        """Stop all servers and the thread; delete the directory if it is temporary."""
        if self._thread.is_alive():
            self.run(self._cluster.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()
