"""A deliberately failing network: a TCP proxy that cuts, delays and withholds bytes.

Clients learn the addresses of brokers from the nameserver, so a `FaultyNetwork` stands in front of
both: the proxy of the nameserver writes the brokers' proxies into the routes it passes on. All
ports have five digits, so no length in a frame changes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

from orbitmq.remoting.address import split_address
from orbitmq.testing import LocalCluster
from tests.both_ways import LoopThread

__all__ = ["FaultyNetwork", "Proxy"]

CHUNK = 64 << 10


class Proxy:
    """Passes bytes between its clients and one server until a fault is switched on.

    Everything that is told to it is told to connections that are open and those to come.
    """

    def __init__(
        self, thread: LoopThread, target: str, rewrite: Callable[[bytes], bytes] = bytes
    ) -> None:
        self._thread = thread
        self._host, self._port = split_address(target)
        self._rewrite = rewrite
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut_after: dict[bool, int | None] = {True: None, False: None}
        self._flowing = asyncio.Event()
        self.delay_s = 0.0
        self.is_refusing = False
        self.refused = 0
        self.passed_bytes = {True: 0, False: 0}
        self.cuts = 0
        self._server = thread.run(self._listen())
        port = self._server.sockets[0].getsockname()[1]
        assert len(str(port)) == len(str(self._port)) == 5
        self.address = f"127.0.0.1:{port}"

    async def _listen(self) -> asyncio.Server:
        self._flowing.set()
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    # ---- Faults

    def cut(self) -> None:
        """Cut all connections that are open."""

        async def there() -> None:
            self._cut()

        self._thread.run(there())

    def cut_after(self, count: int, *, answers: bool) -> None:
        """Pass a number of further bytes in one direction, then cut all connections, once."""
        self._cut_after[answers] = count

    @property
    def is_about_to_cut(self) -> bool:
        """True if a requested cut has not happened yet."""
        return any(count is not None for count in self._cut_after.values())

    def refuse(self, refusing: bool = True) -> None:
        """Cut all connections, and each new one at once."""
        self.is_refusing = refusing
        if refusing:
            self.cut()

    def withhold(self, withholding: bool = True) -> None:
        """Pass nothing on, like a network that is gone; withheld bytes are passed on later."""

        async def there() -> None:
            if withholding:
                self._flowing.clear()
            else:
                self._flowing.set()

        self._thread.run(there())

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._pairs)

    # ---- Transport of bytes

    def _cut(self) -> None:
        self.cuts += 1
        for client, server in list(self._pairs):
            for writer in (client, server):
                writer.transport.abort()
        self._pairs.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, server_writer)
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, server_writer, answers=False))
                tasks.create_task(self._pass(server_reader, writer, answers=True))
        finally:
            self._pairs.discard(pair)
            for one in pair:
                one.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._flowing.wait()
                if answers:
                    data = self._rewrite(data)
                left = self._cut_after[answers]
                if left is not None and len(data) >= left:
                    self._cut_after[answers] = None
                    writer.write(data[:left])
                    await writer.drain()
                    self._cut()
                    return
                if left is not None:
                    self._cut_after[answers] = left - len(data)
                self.passed_bytes[answers] += len(data)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    def close(self) -> None:
        async def there() -> None:
            self._server.close()
            self._flowing.set()
            self._cut()
            await self._server.wait_closed()

        self._thread.run(there())


class FaultyNetwork:
    """A cluster behind proxies: `address` is the nameserver address for clients."""

    def __init__(self, *, brokers: int = 1, nameservers: int = 1, **settings: str) -> None:
        self.cluster = LocalCluster(brokers=brokers, nameservers=nameservers, settings=settings)
        self.thread = LoopThread()

    def start(self) -> Self:
        self.cluster.start()
        self.brokers = {
            name: Proxy(self.thread, broker.config.address)
            for name, broker in self.cluster.brokers.items()
        }
        self._places = {
            broker.config.address.encode(): self.brokers[name].address.encode()
            for name, broker in self.cluster.brokers.items()
        }
        self.nameservers = [
            Proxy(self.thread, address, self._rewrite)
            for address in self.cluster.address.split(";")
        ]
        return self

    @property
    def broker(self) -> Proxy:
        """The proxy of the first broker."""
        return self.brokers["broker-a"]

    @property
    def address(self) -> str:
        return ";".join(proxy.address for proxy in self.nameservers)

    def _rewrite(self, data: bytes) -> bytes:
        for place, proxy in self._places.items():
            data = data.replace(place, proxy)
        return data

    def restart_broker(self, name: str = "broker-a") -> None:
        """Stop and start a broker with the same port and store."""
        self.cluster.stop_broker(name)
        self.cluster.start_broker(name)

    def stop(self) -> None:
        for proxy in [*self.brokers.values(), *self.nameservers]:
            proxy.close()
        self.thread.close()
        self.cluster.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()
