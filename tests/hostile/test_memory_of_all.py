"""Many peers that each use a little more than allowed: the limits hold for all together."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import pytest

from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode
from tests.broker.conftest import Wire, pull_ext
from tests.hostile.conftest import MIB, Victim
from tests.hostile.test_clients import HOLD

Connect = Callable[[], socket.socket]


@pytest.mark.parametrize("part", ["body", "ext", "subscription", "tags"])
def test_held_pulls_with_large_unused_parts_do_not_fill_memory(
    victim: Victim, peers: Connect, part: str
) -> None:
    """Sixty pulls of 4 MiB: 240 MiB, if they were kept unchanged."""
    much = 4 * MIB
    body, ext = b"", dict(HOLD)
    if part == "body":
        body = bytes(much)
    elif part == "ext":
        ext["unused"] = "x" * much
    elif part == "subscription":
        ext["subscription"] = "x" * much
    else:
        ext["subscription"] = "||".join(str(tag) for tag in range(much // 10))
    with victim.keeps(within_mib=180):
        producer = Wire(victim.broker)
        producer.send(part, b"first")
        request = Command(
            RequestCode.PULL_MESSAGE, ext=pull_ext(part, 1, **ext), body=body
        ).encode()
        holding = [peers() for _ in range(20)]
        for peer in holding:
            for _ in range(3):
                peer.sendall(request)
        if part in ("body", "ext"):
            victim.until(lambda: victim.held == 60, "not all are held")
        victim.serves_others()
        for peer in holding:
            peer.close()
        producer.close()


def test_large_unread_answers_of_many_peers_are_limited(victim: Victim, peers: Connect) -> None:
    """Eighty peers request 11 MiB each: of 880 MiB, about 256 may wait for them."""
    with victim.keeps(within_mib=256 + 80):
        producer = Wire(victim.broker)
        for _ in range(60):
            producer.send("large", bytes(200_000))
        ext = {
            "topic": "large",
            "queueId": "0",
            "fromOffset": "0",
            "toOffset": "60",
            "maxBytes": str(12 * MIB),
        }
        request = Command(RequestCode.ORBIT_BULK_READ, ext=ext).encode()
        # A peer that reads, however slowly, keeps its connection.
        slow = peers()
        slow.sendall(request)
        greedy = []
        for _ in range(80):
            greedy.append(peers())
            greedy[-1].sendall(request)
            victim.serves_others()
            assert slow.recv(1 << 16)
        victim.until(lambda: victim.sockets < 50, "those that do not read are still connected")
        slow.settimeout(30)
        received = 80 << 16
        while received < 60 * 200_000:
            received += len(slow.recv(1 << 20) or pytest.fail("the slow reader was closed"))
        for peer in [*greedy, slow]:
            peer.close()
        producer.close()


def test_requests_of_closed_connections_do_not_fill_memory(victim: Victim, peers: Connect) -> None:
    """Requests sent before a connection closed are handled, but kept only up to a limit."""
    request = Command(RequestCode.GET_BROKER_CLUSTER_ACL_INFO).encode()
    data = request * (200_000 // len(request))
    with victim.keeps(within_mib=150):
        for _ in range(100):
            peer = peers()
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                peer.send(data)
            peer.close()
        victim.serves_others()


def test_unanswered_direct_consumption_does_not_fill_memory(victim: Victim, peers: Connect) -> None:
    """Two hundred requests to consume 2 MiB directly: 400 MiB, if the messages were kept."""
    asked = 200
    with victim.keeps(within_mib=180):
        producer, consumer = Wire(victim.broker), Wire(victim.broker)
        offset_id = producer.send("direct", bytes(2 * MIB)).get_ext("msgId") or ""
        consumer.heartbeat("direct", "direct", client_id="silent")
        ext = {"consumerGroup": "direct", "clientId": "silent", "msgId": offset_id}
        request = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext=ext).encode()
        asking = [peers() for _ in range(5)]
        for peer in asking:
            peer.sendall(request * (asked // len(asking)))
        taken = 0
        while taken < asked:
            push = consumer.next_push()  # The first push announces the new member.
            taken += push.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
        victim.serves_others()
        for peer in asking:
            peer.close()
        producer.close()
        consumer.close()
