"""A cluster for broker tests, and a test client for either header encoding."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from orbitmq._native import Command, FrameReader, dumps_lenient
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster

Encoding = Literal["json", "binary"]


class Wire:
    """A blocking client of one broker: sends requests, receives responses and pushed requests."""

    def __init__(
        self, address: str, encoding: Encoding = "json", tls: ssl.SSLContext | None = None
    ) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket)
        self._reader = FrameReader()
        self._opaques = itertools.count(1)
        self._encoding: Encoding = encoding
        self._responses: dict[int, Command] = {}
        self.pushed: list[Command] = []
        self.notices: list[Command] = []
        """Notices that the queues of a topic have changed; early subscribers get some."""

    def post(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
        version: int = 407,
    ) -> int:
        """Send a request; returns its opaque."""
        opaque = next(self._opaques)
        command = Command(
            code,
            opaque=opaque,
            ext=ext,
            body=body,
            flag=flag,
            language="JAVA",
            version=version,
            encoding=self._encoding,
        )
        self._socket.sendall(command.encode())
        return opaque

    def send_command(self, command: Command) -> None:
        """Send a command unchanged: an answer to a push, or a request with a remark."""
        self._socket.sendall(command.encode())

    def answer(self, opaque: int) -> Command:
        """Wait for the response to a request."""
        while opaque not in self._responses:
            self._receive()
        return self._responses.pop(opaque)

    def next_push(self) -> Command:
        """Wait for a request sent by the broker."""
        while not self.pushed:
            self._receive()
        return self.pushed.pop(0)

    def next_notice(self) -> Command:
        """Wait for a notice that the queues of a topic have changed."""
        while not self.notices:
            self._receive()
        return self.notices.pop(0)

    def _receive(self) -> None:
        data = self._socket.recv(1 << 16)
        assert data, "the broker closed the connection"
        for command in self._reader.feed(data):
            if command.is_response:
                self._responses[command.opaque] = command
            elif "orbitTopic" in (command.ext or {}):
                self.notices.append(command)
            else:
                self.pushed.append(command)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return self.answer(self.post(code, ext, body))

    def send(self, topic: str, body: bytes = b"hello", **changes: str) -> Command:
        return self.ask(RequestCode.SEND_MESSAGE, send_ext(topic, **changes), body)

    def pull(self, topic: str, offset: int = 0, **changes: str) -> Command:
        return self.ask(RequestCode.PULL_MESSAGE, pull_ext(topic, offset, **changes))

    def heartbeat(self, group: str, *topics: str, client_id: str = "c1") -> Command:
        subscriptions = [
            {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
            for topic in topics
        ]
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": subscriptions,
        }
        body: dict[str, Any] = {"clientID": client_id, "consumerDataSet": [consumer]}
        return self.ask(RequestCode.HEART_BEAT, body=dumps_lenient(body))

    def close(self) -> None:
        self._socket.close()


def send_ext(topic: str, **changes: str) -> dict[str, str]:
    return {
        "producerGroup": "p",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": "",
    } | changes


def pull_ext(topic: str, offset: int, **changes: str) -> dict[str, str]:
    return {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "1",
        "expressionType": "TAG",
    } | changes


@pytest.fixture(params=["json", "binary"])
def encoding(request: pytest.FixtureRequest) -> Encoding:
    value: Encoding = request.param
    return value


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    settings = {"messageDelayLevel": "1s 2s 3s 4s", "lostMemberGraceMillis": "100"}
    with LocalCluster(settings=settings) as running:
        yield running


def broker_address(cluster: LocalCluster) -> str:
    (broker,) = cluster.brokers.values()
    return broker.config.address


@pytest.fixture
def connect(cluster: LocalCluster, encoding: Encoding) -> Iterator[Callable[[], Wire]]:
    """Make connections to the broker of the cluster."""
    made: list[Wire] = []

    def make() -> Wire:
        made.append(Wire(broker_address(cluster), encoding))
        return made[-1]

    yield make
    for wire in made:
        wire.close()


@pytest.fixture
def wire(connect: Callable[[], Wire]) -> Wire:
    return connect()


@pytest.fixture
def on_broker(cluster: LocalCluster) -> Callable[[Callable[[], Any]], Any]:
    """Run a function on the thread of the broker's event loop."""

    def run(work: Callable[[], Any]) -> Any:
        async def call() -> Any:
            await asyncio.sleep(0)
            return work()

        return cluster.run(call())

    return run
