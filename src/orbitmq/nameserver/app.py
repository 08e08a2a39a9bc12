"""The running nameserver: tables, handlers, a server, and the timer that expires brokers.

    nameserver = Nameserver(NameserverConfig(listen_port=0), hosts=["127.0.0.1"])
    await nameserver.start();  print(nameserver.address);  ...;  await nameserver.stop()

To serve on another server's socket, start it with no hosts, merge `router` into that server's
router and pass that server's closed connections to `connection_closed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from orbitmq.acl.accounts import AclAccount
from orbitmq.acl.control import AccessControl
from orbitmq.acl.files import RELOAD_S, AccountFiles
from orbitmq.acl.rules import NAMESERVER_RULES
from orbitmq.config import NameserverConfig, local_address
from orbitmq.nameserver.handlers import Handlers
from orbitmq.nameserver.kv import KvTable
from orbitmq.nameserver.routes import Routes
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Router
from orbitmq.remoting.server import Server
from orbitmq.remoting.tls import ServerTls

__all__ = ["Nameserver"]

FIRST_SCAN_S = 5.0
SCAN_INTERVAL_S = 10.0
EVERY_HOST = ("0.0.0.0", "::", "")


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _silence(_request: object, _connection: Connection) -> None:
    """Send no answer, as RocketMQ's nameserver does for unknown codes."""


class Nameserver:
    """A nameserver.

    `own_account` belongs to brokers in the same process; it is in no file.
    """

    def __init__(
        self,
        config: NameserverConfig | None = None,
        *,
        hosts: Sequence[str] = ("0.0.0.0",),
        clock: Callable[[], int] = _wall_clock_ms,
        own_account: AclAccount | None = None,
    ) -> None:
        self.config = config or NameserverConfig()
        self.routes = Routes()
        self.kv = KvTable(Path(self.config.kv_config_path))
        self.router = Router(fallback=_silence)
        self.port = self.config.listen_port
        self._hosts = tuple(hosts)
        self._clock = clock
        self._server: Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        Handlers(self.routes, self.kv, self.config, clock).install(self.router)
        self._accounts: AccountFiles | None = None
        if self.config.acl_enable:
            self._accounts = AccountFiles(self.config.rocketmq_home)
            control = AccessControl(self._accounts, NAMESERVER_RULES, strict=True, own=own_account)
            self.router.guard(control.guard)

    @property
    def address(self) -> str:
        """An address for brokers and clients, known once the server listens."""
        host = next(iter(self._hosts), "")
        if host in EVERY_HOST:
            host = local_address()
        return f"[{host}]:{self.port}" if ":" in host and host[0] != "[" else f"{host}:{self.port}"

    async def start(self) -> None:
        """Load the saved values and listen on every host; several hosts share one port."""
        self.kv.load()
        self.config.check()
        if self._hosts:
            idle_s = self.config.server_channel_max_idle_time_seconds
            self.config.tls.read_own_file()
            self._server = Server(
                self.router,
                max_idle_s=idle_s,
                on_close=self.connection_closed,
                tls=ServerTls.of(self.config.tls),
            )
            try:
                for host in self._hosts:
                    self.port = await self._server.listen(host, self.port)
                self.config.listen_port = self.port
            except OSError:
                await self._server.close()
                raise
        self._tasks.append(asyncio.create_task(self._scan()))
        if self._accounts is not None:
            self._tasks.append(asyncio.create_task(self._reload(self._accounts)))

    async def stop(self) -> None:
        """Close every connection, and save unsaved changes."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._server is not None:
            await self._server.close()
        await self.kv.close()

    def connection_closed(self, connection: Connection) -> None:
        """Remove the brokers of a closed connection."""
        self.routes.connection_closed(connection)

    def expire_brokers(self) -> None:
        """Remove brokers whose last registration is too old, and close their connections."""
        for live in self.routes.expire(self._clock()):
            if isinstance(live.connection, Connection):
                live.connection.close()

    @staticmethod
    async def _reload(accounts: AccountFiles) -> None:
        while True:
            await asyncio.sleep(RELOAD_S)
            accounts.reload()

    async def _scan(self) -> None:
        await asyncio.sleep(FIRST_SCAN_S)
        while True:
            self.expire_brokers()
            await asyncio.sleep(SCAN_INTERVAL_S)
