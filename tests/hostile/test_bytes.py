"""Malformed or unfinished requests."""

from __future__ import annotations

import random
import resource
import socket
import struct
from collections.abc import Callable

import pytest

from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode
from tests.broker.conftest import send_ext
from tests.hostile.conftest import Victim

Connect = Callable[[], socket.socket]
MIB = 1 << 20


def closed_by_peer(peer: socket.socket) -> bool:
    try:
        while peer.recv(1 << 10):
            pass  # TLS sends an alert once before the connection closes.
    except ConnectionResetError:
        pass
    return True


def frame(length: int, header_length: int, rest: bytes = b"") -> bytes:
    return struct.pack(">iI", length, header_length) + rest


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506), id="no hello"),
        pytest.param(frame(0x7FFF_FFFF, 10), id="2 GiB"),
        pytest.param(frame(16 * MIB + 1, 10), id="just too long"),
        pytest.param(frame(-1, 0), id="negative"),
        pytest.param(frame(3, 0), id="too short"),
        pytest.param(frame(100, 200, bytes(96)), id="header longer than its frame"),
        pytest.param(frame(100, 0x0700_0060, bytes(96)), id="unknown encoding"),
        pytest.param(frame(100, 96, b"{" * 96), id="broken JSON"),
        pytest.param(frame(100, 0x0100_0060, b"\xff" * 96), id="broken binary header"),
        pytest.param(frame(4 + 12 * MIB, 12 * MIB, b"[" * (12 * MIB)), id="deep JSON"),
    ],
)
def test_garbage_closes_its_connection(victim: Victim, peers: Connect, data: bytes) -> None:
    with victim.keeps(within_mib=100):
        for _ in range(20 if len(data) < MIB else 2):
            peer = peers()
            peer.sendall(data)
            assert closed_by_peer(peer)
            peer.close()
        victim.serves_others()


def test_random_bytes_do_not_disturb_others(victim: Victim, peers: Connect) -> None:
    noise = random.Random(4)
    with victim.keeps(within_mib=50):
        for _ in range(200):
            peer = peers()
            peer.sendall(noise.randbytes(noise.randrange(1, 4000)))
            peer.close()
        victim.serves_others()


def test_unfinished_handshakes_are_limited_in_number(victim: Victim, peers: Connect) -> None:
    """Of a thousand clients that stop in the TLS handshake, the newest 256 are kept."""
    with victim.keeps(within_mib=100):
        halves = [peers() for _ in range(1000)]
        for peer in halves:
            peer.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert all(closed_by_peer(peer) for peer in halves[:700])
        victim.serves_others()
        for peer in halves:
            peer.close()


def test_unfinished_frames_are_limited_in_memory(victim: Victim, peers: Connect) -> None:
    """Forty peers announce 16 MiB each and send 12: of 480 MiB, about 256 may be kept."""
    half = frame(16 * MIB - 4, 100) + bytes(12 * MIB)
    with victim.keeps(within_mib=256 + 64):
        halves = [peers() for _ in range(40)]
        for peer in halves:
            peer.sendall(half)
            victim.serves_others()
        for peer in halves:
            peer.close()


def test_requests_sent_byte_by_byte_are_served(victim: Victim, peers: Connect) -> None:
    request = Command(RequestCode.SEND_MESSAGE, ext=send_ext("slow"), body=b"slowly").encode()
    with victim.keeps(within_mib=50):
        slow = [peers() for _ in range(100)]
        for position in range(len(request)):
            for peer in slow:
                peer.sendall(request[position : position + 1])
            if position % 100 == 0:
                victim.serves_others()
        # A slow peer is not an error.
        for peer in slow:
            head = peer.recv(4, socket.MSG_WAITALL)
            assert b'"code":0' in peer.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
            peer.close()


def test_thousands_of_idle_connections_do_not_disturb_others(
    victim: Victim, peers: Connect
) -> None:
    count = 5000
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most > count + 500, f"a limit of {most} open files does not allow this test: ulimit -n"
    with victim.keeps(within_mib=100):
        idle = [peers() for _ in range(count)]
        victim.until(lambda: victim.sockets > count, "not all were accepted")
        victim.serves_others()
        for peer in idle:
            peer.close()
