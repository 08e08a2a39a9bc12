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
    """Settings of a nameserver."""

    listen_port: int = fixed(9876, "Port to listen on.")
    rocketmq_home: str | None = fixed(
        says="Directory whose `conf/` contains the ACL accounts (`aclEnable`).",
        factory=lambda: os.environ.get("ROCKETMQ_HOME"),
        otherwise="`$ROCKETMQ_HOME`",
    )
    kv_config_path: str = fixed(
        says="File of the key-value table.",
        factory=lambda: _below_home("kvConfig.json"),
        otherwise="`~/namesrv/kvConfig.json`",
    )
    config_store_path: str = fixed(
        says="File to which settings changed by requests are written.",
        factory=lambda: _below_home("namesrv.properties"),
        otherwise="the `-c` file, else `~/namesrv/namesrv.properties`",
    )
    product_env_name: str = fixed("center", idle("only `clusterTest` reads it"))
    cluster_test: bool = fixed(
        False,
        warned("no request for a topic is sent to another nameserver; unknown topics stay unknown"),
    )
    order_message_enable: bool = live(
        False, "Routes contain the topic's entry in the table of ordered topics."
    )
    acl_enable: bool = fixed(
        False, "OrbitMQ's own: requests must be signed by an ACL account, as at brokers."
    )

    def _elsewhere(self) -> Set[str]:
        """Return RocketMQ's keys that nameservers of OrbitMQ lack, including those of brokers."""
        return super()._elsewhere() | BrokerConfig.known().keys()
