"""Clients that request much and never read the answers."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable

from orbitmq._native import Command, dumps_lenient
from orbitmq.protocol.codes import RequestCode
from tests.broker.conftest import Wire, pull_ext, send_ext
from tests.hostile.conftest import Victim

Connect = Callable[[], socket.socket]
STUCK_AFTER_S = 0.5
HOLD = {"sysFlag": "6", "suspendTimeoutMillis": "60000"}


def pushes(peer: socket.socket, data: bytes, times: int) -> int:
    """Send repeatedly and read nothing until the other side accepts no more; return the bytes."""
    peer.setblocking(False)
    chunk = memoryview(data * max(1, (1 << 16) // len(data)))
    left = len(data) * times
    sent = 0
    while sent < left:
        position = sent % len(chunk)
        if not select.select([], [peer], [], STUCK_AFTER_S)[1]:
            break
        sent += peer.send(chunk[position : position + left - sent])
    return sent


# The bounds are generous: a MiB waits for each peer that does not read, and Python's heap is not
# given back at once. Each of these tests asks for ten times as much or more.


def test_a_producer_that_reads_no_answers_does_not_fill_memory(
    victim: Victim, peers: Connect
) -> None:
    request = Command(RequestCode.SEND_MESSAGE, ext=send_ext("flood"), body=bytes(1000)).encode()
    with victim.keeps(within_mib=100):
        peer = peers()
        assert pushes(peer, request, times=100_000) < 100_000 * len(request)
        victim.serves_others()
        peer.close()


def test_consumers_that_read_no_messages_do_not_fill_memory(victim: Victim, peers: Connect) -> None:
    with victim.keeps(within_mib=150):
        producer = Wire(victim.broker)
        for _ in range(20):
            producer.send("unread", bytes(200_000))
        request = Command(RequestCode.PULL_MESSAGE, ext=pull_ext("unread", 0)).encode()
        consumers = [peers() for _ in range(10)]
        for peer in consumers:
            pushes(peer, request, 1000)  # 1000 times 200 KB, if all were served.
            victim.serves_others()
        for peer in consumers:
            peer.close()
        producer.close()


def test_a_message_for_many_unread_pulls_does_not_fill_memory(
    victim: Victim, peers: Connect
) -> None:
    with victim.keeps(within_mib=150):
        producer = Wire(victim.broker)
        producer.send("woken", b"first")
        request = Command(RequestCode.PULL_MESSAGE, ext=pull_ext("woken", 1, **HOLD)).encode()
        peer = peers()
        pushes(peer, request, 4000)
        victim.until(lambda: victim.held == 4000, "not all are held")
        producer.send("woken", bytes(200_000))  # 800 MB, if all were answered at once.
        victim.serves_others()
        peer.close()
        producer.close()


def test_pulls_beyond_the_limit_do_not_fill_memory(victim: Victim, peers: Connect) -> None:
    with victim.keeps(within_mib=150):
        producer = Wire(victim.broker)
        producer.send("crowded", b"first")
        request = Command(RequestCode.PULL_MESSAGE, ext=pull_ext("crowded", 1, **HOLD)).encode()
        peer = peers()
        assert pushes(peer, request, 100_000) < 100_000 * len(request)
        victim.serves_others()
        peer.close()
        producer.close()


def test_thousands_of_held_pulls_are_dropped_with_their_connections(
    victim: Victim, peers: Connect
) -> None:
    with victim.keeps(within_mib=100):
        producer = Wire(victim.broker)
        producer.send("held", b"first")
        request = Command(RequestCode.PULL_MESSAGE, ext=pull_ext("held", 1, **HOLD)).encode()
        waiting = [peers() for _ in range(100)]
        for peer in waiting:
            peer.sendall(request * 50)
        victim.until(lambda: victim.held == 5000, "not all are held")
        victim.serves_others()
        for peer in waiting:
            peer.close()
        producer.close()


def test_group_members_that_read_no_notices_do_not_fill_memory(
    victim: Victim, peers: Connect
) -> None:
    consumer = {
        "groupName": "restless",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [],
    }
    body = dumps_lenient({"clientID": "deaf", "consumerDataSet": [consumer]})
    join = Command(RequestCode.HEART_BEAT, body=body).encode()
    leave_ext = {"clientID": "x", "consumerGroup": "restless"}
    with victim.keeps(within_mib=50):
        deaf = [peers() for _ in range(50)]
        for peer in deaf:
            peer.sendall(join)
        restless = Wire(victim.broker)
        for _ in range(300):
            restless.heartbeat("restless", client_id="x")
            restless.ask(RequestCode.UNREGISTER_CLIENT, leave_ext)
        victim.serves_others()
        restless.close()
        for peer in deaf:
            peer.close()
