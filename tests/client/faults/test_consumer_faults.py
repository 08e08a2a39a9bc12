"""Push consumers with a failing network or failing handlers.

Nothing is lost, queues stay in order, and only what was being handled may come twice.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.pull import AsyncPullConsumer, PullConsumer
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import OrbitError
from orbitmq.message import Message
from tests.client.faults.conftest import LIMIT_S, Remains, weakly
from tests.client.faults.proxy import FaultyNetwork

QUEUES = 4

Way = Callable[..., Any]
Listen = Callable[..., Any]


class Seen:
    """Received messages, in order, with the number of each attempt."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._changed = threading.Condition()

    def add(self, message: Any) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, LIMIT_S), f"{what}; {len(self.messages)} came"

    @property
    def bodies(self) -> Counter[bytes]:
        return Counter(message.body for message in self.messages)

    def wait_for_all(self, wanted: set[bytes]) -> None:
        self.wait_for("all messages", lambda: wanted <= {m.body for m in self.messages})

    def assert_in_order(self) -> None:
        """Assert that each queue came without gaps; it may only go back to earlier messages."""
        highest: dict[Any, int] = defaultdict(lambda: -1)
        for message in self.messages:
            assert message.queue_offset <= highest[message.queue] + 1
            highest[message.queue] = max(highest[message.queue], message.queue_offset)


@pytest.fixture
def listen(network: FaultyNetwork, way: Way, request: pytest.FixtureRequest) -> Iterator[Listen]:
    """Start push consumers that pass the messages of topic T to a function."""
    consumers = []
    is_async = request.node.callspec.params["way"] == "async"

    def start(function: Callable[[Any], Any], *, orderly: bool = False, **settings: Any) -> Any:
        settings = {
            "group": "g",
            "consume_from": "first",
            "error_delay_ms": 50,
            "rebalance_s": 1,
            "lock_s": 1,
            "offset_persist_s": 0.2,
            "route_refresh_s": 0.5,
            **settings,
        }
        consumer = way(PushConsumer, AsyncPushConsumer)(network.address, **settings)

        async def handle(message: Any) -> None:
            function(message)

        consumer.on("T", orderly=orderly)(handle if is_async else function)
        consumers.append(consumer)
        return consumer.start()

    start.consumers = consumers  # type: ignore[attr-defined]
    yield start
    for consumer in consumers:
        consumer.stop()


@pytest.fixture
def producer(network: FaultyNetwork, admin: Admin) -> Iterator[Producer]:
    """A producer that bypasses the proxies."""
    admin.create_topic("T", queues=QUEUES)
    with Producer(network.cluster.address, group="p") as producer:
        yield producer


def send_numbers(producer: Producer, numbers: range) -> set[bytes]:
    bodies = [b"%d" % number for number in numbers]
    for number, body in zip(numbers, bodies, strict=True):
        producer.send(Message("T", body), sharding_key=str(number % 16))
    return set(bodies)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_nothing_is_lost_when_connections_are_cut_inside_frames(
    network: FaultyNetwork, producer: Producer, listen: Listen, orderly: bool
) -> None:
    seen = Seen()
    listen(seen.add, orderly=orderly, pull_batch_size=8)
    sent = set()
    for round_number in range(4):
        # Far enough for some whole answers, in the middle of the next one.
        network.broker.cut_after(700 + 531 * round_number, answers=round_number % 2 == 0)
        sent |= send_numbers(producer, range(round_number * 40, round_number * 40 + 40))
        seen.wait_for_all(sent)
    assert network.broker.cuts >= 3
    assert set(seen.bodies) == sent
    if orderly:
        seen.assert_in_order()
    else:
        # Offsets are known here, so a cut alone repeats nothing.
        assert max(seen.bodies.values()) == 1


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_nothing_is_lost_when_the_broker_restarts(
    network: FaultyNetwork, producer: Producer, listen: Listen, orderly: bool
) -> None:
    seen = Seen()
    listen(seen.add, orderly=orderly)
    sent = send_numbers(producer, range(100))
    seen.wait_for_all(sent)
    network.restart_broker()
    number = 100
    while number < 200:
        try:
            sent |= send_numbers(producer, range(number, number + 1))
        except OrbitError as error:
            assert error.retriable, error
        else:
            number += 1
    seen.wait_for_all(sent)
    assert set(seen.bodies) == sent
    if orderly:
        seen.assert_in_order()


def test_nothing_is_lost_when_the_broker_stops_answering(
    network: FaultyNetwork, producer: Producer, listen: Listen
) -> None:
    seen = Seen()
    listen(seen.add, suspend_pull_ms=200, pull_timeout_ms=400)
    sent = send_numbers(producer, range(50))
    seen.wait_for_all(sent)
    network.broker.withhold()
    sent |= send_numbers(producer, range(50, 100))
    time.sleep(0.6)  # Longer than a pull may take; only time itself matters here.
    network.broker.withhold(False)
    seen.wait_for_all(sent)
    assert set(seen.bodies) == sent


def test_a_member_is_registered_again_after_its_connection_was_cut(
    network: FaultyNetwork, producer: Producer, admin: Admin, way: Way
) -> None:
    """Also when no request is pending at the broker that could fail."""

    def wait_for_member(*, other_than: str = "") -> str:
        """Return the address under which the broker lists the member."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            group = admin.group_members("g")
            if group is not None and group.members[0].address != other_than:
                return group.members[0].address
            assert time.monotonic() < deadline, "the broker does not know the member"
            time.sleep(0.01)

    with way(PullConsumer, AsyncPullConsumer)(network.address, group="g") as consumer:
        consumer.pull(producer.queues("T")[0], 0)
        before = wait_for_member()
        network.broker.cut()
        wait_for_member(other_than=before)


def test_consumption_goes_on_when_the_nameserver_is_lost(
    network: FaultyNetwork, producer: Producer, listen: Listen
) -> None:
    seen = Seen()
    listen(seen.add)
    sent = send_numbers(producer, range(50))
    seen.wait_for_all(sent)
    network.nameservers[0].refuse()
    time.sleep(0.7)  # Routes are refreshed twice a second here, which now fails.
    sent |= send_numbers(producer, range(50, 100))
    seen.wait_for_all(sent)
    network.nameservers[0].refuse(False)
    assert max(seen.bodies.values()) == 1


def test_committed_messages_are_not_repeated_after_a_lost_connection(
    network: FaultyNetwork, producer: Producer, admin: Admin, listen: Listen
) -> None:
    first, second = Seen(), Seen()
    consumer = listen(first.add)
    sent = send_numbers(producer, range(100))
    first.wait_for_all(sent)
    deadline = time.monotonic() + LIMIT_S
    while admin.group_lag("g", "T").total:
        assert time.monotonic() < deadline, "offsets are not committed while running"
        time.sleep(0.02)
    network.broker.refuse()  # It cannot unregister.
    consumer.stop()
    network.broker.refuse(False)
    later = send_numbers(producer, range(100, 120))
    listen(second.add)
    second.wait_for_all(later)
    assert set(second.bodies) == later


def test_a_slow_handler_limits_the_pulls(
    network: FaultyNetwork, producer: Producer, listen: Listen
) -> None:
    seen, may_go_on = Seen(), threading.Event()

    def handle(message: Any) -> None:
        # The asyncio consumer has one thread for all, so only the first message waits there.
        assert may_go_on.wait(LIMIT_S)
        seen.add(message)

    body = b"x" * 10_000
    count = 400
    for _ in range(count):
        producer.send(Message("T", body))
    before = network.broker.passed_bytes[True]
    listen(handle, max_cached_messages=16, pull_batch_size=8, concurrency=2)
    time.sleep(0.5)  # Time for it to pull as much as it can.
    pulled = network.broker.passed_bytes[True] - before
    assert pulled < QUEUES * (16 + 2 * 32) * len(body) * 1.2
    may_go_on.set()
    seen.wait_for("all messages", lambda: len(seen.messages) >= count)
    assert len(seen.messages) == count


def test_a_poison_message_does_not_stop_the_others(
    network: FaultyNetwork, producer: Producer, admin: Admin, listen: Listen
) -> None:
    seen, poisoned = Seen(), Seen()

    def handle(message: Any) -> None:
        if message.body == b"7":
            poisoned.add(message)
            raise ValueError("poison")
        seen.add(message)

    listen(handle, max_reconsume_times=0)
    sent = send_numbers(producer, range(100))
    seen.wait_for_all(sent - {b"7"})
    deadline = time.monotonic() + LIMIT_S
    while "%DLQ%g" not in admin.topic_names() or not any(
        ends.count for ends in admin.topic_ends("%DLQ%g").values()
    ):
        assert time.monotonic() < deadline, "no dead letter"
        time.sleep(0.02)
    assert max(seen.bodies.values()) == 1
    assert len(poisoned.messages) == 1


def test_a_poison_message_stops_only_its_queue_when_in_order(
    network: FaultyNetwork, producer: Producer, listen: Listen
) -> None:
    seen, tries = Seen(), Seen()
    queues = producer.queues("T")

    def handle(message: Any) -> None:
        if message.body == b"poison" and len(tries.messages) < 5:
            tries.add(message)
            raise ValueError("poison")
        seen.add(message)

    listen(handle, orderly=True, suspend_ms=50)
    producer.send(Message("T", b"poison"), queue=queues[0])
    producer.send(Message("T", b"behind it"), queue=queues[0])
    for queue in queues[1:]:
        producer.send(Message("T", b"elsewhere"), queue=queue)
    seen.wait_for("all messages", lambda: len(seen.messages) == 5)
    order = [message.body for message in seen.messages if message.queue == queues[0]]
    assert order == [b"poison", b"behind it"]
    assert [message.reconsume_times for message in tries.messages] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("unseen_log")
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_a_stopped_consumer_leaves_no_objects_or_connections(
    network: FaultyNetwork, producer: Producer, way: Way, listen: Listen, orderly: bool
) -> None:
    def once() -> weakref.ref[Any]:
        seen = Seen()
        consumer = listen(seen.add, concurrency=4, orderly=orderly)
        seen.wait_for_all(send_numbers(producer, range(20)))
        network.broker.cut()
        seen.wait_for_all(send_numbers(producer, range(20, 40)))
        consumer.stop()
        listen.consumers.clear()  # type: ignore[attr-defined]
        return weakly(consumer)

    once()
    remains = Remains(network)
    remains.assert_none([once() for _ in range(5)])


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_messages_come_once_on_a_slow_network(
    network: FaultyNetwork, producer: Producer, listen: Listen, orderly: bool
) -> None:
    seen = Seen()
    network.broker.delay_s = 0.03
    listen(seen.add, orderly=orderly)
    sent = send_numbers(producer, range(100))
    seen.wait_for_all(sent)
    assert seen.bodies == dict.fromkeys(sent, 1)
    if orderly:
        seen.assert_in_order()
