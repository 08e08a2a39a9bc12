"""Topics whose queues change while clients of a real cluster use them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import Admin, ClientSettings, Message, MessageQueue, Producer, PushConsumer
from orbitmq.client.consumer.push import AsyncPushConsumer
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, eventually

NEVER_S = 3600


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.address) as admin:
        yield admin


@pytest.fixture
def make(way: Any, cluster: LocalCluster, topic: str, group: str) -> Callable[..., Any]:
    """Create a consumer of either kind whose timers are too slow to matter in a test."""

    def make(function: Callable[[Any], Any], **options: Any) -> Any:
        timers = {"rebalance_s": NEVER_S, "route_refresh_s": NEVER_S}
        options = {"group": group, "consume_from": "first"} | timers | options
        consumer = way(PushConsumer, AsyncPushConsumer)(cluster.address, **options)
        if way.kind == "async":

            async def handle(message: Any) -> Any:
                return function(message)

            consumer._target.on(topic)(handle)
        else:
            consumer.on(topic)(function)
        return consumer

    return make


def _queues(consumer: Any, topic: str) -> list[int]:
    queues = list(consumer._member.queues)
    return sorted(queue.queue_id for queue in queues if queue.topic == topic)


def test_a_push_consumer_follows_a_topic_that_gains_and_loses_queues(
    make: Callable[..., Any], admin: Admin, topic: str, seen: Seen, producer: Producer
) -> None:
    admin.create_topic(topic, queues=4)
    with make(seen) as consumer:
        eventually(lambda: _queues(consumer, topic) == [0, 1, 2, 3])
        admin.update_topic(topic, queues=8)
        eventually(lambda: _queues(consumer, topic) == list(range(8)))
        producer.send(Message(topic, b"new"), queue=MessageQueue(topic, "broker-a", 7))
        assert seen.wait(1) == ["new"]
        admin.update_topic(topic, queues=2, shrink=True)
        eventually(lambda: _queues(consumer, topic) == [0, 1])
        producer.send(Message(topic, b"old"), queue=MessageQueue(topic, "broker-a", 0))
        assert seen.wait(2) == ["new", "old"]


def test_members_share_the_queues_that_a_topic_gains_and_loses(
    make: Callable[..., Any], admin: Admin, topic: str, seen: Seen
) -> None:
    admin.create_topic(topic, queues=2)
    with make(seen) as one, make(seen) as other:

        def share(count: int) -> bool:
            mine, others = _queues(one, topic), _queues(other, topic)
            return sorted(mine + others) == list(range(count)) and len(mine) == len(others)

        eventually(lambda: share(2))
        admin.update_topic(topic, queues=6)
        eventually(lambda: share(6))
        admin.update_topic(topic, queues=4, shrink=True)
        eventually(lambda: share(4))


def test_a_consumer_of_a_missing_topic_gets_its_queues_once_it_is_created(
    make: Callable[..., Any], admin: Admin, topic: str, seen: Seen, producer: Producer
) -> None:
    with make(seen):
        admin.create_topic(topic, queues=1)
        producer.send(Message(topic, b"first"))
        assert seen.wait(1) == ["first"]


class Load:
    """A producer that sends numbers until it is stopped, and remembers the stored ones."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.sent: list[str] = []
        self.queue_ids: list[int] = []
        self.errors: list[Exception] = []
        self._topic = topic
        self._stop = threading.Event()
        settings = ClientSettings.of(cluster.address, route_refresh_s=0.1)
        self._producer = Producer(settings, group="load")
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            try:
                result = self._producer.send(Message(self._topic, b"%d" % number))
            except Exception as error:
                self.errors.append(error)
                return
            self.queue_ids.append(result.queue.queue_id)
            self.sent.append(str(number))

    def wait_for(self, more: int) -> None:
        target = len(self.sent) + more
        eventually(lambda: len(self.sent) >= target or bool(self.errors))

    def __enter__(self) -> Load:
        self._producer.start()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        self._producer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_topic_shrinks_from_16_to_8_queues_under_load_without_loss(
    make: Callable[..., Any],
    admin: Admin,
    topic: str,
    group: str,
    seen: Seen,
    cluster: LocalCluster,
) -> None:
    (broker,) = cluster.brokers.values()
    admin.create_topic(topic, queues=16)
    with (
        make(seen, offset_persist_s=0.05) as one,
        make(seen, offset_persist_s=0.05) as other,
        Load(cluster, topic) as load,
    ):
        eventually(lambda: len(_queues(one, topic)) == len(_queues(other, topic)) == 8)
        eventually(lambda: set(load.queue_ids) == set(range(16)))
        # First reduce the queues for writing, until producers have noticed ...
        admin.update_topic(topic, write_queues=8)
        eventually(lambda: max(load.queue_ids[-64:]) < 8 or bool(load.errors))
        # ... then the queues for reading, once the group has emptied the others.
        eventually(
            lambda: all(
                broker.offsets.get(topic, group, queue_id)
                == broker.store.max_offset(topic, queue_id)
                for queue_id in range(8, 16)
            )
        )
        admin.update_topic(topic, read_queues=8, shrink=True)
        eventually(lambda: sorted(_queues(one, topic) + _queues(other, topic)) == list(range(8)))
        load.wait_for(200)
        assert load.errors == []
        load.stop()
        seen.wait_for(lambda: len(set(seen.bodies)) >= len(load.sent))
        assert set(seen.bodies) == set(load.sent)
        assert len(load.sent) > 200
