"""Settings of the nameserver."""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path

from orbitmq.config.broker import BrokerConfig
from orbitmq.config.network import ServerSettings
from orbitmq.config.settings import fixed, idle, live, warned

__all__ = ["NameserverConfig"]


def _below_home(name: str) -> str:
    return str(Path.home() / "namesrv" / name)


class NameserverConfig(ServerSettings):
    """What a nameserver is started with."""

    listen_port: int = fixed(9876, "The port to listen on.")
    rocketmq_home: str | None = fixed(
        says="The directory whose `conf/` holds the accounts of `aclEnable`.",
        factory=lambda: os.environ.get("ROCKETMQ_HOME"),
        otherwise="`$ROCKETMQ_HOME`",
    )
    kv_config_path: str = fixed(
        says="The file of the key-value table.",
        factory=lambda: _below_home("kvConfig.json"),
        otherwise="`~/namesrv/kvConfig.json`",
    )
    config_store_path: str = fixed(
        says="The file to which settings go that a request changes.",
        factory=lambda: _below_home("namesrv.properties"),
        otherwise="the `-c` file, else `~/namesrv/namesrv.properties`",
    )
    product_env_name: str = fixed("center", idle("only `clusterTest` reads it"))
    cluster_test: bool = fixed(
        False, warned("no other nameserver is asked for a topic; unknown topics stay unknown")
    )
    order_message_enable: bool = live(
        False, "Routes carry the topic's entry in the table of ordered topics."
    )
    acl_enable: bool = fixed(
        False, "OrbitMQ's own: requests that change something must be signed, as at brokers."
    )

    def _elsewhere(self) -> Set[str]:
        """Return RocketMQ's keys that are not ours, those of brokers among them."""
        return super()._elsewhere() | BrokerConfig.known().keys()
