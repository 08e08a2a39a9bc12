"""A cluster for consumers: retries come after a second, topics have four queues."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import Message, Producer
from orbitmq.client import background
from orbitmq.rpc.routes import fetch_route
from orbitmq.testing import LocalCluster
from tests.both_ways import LoopThread, way_of

LIMIT_S = 30.0

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"messageDelayLevel": "1s 1s 1s 1s 1s"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(cluster.address, group="test-producers") as producer:
        yield producer


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    thread = LoopThread()
    pick = way_of(request.param, thread)
    pick.kind = request.param  # type: ignore[attr-defined]
    yield pick
    thread.close()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture
def send(producer: Producer, topic: str) -> Callable[..., list[str]]:
    """Send bodies to the test's topic, the same one at each call."""

    def send(*bodies: str, **more: Any) -> list[str]:
        tags, queue = more.get("tags"), more.get("queue")
        messages = [Message(topic, body.encode(), tags=tags) for body in bodies]
        results = [producer.send(message, queue=queue) for message in messages]
        # The first message creates the topic; nameservers list it a moment later.
        eventually(lambda: has_route(producer, topic))
        return [result.message_id for result in results]

    return send


def has_route(producer: Producer, topic: str) -> bool:
    instance = producer._instance
    assert instance is not None
    route = instance.routes.route(topic)
    if route is None or route.is_borrowed:
        route = background.run(instance.run(fetch_route(instance.routes, topic)))
    return route is not None


def has_left(cluster: LocalCluster, group: str) -> bool:
    """Return True if no broker lists members of a group."""
    (broker,) = cluster.brokers.values()
    return group not in broker.consumers.groups


class Seen:
    """Messages received by handlers; a test can wait for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.messages: list[Any] = []

    def __call__(self, message: Any) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in list(self.messages)]

    def wait(self, count: int, limit_s: float = LIMIT_S) -> list[str]:
        self.wait_for(lambda: len(self.messages) >= count, limit_s)
        return self.bodies

    def wait_for(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, limit_s), f"only saw {self.bodies}"


@pytest.fixture
def seen() -> Seen:
    return Seen()


def eventually(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait until a condition holds, for events without a notification."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
