"""Clusters of the Go suite: ours of two brokers or, for comparison, Apache RocketMQ's.

`ORBITMQ_GO_AGAINST=java` runs the same suite against Apache RocketMQ 4.9.7, which tells a fault of
ours from a habit of the client.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from compat.go_peer import GoClient
from compat.java_cluster import BrokerSettings, JavaCluster, StoreSizes
from orbitmq._native import Command
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.client import RemotingClient
from orbitmq.testing import LocalCluster

__all__ = ["MakeSystem", "StartGo", "System", "make_system"]

SETTINGS = {
    # The third level is that of the first retry. The retries of a consumer end after seconds.
    "messageDelayLevel": "1s 2s 1s 1s 1s 1s",
    "maxMessageSize": str(4 << 20),
}
AGAINST_JAVA = os.environ.get("ORBITMQ_GO_AGAINST") == "java"


class System(Protocol):
    """A cluster used by the Go client."""

    address: str
    brokers: list[str]

    def create_topic(self, topic: str, queues: int = 4) -> None: ...

    def restart_broker(self) -> None: ...

    def close(self) -> None: ...


class OurSystem:
    def __init__(self, settings: dict[str, str]) -> None:
        self._cluster = LocalCluster(brokers=2, settings=settings).start()
        self.address = self._cluster.address
        self.brokers = list(self._cluster.brokers)

    def create_topic(self, topic: str, queues: int = 4) -> None:
        async def create() -> None:
            for broker in self._cluster.brokers.values():
                broker.topics.put(TopicConfig(topic, queues, queues))
                await broker.registration.register()

        self._cluster.run(create())

    def restart_broker(self) -> None:
        self._cluster.stop_broker(self.brokers[0])
        self._cluster.start_broker(self.brokers[0])

    def close(self) -> None:
        self._cluster.stop()


class JavaSystem:
    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        sizes = StoreSizes(commit_log_file_size=64 << 20)  # The largest message must fit.
        self._cluster = JavaCluster(directory, BrokerSettings(sizes=sizes, extra=settings))
        self._cluster.start_broker()
        self.address = self._cluster.nameserver
        self.brokers = [self._cluster.settings.name]

    def create_topic(self, topic: str, queues: int = 4) -> None:
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }

        async def create() -> Command:
            client = RemotingClient()
            try:
                return await client.invoke(
                    self._cluster.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, ext=ext
                )
            finally:
                await client.close()

        answer = asyncio.run(create())
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def restart_broker(self) -> None:
        self._cluster.stop_broker()
        self._cluster.start_broker()

    def close(self) -> None:
        self._cluster.close()


def make_system(directory: Path, settings: dict[str, str]) -> System:
    """Start a cluster of the kind that the environment names."""
    chosen = SETTINGS | settings
    return JavaSystem(directory, chosen) if AGAINST_JAVA else OurSystem(chosen)


MakeSystem = Callable[..., System]
StartGo = Callable[..., GoClient]
