"""Settings of the nameserver."""

from __future__ import annotations

import os
from pathlib import Path

from orbitmq.config.network import ServerSettings
from orbitmq.config.settings import fixed, live

__all__ = ["NameserverConfig"]


def _below_home(name: str) -> str:
    return str(Path.home() / "namesrv" / name)


class NameserverConfig(ServerSettings):
    """What a nameserver is started with."""

    listen_port: int = fixed(9876)
    rocketmq_home: str | None = fixed(factory=lambda: os.environ.get("ROCKETMQ_HOME"))
    kv_config_path: str = fixed(factory=lambda: _below_home("kvConfig.json"))
    config_store_path: str = fixed(factory=lambda: _below_home("namesrv.properties"))
    product_env_name: str = fixed("center")
    cluster_test: bool = fixed(False)
    order_message_enable: bool = live(False)
    """Whether routes carry the topic's entry in the table of ordered topics."""
    acl_enable: bool = fixed(False)
    """OrbitMQ's own: whether requests must be signed, as a broker's with this setting."""
