"""Nameservers that do not answer: known routes stay valid, and answering ones are tried first."""

from __future__ import annotations

import logging
from collections.abc import Collection

import pytest

from orbitmq._native import Command
from orbitmq.errors import ConnectionLost, NoRoute
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.spark.nameserver_cache import ASK_AGAIN_S, Directory
from orbitmq.spark.options import ConnectionOptions
from tests.client.test_routes import clusters, route_body

FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"
TTL_MS = 1000


class Nameservers:
    """Two nameservers with a topic `t` of a given number of queues; each can be down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.down: set[str] = set()
        self.queues = 1
        self.asked: list[str] = []

    def __call__(
        self, address: str, code: int, ext: dict[str, str] | None, *, also: Collection[int]
    ) -> Command:
        self.asked.append(address)
        if address in self.down:
            raise ConnectionLost(f"cannot connect to {address}")
        if code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return _answer(clusters("b"))
        if code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return _answer(b'{"topicList": ["t"]}')
        if code == RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS:
            return _answer(b"{}")
        if (ext or {})["topic"] == "t":
            return _answer(route_body("b", read=self.queues))
        assert ResponseCode.TOPIC_NOT_EXIST in also
        return Command(ResponseCode.TOPIC_NOT_EXIST, opaque=1)

    def clock(self) -> float:
        return self.now


def _answer(body: bytes) -> Command:
    return Command(ResponseCode.SUCCESS, opaque=1, body=body)


@pytest.fixture
def nameservers() -> Nameservers:
    return Nameservers()


@pytest.fixture
def directory(nameservers: Nameservers) -> Directory:
    connection = ConnectionOptions((FIRST, SECOND))
    return Directory(connection, nameservers, nameservers.clock)


def queue_count(directory: Directory) -> int:
    route = directory.route("t", TTL_MS)
    assert route is not None
    return len(route.subscribe_queues)


def test_known_routes_are_used_until_a_nameserver_answers_again(
    nameservers: Nameservers, directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    assert (queue_count(directory), directory.topics_like("t.*", TTL_MS)) == (1, ["t"])
    assert directory.route("missing", TTL_MS) is None
    nameservers.down = {FIRST, SECOND}
    nameservers.queues = 2
    nameservers.asked.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(600):  # A minute of triggers.
            nameservers.now += 0.1
            assert (queue_count(directory), directory.topics_like("t.*", TTL_MS)) == (1, ["t"])
            assert directory.route("missing", TTL_MS) is None
            directory.forget()  # Readers do so after an error of a broker.
    assert len(caplog.records) == 1
    assert len(nameservers.asked) <= 2 * (60 / ASK_AGAIN_S + 1)
    nameservers.down.clear()
    nameservers.now += ASK_AGAIN_S
    assert queue_count(directory) == 2


def test_an_unknown_route_is_an_error_when_no_nameserver_answers(
    nameservers: Nameservers, directory: Directory
) -> None:
    nameservers.down = {FIRST, SECOND}
    for _ in range(2):
        with pytest.raises(NoRoute, match=f"no nameserver answers: .*{FIRST}; .*{SECOND}"):
            directory.route("t", TTL_MS)
    nameservers.down.clear()
    assert queue_count(directory) == 1  # At once.


def test_registered_brokers_are_never_answered_from_the_cache(
    nameservers: Nameservers, directory: Directory
) -> None:
    assert directory.registered_brokers() == {"b"}
    nameservers.down = {FIRST, SECOND}
    assert directory.registered_brokers() is None
    nameservers.asked.clear()
    assert directory.registered_brokers() is None
    assert not nameservers.asked
    nameservers.down.clear()
    nameservers.now += ASK_AGAIN_S
    assert directory.registered_brokers() == {"b"}


def test_a_nameserver_that_failed_is_tried_last(
    nameservers: Nameservers, directory: Directory
) -> None:
    nameservers.down = {FIRST}
    for _ in range(5):
        directory.route("t", TTL_MS)
        nameservers.now += TTL_MS / 1000
    assert nameservers.asked == [FIRST, *[SECOND] * 5]
    nameservers.down = {SECOND}
    directory.route("t", TTL_MS)
    assert nameservers.asked[-2:] == [SECOND, FIRST]
