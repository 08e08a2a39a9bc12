"""Closed connections are noticed before they are used."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from orbitmq._native import Command
from orbitmq.errors import ConnectionLost
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.pipeline import Pipeline


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def link(listener: socket.socket) -> Iterator[Pipeline]:
    made = Pipeline(f"127.0.0.1:{listener.getsockname()[1]}")
    yield made
    made.close()


def test_an_idle_connection_closed_by_its_peer_is_noticed(
    listener: socket.socket, link: Pipeline
) -> None:
    peer, _ = listener.accept()
    assert not link.is_closed()
    peer.close()
    deadline = time.monotonic() + 60
    while not link.is_closed():
        assert time.monotonic() < deadline


def test_answers_sent_before_the_peer_closed_are_received(
    listener: socket.socket, link: Pipeline
) -> None:
    opaque = link.send(RequestCode.PULL_MESSAGE, {})
    peer, _ = listener.accept()
    peer.recv(1 << 16)
    peer.sendall(Command(0, opaque=opaque, flag=1).encode())
    peer.close()
    assert not link.is_closed()
    assert link.receive(opaque).code == 0
    assert link.is_closed()


@pytest.mark.parametrize("how", ["closed here", "broken"])
def test_a_connection_is_closed_after_its_end(
    listener: socket.socket, link: Pipeline, how: str
) -> None:
    opaque = link.send(RequestCode.PULL_MESSAGE, {})
    peer, _ = listener.accept()
    if how == "closed here":
        link.close()
    else:
        peer.close()
        with pytest.raises(ConnectionLost):
            link.receive(opaque)
    peer.close()
    assert link.is_closed()


def test_receiving_for_a_request_of_another_connection_fails(link: Pipeline) -> None:
    with pytest.raises(ConnectionLost, match="another connection"):
        link.receive(12345)
