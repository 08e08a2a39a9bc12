"""Peers that open all available connections."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode, ResponseCode
from tests.broker.conftest import Wire
from tests.hostile.conftest import Victim

DESCRIPTORS = 400
PEERS = 500
FREE = 50
ASK = Command(RequestCode.GET_BROKER_RUNTIME_INFO).encode()
Connect = Callable[[str], socket.socket]


@pytest.fixture
def small_victim(tmp_path: Path) -> Iterator[Victim]:
    victim = Victim(tmp_path / "log", descriptors=DESCRIPTORS)
    try:
        yield victim
    finally:
        victim.close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[socket.socket] = []

    def connect(address: str) -> socket.socket:
        host, _, port = address.rpartition(":")
        made.append(socket.create_connection((host, int(port)), 10))
        return made[-1]

    yield connect
    for peer in made:
        peer.close()


def opens_files(victim: Victim, topic: str) -> None:
    """Assert that the broker serves a connected client, and that the store can create files."""
    victim.serves_others()
    wire = victim.polite
    for queue_id in range(4):
        sent = wire.send(topic, queueId=str(queue_id))
        assert sent.code == ResponseCode.SUCCESS, sent.remark


@pytest.mark.parametrize("begun", [b"", b"\x00", b"\x16"], ids=["silent", "a byte", "half TLS"])
@pytest.mark.parametrize("where", ["broker", "nameserver"])
def test_connections_without_a_request_are_closed_for_new_ones(
    small_victim: Victim, connect: Connect, begun: bytes, where: str
) -> None:
    address: str = getattr(small_victim, where)
    for number in range(PEERS):
        connect(address).sendall(begun)
        if number % 50 == 0:
            small_victim.serves_others()
    opens_files(small_victim, "grown")
    assert small_victim.descriptors < DESCRIPTORS - FREE
    newcomer = Wire(address)
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    if where == "nameserver":
        code = RequestCode.GET_BROKER_CLUSTER_INFO
    assert newcomer.ask(code).code == ResponseCode.SUCCESS
    newcomer.close()


def test_connections_are_refused_before_files_run_out_of_descriptors(
    small_victim: Victim, connect: Connect
) -> None:
    refused = 0
    for _ in range(PEERS):
        peer = connect(small_victim.broker)
        try:
            peer.sendall(ASK)
            refused += not peer.recv(1 << 16)
        except ConnectionError:
            refused += 1
    assert refused >= PEERS - DESCRIPTORS + FREE
    opens_files(small_victim, "grown")
    assert small_victim.descriptors < DESCRIPTORS - FREE
    lines = small_victim.log.read_text().splitlines()
    told = [line for line in lines if "connections use all descriptors" in line]
    assert 1 <= len(told) < 5
