"""Requests on the calling thread: answers, timeouts, lost connections, and pool limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command, FrameReader
from orbitmq.errors import ConfigError, ConnectionLost, RequestTimeout
from orbitmq.remoting import blocking
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.hooks import signing
from orbitmq.remoting.tls import Tls, client_context

Reaction = Callable[[Command], list[bytes] | None]


class Peer:
    """A server that answers with the pieces a function returns, or closes on None."""

    def __init__(self, react: Reaction, tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._react = react
        self._tls = tls
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
            except ssl.SSLError:
                continue
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        try:
            while data := connection.recv(65536):
                for request in reader.feed(data):
                    pieces = self._react(request)
                    if pieces is None:
                        connection.close()
                        return
                    for piece in pieces:
                        connection.sendall(piece)
        except OSError:
            pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # Wake the accepting thread.
        self._listener.close()
        for connection in self.connections:
            connection.close()


def echo(request: Command) -> list[bytes]:
    return [Command(0, opaque=request.opaque, flag=1, ext=request.ext, body=request.body).encode()]


@pytest.fixture
def start() -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def make(react: Reaction = echo, tls: ssl.SSLContext | None = None) -> Peer:
        peers.append(Peer(react, tls))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


@pytest.fixture
def network() -> Iterator[BlockingNetwork]:
    network = BlockingNetwork()
    yield network
    network.close()


def test_a_connection_is_kept_after_an_answer(
    start: Callable[..., Peer], network: BlockingNetwork
) -> None:
    peer = start()
    for size in (0, 10, 1 << 20):
        answer = network.invoke(peer.address, 1, ext={"a": "b"}, body=bytes(size))
        assert answer.ext == {"a": "b"}
        assert len(answer.body) == size
    assert len(peer.connections) == 1
    assert network.connection_count() == 1


def test_an_answer_in_pieces_behind_a_stray_one_is_received(
    start: Callable[..., Peer], network: BlockingNetwork
) -> None:
    def react(request: Command) -> list[bytes]:
        stray = Command(2, opaque=99999, flag=1).encode()
        frame = echo(request)[0]
        return [stray + frame[:5], frame[5:20], frame[20:]]

    assert network.invoke(start(react).address, 1, body=b"x").body == b"x"


def test_a_connection_is_not_reused_after_a_timeout(
    start: Callable[..., Peer], network: BlockingNetwork
) -> None:
    late = []

    def react(request: Command) -> list[bytes]:
        if request.code == 1:
            late.extend(echo(request))
            return []
        return [*late, *echo(request)]

    peer = start(react)
    begin = time.monotonic()
    with pytest.raises(RequestTimeout, match="within 80 ms"):
        network.invoke(peer.address, 1, timeout_ms=80)
    assert 0.07 < time.monotonic() - begin < 5
    assert network.invoke(peer.address, 2, body=b"y").body == b"y"
    assert len(peer.connections) == 2


def test_an_answer_that_trickles_does_not_extend_the_deadline(
    start: Callable[..., Peer], network: BlockingNetwork
) -> None:
    release = threading.Event()

    def react(request: Command) -> list[bytes]:
        def drip() -> None:
            for byte in echo(request)[0][:-1]:
                if release.wait(0.1):
                    return
                peer.connections[-1].sendall(bytes([byte]))

        threading.Thread(target=drip, daemon=True).start()
        return []

    peer = start(react)
    begin = time.monotonic()
    with pytest.raises(RequestTimeout):
        network.invoke(peer.address, 1, timeout_ms=150)
    release.set()
    assert time.monotonic() - begin < 5  # All pieces together take longer.


def test_a_closed_absent_or_foreign_peer_is_a_lost_connection(
    start: Callable[..., Peer], network: BlockingNetwork
) -> None:
    peer = start(lambda _request: None)
    with pytest.raises(ConnectionLost, match="closed by its peer"):
        network.invoke(peer.address, 1)
    peer.close()
    with pytest.raises(ConnectionLost, match="cannot connect"):
        network.invoke(peer.address, 1)
    with pytest.raises(ConnectionLost, match="does not speak the protocol"):
        network.invoke(start(lambda _request: [b"HTTP/1.1 400 Bad Request\r\n"]).address, 1)


def test_a_connection_closed_while_idle_is_not_used(
    start: Callable[..., Peer], network: BlockingNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "LOOK_AFTER_S", 0.0)
    peer = start()
    network.invoke(peer.address, 1)
    peer.connections[0].shutdown(socket.SHUT_RDWR)
    assert network.invoke(peer.address, 1, body=b"x").body == b"x"
    assert len(peer.connections) == 2


def test_connections_to_one_address_are_limited(
    start: Callable[..., Peer], network: BlockingNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "MAX_PER_ADDRESS", 2)
    gate = threading.Event()

    def react(request: Command) -> list[bytes]:
        if request.code == 1:
            gate.wait(10)
        return echo(request)

    peer = start(react)
    answers: list[bytes] = []

    def call() -> None:
        answers.append(network.invoke(peer.address, 1, body=b"x", timeout_ms=10_000).body)

    threads = [threading.Thread(target=call) for _ in range(5)]
    for thread in threads:
        thread.start()
    while len(peer.connections) < 2:
        time.sleep(0.001)
    with pytest.raises(RequestTimeout, match="2 threads wait"):
        network.invoke(peer.address, 2, timeout_ms=30)
    gate.set()
    for thread in threads:
        thread.join()
    assert answers == [b"x"] * 5
    assert len(peer.connections) == 2


def test_idle_connections_are_closed(start: Callable[..., Peer], network: BlockingNetwork) -> None:
    peer = start()
    network.invoke(peer.address, 1)
    network.close_idle(60)
    assert network.connection_count() == 1
    network.close_idle(0)
    assert network.connection_count() == 0
    network.close()
    with pytest.raises(ConnectionLost, match="this client is closed"):
        network.invoke(peer.address, 1)


def test_notices_are_sent_and_signed_like_calls(start: Callable[..., Peer]) -> None:
    seen: list[Command] = []
    came = threading.Event()

    def react(request: Command) -> list[bytes]:
        seen.append(request)
        came.set()
        return [] if request.is_oneway else echo(request)

    network = BlockingNetwork([signing("me", "secret")])
    peer = start(react)
    network.notify(peer.address, 15, ext={"a": "b"})
    assert came.wait(5)
    network.invoke(peer.address, 1, ext={"a": "b"})
    network.close()
    notice, call = seen
    assert notice.is_oneway
    assert notice.ext == call.ext
    assert (notice.ext or {})["AccessKey"] == "me"
    assert "Signature" in (notice.ext or {})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        reason = "openssl is needed to make a certificate; it is not here"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return cert, key


def test_requests_are_sent_over_tls(
    start: Callable[..., Peer], certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    peer = start(tls=server)
    for tls in (Tls(ca_file=cert), Tls(verify=False)):
        context = client_context(tls)
        network = BlockingNetwork(tls=context)
        for size in (1, 200_000):
            assert len(network.invoke(peer.address, 1, body=bytes(size)).body) == size
        network.close()

        async def ask(context: ssl.SSLContext | None = context) -> bytes:
            client = RemotingClient(tls=context)
            answer = await client.invoke(peer.address, 1, body=b"x")
            await client.close()
            return answer.body

        assert asyncio.run(ask()) == b"x"
    strangers = BlockingNetwork(tls=client_context(True))
    with pytest.raises(ConnectionLost, match="certificate verify failed"):
        strangers.invoke(peer.address, 1)
    assert client_context(False) is None
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        client_context(Tls(ca_file="nowhere.pem"))
