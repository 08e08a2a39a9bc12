"""A whole cluster in one process.

`Standalone` is a nameserver and a broker on one port: the request code selects one of the two, and
routes name the same port. `Cluster` is any number of nameservers and brokers on loopback, each on
its own port; tests use it. Nameservers and brokers communicate over sockets in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

from orbitmq.acl.accounts import AclAccount
from orbitmq.broker.app import Broker
from orbitmq.config import BrokerConfig, NameserverConfig, local_address
from orbitmq.errors import ConfigError
from orbitmq.nameserver.app import Nameserver
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.hooks import signing
from orbitmq.remoting.router import Router
from orbitmq.remoting.server import Server

__all__ = ["Cluster", "Standalone"]

LOOPBACK = "127.0.0.1"
EVERY_HOST = ("0.0.0.0", "::", "")


def broker_config(data: Path, settings: Mapping[str, str]) -> BrokerConfig:
    """Return a broker's configuration: `settings`, in RocketMQ's keys, over local defaults."""
    config = BrokerConfig()
    config.namesrv_addr = None
    config.store_path_root_dir = str(data)
    config.take(settings, source="settings")
    config.settle()
    return config


def nameserver_config(data: Path, settings: Mapping[str, str]) -> NameserverConfig:
    """Return a nameserver's configuration: its own files, and the TLS settings of the brokers."""
    config = NameserverConfig(
        kv_config_path=str(data / "kvConfig.json"),
        config_store_path=str(data / "namesrv.properties"),
    )
    config.take({key: text for key, text in settings.items() if key.startswith("tls.")})
    return config


GIVEN_OTHERWISE = {
    "listenPort": "the port is given with --port",
    "storePathRootDir": "the directory is given with --data",
    "namesrvAddr": "the broker registers with the nameserver of its own process",
}
"""Settings that `Standalone` makes itself and therefore rejects, each with the reason."""


class Standalone:
    """A nameserver and a broker on one port."""

    def __init__(
        self,
        data: Path,
        *,
        host: str = LOOPBACK,
        port: int = 9876,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.data = data
        for key, reason in GIVEN_OTHERWISE.items():
            if key in (settings or {}):
                raise ConfigError(f"settings: {key} cannot be set here: {reason}")
        self.config = broker_config(data, settings or {})
        self.config.settle()
        if "brokerIP1" not in self.config.given:
            self.config.broker_ip1 = local_address() if host in EVERY_HOST else host
        # This account is in no file: only this broker registers with it.
        own = AclAccount(token_hex(16), token_hex(32), is_admin=True)
        self.nameserver = Nameserver(
            self._nameserver_config(data / "namesrv"), hosts=(), own_account=own
        )
        hooks = [signing(own.access_key, own.secret_key)] if self.config.acl_enable else []
        self.broker = Broker(self.config, hosts=(), hooks=hooks)
        self._router = Router(fallback=self.broker.router.fallback)
        self._server = Server(
            self._router,
            max_idle_s=self.config.server_channel_max_idle_time_seconds,
            on_close=self._closed,
            tls=self.broker.tls,
        )
        self.broker.close_with(self._server)

    def _nameserver_config(self, data: Path) -> NameserverConfig:
        """Return the nameserver's configuration, with the access control of the broker."""
        config = nameserver_config(data, {})
        config.acl_enable = self.config.acl_enable
        config.rocketmq_home = self.config.rocketmq_home
        return config

    @property
    def address(self) -> str:
        """The nameserver's address for clients."""
        host = LOOPBACK if self.host in EVERY_HOST else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Open the store, listen, and register the broker with the nameserver in this process."""
        # Bind the port first: a second process on this port must fail before it opens the store.
        self.port = await self._server.listen(self.host, self.port)
        try:
            self.config.namesrv_addr = self.address
            self.broker.open(self.port)
            self._router.merge(self.nameserver.router)
            self._router.merge(self.broker.router)
            self._router.fallback = self.broker.router.fallback
            await self.nameserver.start()
            await self.broker.start()
        except BaseException:
            await self._server.close()
            raise

    async def stop(self) -> None:
        """Stop the broker and the nameserver; all messages are on disk afterwards."""
        await self.broker.stop()
        await self.nameserver.stop()

    def _closed(self, connection: Connection) -> None:
        self.nameserver.connection_closed(connection)
        self.broker.connection_closed(connection)


class Cluster:
    """Nameservers and brokers on loopback, each on a free port, each broker with its own store.

    `ports` gives fixed ports to brokers. When a broker restarts, another program's connection may
    use the free port that the system had chosen. A fixed port outside the system's range for free
    ports does not have this problem.
    """

    def __init__(
        self,
        data: Path,
        *,
        brokers: int = 1,
        nameservers: int = 1,
        settings: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        self.data = data
        self._settings = dict(settings or {})
        self._names = [f"broker-{chr(ord('a') + i)}" for i in range(brokers)]
        self.nameservers = [self._make_nameserver(i, port=0) for i in range(nameservers)]
        self.brokers: dict[str, Broker] = {}
        self._ports = dict(ports or {})

    @property
    def address(self) -> str:
        """The nameservers' addresses for clients."""
        return ";".join(nameserver.address for nameserver in self.nameservers)

    async def start(self) -> None:
        """Start all nameservers, then all brokers."""
        for nameserver in self.nameservers:
            await nameserver.start()
        for name in self._names:
            await self.start_broker(name)

    def _make_nameserver(self, index: int, port: int) -> Nameserver:
        config = nameserver_config(self.data / f"namesrv-{index}", self._settings)
        nameserver = Nameserver(config, hosts=(LOOPBACK,))
        nameserver.port = port
        return nameserver

    async def start_nameserver(self, index: int) -> None:
        """Start a stopped nameserver again, on its port and with its saved values."""
        nameserver = self._make_nameserver(index, self.nameservers[index].port)
        await nameserver.start()
        self.nameservers[index] = nameserver

    async def stop_nameserver(self, index: int) -> None:
        """Stop a nameserver; its address stays in the cluster's list."""
        await self.nameservers[index].stop()

    async def start_broker(self, name: str) -> Broker:
        """Start a broker; a broker that ran before uses its old port and its old store."""
        config = broker_config(
            self.data / name, {"brokerName": name, "brokerIP1": LOOPBACK} | self._settings
        )
        config.namesrv_addr = self.address
        config.listen_port = self._ports.get(name, 0)
        broker = Broker(config, hosts=(LOOPBACK,))
        try:
            await broker.start()
        except BaseException:
            await broker.stop()
            raise
        self._ports[name] = config.listen_port
        self.brokers[name] = broker
        return broker

    async def stop_broker(self, name: str) -> None:
        """Stop a broker."""
        await self.brokers.pop(name).stop()

    async def stop(self) -> None:
        """Stop all servers and close every store."""
        for name in list(self.brokers):
            await self.stop_broker(name)
        for nameserver in self.nameservers:
            await nameserver.stop()
