"""Two brokers of ours as processes, which are killed instead of stopped."""

from __future__ import annotations

from pathlib import Path

from compat.restarts.rolling import BROKERS
from orbitmq.testing import LocalCluster
from tests.spark.broker_process import MemberProcess

__all__ = ["KilledPair"]


class KilledPair:
    """A nameserver in this process, and the two brokers."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._nameserver = LocalCluster(brokers=0)
        self._nameserver.start()
        self._brokers = {
            name: MemberProcess(name, directory / name, self.address) for name in BROKERS
        }
        for name in BROKERS:
            self.start_broker(name)

    @property
    def address(self) -> str:
        """The nameserver's address."""
        return self._nameserver.address

    def start_broker(self, name: str) -> None:
        """Start a broker with its store; return when it is registered."""
        self._brokers[name].start()

    def stop_broker(self, name: str) -> None:
        """Kill a broker with SIGKILL."""
        self._brokers[name].kill()

    def stop(self) -> None:
        """Stop all of it in order."""
        for broker in self._brokers.values():
            broker.stop()
        self._nameserver.stop()
