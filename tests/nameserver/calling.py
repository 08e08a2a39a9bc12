"""A nameserver in this process and raw requests to it, in either header encoding."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from orbitmq._native import Command, FrameReader, loads_lenient
from orbitmq.config import NameserverConfig
from orbitmq.nameserver import Nameserver

Encoding = Literal["json", "binary"]

TOPICS: dict[str, Any] = {
    "T1": {"topicName": "T1", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6},
    "T2": {
        "topicName": "T2",
        "readQueueNums": 8,
        "writeQueueNums": 8,
        "perm": 7,
        "topicSysFlag": 3,
    },
}


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Caller:
    """One connection that sends a request and waits for its answer."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, encoding: Encoding
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._encoding = encoding
        self._frames = FrameReader()
        self._opaque = 0

    async def ask(
        self, code: int, body: bytes | None = None, *, version: int = 407, **ext: str
    ) -> Command:
        self._opaque += 1
        self.tell(code, body, version=version, **ext)
        while True:
            data = await self._reader.read(1 << 16)
            assert data, "the nameserver has closed the connection"
            for answer in self._frames.feed(data):
                assert (answer.opaque, answer.is_response) == (self._opaque, True)
                assert answer.encoding == self._encoding
                return answer

    def tell(self, code: int, body: bytes | None = None, *, version: int = 407, **ext: str) -> None:
        request = Command(
            code,
            opaque=self._opaque,
            ext=ext,
            body=body,
            language="JAVA",
            version=version,
            encoding=self._encoding,
        )
        self._writer.write(request.encode())

    async def register(
        self,
        name: str = "broker-a",
        *,
        address: str = "10.0.0.1:10911",
        broker_id: int = 0,
        topics: dict[str, Any] = TOPICS,
        counter: int = 1,
        **ext: Any,
    ) -> Command:
        wrapper = {
            "dataVersion": {"counter": counter, "timestamp": 7},
            "topicConfigTable": topics,
        }
        body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
        return await self.ask(
            103,
            json.dumps(body).encode(),
            **broker(name, address=address, broker_id=broker_id),
            haServerAddr=address.replace("10911", "10912"),
            **ext,
        )

    async def route(self, topic: str) -> Any:
        answer = await self.ask(105, topic=topic)
        return loads_lenient(answer.body) if answer.code == 0 else answer.code

    async def at_end(self) -> bool:
        return await self._reader.read() == b""

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def broker(
    name: str = "broker-a", *, address: str = "10.0.0.1:10911", broker_id: int = 0
) -> dict[str, Any]:
    return {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": "C1",
        "brokerId": str(broker_id),
    }


class Running:
    """A running nameserver, and ways to connect to it."""

    def __init__(self, nameserver: Nameserver, clock: Clock, encoding: Encoding) -> None:
        self.nameserver = nameserver
        self.clock = clock
        self._encoding = encoding
        self._callers: list[Caller] = []

    async def caller(self, host: str = "127.0.0.1") -> Caller:
        streams = await asyncio.open_connection(host, self.nameserver.port)
        self._callers.append(Caller(*streams, self._encoding))
        return self._callers[-1]

    async def close(self) -> None:
        for caller in self._callers:
            await caller.close()
        await self.nameserver.stop()


@asynccontextmanager
async def running(
    directory: Path,
    encoding: Encoding = "json",
    *,
    hosts: tuple[str, ...] = ("127.0.0.1",),
    **settings: Any,
) -> AsyncIterator[Running]:
    config = NameserverConfig(
        listen_port=0,
        kv_config_path=str(directory / "kvConfig.json"),
        config_store_path=str(directory / "namesrv.properties"),
        **settings,
    )
    clock = Clock()
    nameserver = Nameserver(config, hosts=hosts, clock=clock)
    await nameserver.start()
    instance = Running(nameserver, clock, encoding)
    try:
        yield instance
    finally:
        await instance.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


async def until(
    true: Callable[[], Awaitable[bool]], what: str, *, timeout_s: float = 5, pause_s: float = 0.005
) -> None:
    """Repeat until a condition holds: for events on the other side of a socket."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not await true():
        assert loop.time() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(pause_s)
