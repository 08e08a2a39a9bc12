"""One of the two brokers of a twin test, and a client that says to it exactly what it is told.

A `Side` has a few connections to its broker. It sends a request, waits for the answer, and notes
whatever the broker pushes meanwhile; what a broker asks of a consumer is answered here the way a
consumer would, the same on both sides.
"""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import Literal

from orbitmq._native import Command, FrameReader, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode

Encoding = Literal["json", "binary"]

CONNECTIONS = 3
ANSWER_TIMEOUT_S = 20.0
ONEWAY_PAUSE_S = 0.02
RESPONSE, ONEWAY = 1, 2
FIRST_BARRIER_OPAQUE = 1 << 24

CONSUMER_ANSWERS = {
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: (
        b'{"consumerTable":{},"messageQueueTable":'
        b'{{"brokerName":"twin","queueId":0,"topic":"Orders"}:12}}'
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: b'{"properties":{"PROP_CLIENT_VERSION":"V4_9_7"}}',
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: b"",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: b'{"consumeResult":"CR_SUCCESS","order":false}',
}


@dataclass(frozen=True)
class Request:
    """A request of the session; `connection` is the number of the connection for it."""

    code: int
    ext: dict[str, str] | None = None
    body: bytes = b""
    flag: int = 0
    version: int = 407
    language: str = "JAVA"
    connection: int = 0
    writes: bool = False
    """True if it may put a message, which Java's broker adds to queues and index later."""

    @property
    def wants_answer(self) -> bool:
        return not self.flag & (RESPONSE | ONEWAY)


@dataclass
class _Channel:
    connection: socket.socket
    reader: FrameReader = field(default_factory=FrameReader)
    pushes: list[Command] = field(default_factory=list)

    @property
    def port(self) -> int:
        port: int = self.connection.getsockname()[1]
        return port


class Side:
    def __init__(self, address: str, encoding: Encoding, *, dispatches_later: bool) -> None:
        host, _, port = address.rpartition(":")
        self.port = int(port)
        self._encoding = encoding
        self._dispatches_later = dispatches_later
        self.is_behind = False
        self._barriers = FIRST_BARRIER_OPAQUE
        self._answers: dict[int, Command] = {}
        self._selector = selectors.DefaultSelector()
        self.channels = []
        for number in range(CONNECTIONS):
            connection = socket.create_connection((host, self.port), timeout=ANSWER_TIMEOUT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.channels.append(_Channel(connection))
            self._selector.register(connection, selectors.EVENT_READ, number)

    def post(self, request: Request, opaque: int) -> None:
        """Send a request; a reading one is sent when all puts before it are done."""
        if self.is_behind and not request.writes:
            self.settle()
        self.is_behind = self.is_behind or request.writes
        self._send(request, opaque)

    def _send(self, request: Request, opaque: int) -> None:
        command = Command(
            request.code,
            opaque=opaque,
            flag=request.flag,
            ext=request.ext,
            body=request.body,
            version=request.version,
            language=request.language,
            encoding=self._encoding,
        )
        self.channels[request.connection].connection.sendall(command.encode())
        if not request.wants_answer:
            # Nothing tells when a request without an answer is done, and Java's broker has a pool
            # of threads for each kind.
            self.receive_for(ONEWAY_PAUSE_S)

    def answer(self, opaque: int) -> Command:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while opaque not in self._answers:
            remaining = deadline - time.monotonic()
            assert remaining > 0, "no answer"
            self._receive(remaining)
        return self._answers.pop(opaque)

    def settle(self) -> None:
        """Wait until everything put so far is in queues and index."""
        self.is_behind = False
        while self._dispatches_later:
            self._barriers += 1
            self._send(Request(RequestCode.GET_BROKER_RUNTIME_INFO), self._barriers)
            answer = self.answer(self._barriers)
            if answer.code != ResponseCode.SUCCESS:
                # In its first second, a Java broker has no sample to make its rates of.
                self.receive_for(ONEWAY_PAUSE_S)
                continue
            if int(loads_lenient(answer.body)["table"]["dispatchBehindBytes"]) == 0:
                return

    def receive_for(self, seconds: float) -> None:
        """Receive for a while."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            self._receive(remaining)

    def _receive(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            channel = self.channels[key.data]
            data = channel.connection.recv(1 << 18)
            assert data, f"connection {key.data} was closed"
            for command in channel.reader.feed(data):
                if command.is_response:
                    self._answers[command.opaque] = command
                else:
                    self._pushed(channel, command)

    def _pushed(self, channel: _Channel, push: Command) -> None:
        if "orbitTopic" in (push.ext or {}):
            return  # OrbitMQ's own notice of changed queues; Java's broker sends none.
        channel.pushes.append(push)
        body = CONSUMER_ANSWERS.get(push.code)  # type: ignore[call-overload]
        if body is not None:
            answer = Command(0, opaque=push.opaque, flag=RESPONSE, body=body, language="JAVA")
            channel.connection.sendall(answer.encode())

    def close(self) -> None:
        self._selector.close()
        for channel in self.channels:
            channel.connection.close()
