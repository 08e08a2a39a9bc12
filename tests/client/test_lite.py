"""Polling consumers: iterating, polling, seeking, pausing, committing; and plain pulls."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import Admin
from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
from orbitmq.client.consumer.pull import AsyncPullConsumer, PullConsumer
from orbitmq.errors import ClientClosed, ClientError, ConfigError
from orbitmq.message import MessageQueue, PullStatus
from orbitmq.testing import LocalCluster
from tests.client.conftest import LIMIT_S, eventually

Make = Callable[..., Any]


@pytest.fixture
def make(way: Any, cluster: LocalCluster, group: str) -> Make:
    def make(*topics: str, **options: Any) -> Any:
        options = {"group": group, "consume_from": "first", "rebalance_s": 1} | options
        return way(Consumer, AsyncConsumer)(cluster.address, *topics, **options)

    return make


def _take(consumer: Any, count: int) -> list[str]:
    return [message.body.decode() for message in itertools.islice(consumer, count)]


def _until(consumer: Any, body: bytes) -> Iterator[Any]:
    for message in consumer:
        yield message
        if message.body == body:
            return


def _committed(cluster: LocalCluster, group: str, topic: str) -> int:
    (broker,) = cluster.brokers.values()
    return sum(broker.offsets.of_group(topic, group).values())


def test_messages_are_iterated_one_by_one(
    make: Make, send: Any, topic: str, group: str, cluster: LocalCluster
) -> None:
    bodies = [str(number) for number in range(50)]
    send(*bodies)
    with make(topic) as consumer:
        # Two consecutive loops lose nothing in between.
        assert sorted(_take(consumer, 20) + _take(consumer, 30)) == sorted(bodies)
    assert _committed(cluster, group, topic) == 50


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_a_message_comes_again_when_the_loop_fails(
    make: Make, send: Any, topic: str, failure: type[BaseException]
) -> None:
    send("a")
    send("b", "c", queue=MessageQueue(topic, "broker-a", 0))
    done = []
    with pytest.raises(failure), make(topic) as consumer:  # noqa: PT012
        for number, message in enumerate(consumer):
            if number == 2:
                raise failure
            done.append(message.body.decode())
    with make(topic) as consumer:
        (again,) = _take(consumer, 1)
        assert sorted([*done, again]) == ["a", "b", "c"]


def test_messages_are_polled_in_lists(
    make: Make, send: Any, topic: str, group: str, cluster: LocalCluster
) -> None:
    send(*map(str, range(100)))
    got: list[str] = []
    with make(topic) as consumer:
        while len(got) < 100:
            messages = consumer.poll(7, timeout_s=LIMIT_S)
            assert 1 <= len(messages) <= 7
            got += [message.body.decode() for message in messages]
        assert consumer.poll(7, timeout_s=0.05) == []
    assert sorted(got, key=int) == list(map(str, range(100)))
    assert _committed(cluster, group, topic) == 100


def test_iterating_and_polling_can_be_mixed(make: Make, send: Any, topic: str) -> None:
    send(*map(str, range(60)))
    got: list[str] = []
    with make(topic) as consumer:
        while len(got) < 60:
            got += _take(consumer, 1)
            if len(got) < 60:
                got += [m.body.decode() for m in consumer.poll(3)]
    assert sorted(got, key=int) == list(map(str, range(60)))


def test_offsets_are_committed_only_by_hand_without_auto_commit(
    make: Make, send: Any, topic: str, group: str, cluster: LocalCluster
) -> None:
    send("x")
    send(*map(str, range(10)), queue=MessageQueue(topic, "broker-a", 1))
    options: dict[str, Any] = {"auto_commit": False, "offset_persist_s": 0.05}
    with make(topic, **options) as consumer:
        assert len(_take(consumer, 11)) == 11
        time.sleep(0.2)
        assert _committed(cluster, group, topic) == 0
    assert _committed(cluster, group, topic) == 0
    with make(topic, **options) as consumer:
        assert len(_take(consumer, 6)) == 6
        consumer.commit()
        assert _committed(cluster, group, topic) == 6
        queue = MessageQueue(topic, "broker-a", 1)
        consumer.commit({queue: 3})
        assert consumer.committed(queue) == 3
    assert _committed(cluster, group, topic) in (3, 4)


def test_an_assigned_queue_can_be_sought(make: Make, send: Any, topic: str) -> None:
    send("x")
    queue = MessageQueue(topic, "broker-a", 2)
    send(*map(str, range(10)), queue=queue)
    with make() as consumer:
        assert queue in consumer.queues(topic)
        consumer.assign([queue])
        eventually(lambda: consumer.assignment == [queue])
        end = consumer.end_offset(queue)
        assert end - consumer.begin_offset(queue) in (10, 11)
        first = end - 10
        consumer.seek(queue, first + 7)
        assert _take(consumer, 3) == ["7", "8", "9"]
        consumer.seek(queue, first + 2)
        assert _take(consumer, 2) == ["2", "3"]
        assert consumer.position(queue) <= first + 4
        consumer.commit()
        assert consumer.position(queue) == first + 4
        consumer.seek_to_begin(queue)
        assert len(_take(consumer, 5)) == 5
        consumer.seek_to_end(queue)
        send("new", queue=queue)
        assert _take(consumer, 1) == ["new"]
        consumer.seek(queue, first)
        bodies = []
        for message in consumer:
            bodies.append(message.body.decode())
            if bodies == ["0", "1"]:
                consumer.seek(queue, first + 8)
            if message.body == b"9":
                break
        assert bodies == ["0", "1", "8", "9"]
        with pytest.raises(ClientError, match="has offsets from"):
            consumer.seek(queue, 10**9)
        with pytest.raises(ClientError, match="not among"):
            consumer.seek(MessageQueue(topic, "broker-a", 3), 0)
        with pytest.raises(ConfigError, match="either"):
            consumer.subscribe(topic)


def test_a_queue_can_be_sought_to_a_time(make: Make, send: Any, topic: str) -> None:
    send("x")
    queue = MessageQueue(topic, "broker-a", 0)
    send("old", queue=queue)
    time.sleep(0.1)
    send("new", queue=queue)
    with make() as consumer:
        consumer.assign([queue])
        stored = {message.body: message.store_timestamp for message in _until(consumer, b"new")}
        assert stored[b"new"] - stored[b"old"] >= 100
        # Brokers return the nearest message, as Java's do.
        for time_ms, found in ((stored[b"new"] - 40, "new"), (stored[b"old"] + 40, "old")):
            consumer.seek(queue, consumer.offset_for_time(queue, time_ms))
            assert _take(consumer, 1) == [found]


def test_a_paused_queue_returns_no_messages(
    make: Make, send: Any, topic: str, cluster: LocalCluster
) -> None:
    send("x")
    queue = MessageQueue(topic, "broker-a", 0)
    with make() as consumer:
        consumer.assign([queue])
        consumer.seek_to_end(queue)
        (broker,) = cluster.brokers.values()
        eventually(lambda: broker.held.is_waited_for(topic, queue.queue_id))
        consumer.pause(queue)
        send("held", queue=queue)
        assert consumer.poll(timeout_s=0.3) == []
        consumer.resume(queue)
        assert _take(consumer, 1) == ["held"]


def test_tags_filter_messages(make: Make, send: Any, topic: str) -> None:
    send("no", tags="b")
    send("yes", tags="a")
    with make(topic, tags="a") as consumer:
        assert _take(consumer, 1) == ["yes"]


def test_iterating_alone_starts_and_stops_the_consumer(make: Make, send: Any, topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    send("x")
    send("a", "b", "c", queue=queue)
    consumer = make(topic)
    bodies: list[bytes] = []
    messages = iter(consumer)
    while len(bodies) < 3:
        bodies.append(next(messages).body)
    assert consumer.is_running
    if isinstance(consumer, Consumer):
        messages.close()
    else:
        consumer.stop(last_is_done=False)
    eventually(lambda: not consumer.is_running)
    with pytest.raises(ClientClosed):
        consumer.poll(1)
    with make(topic) as again:
        (first,) = _take(again, 1)
        assert first.encode() not in bodies[:2]


def test_two_members_share_the_queues(make: Make, send: Any, topic: str) -> None:
    send("x")
    with make(topic) as one, make(topic) as two:
        eventually(lambda: len(one.assignment) == len(two.assignment) == 2)
        assert set(one.assignment).isdisjoint(two.assignment)


def test_unsubscribing_clears_the_assignment(make: Make, send: Any, topic: str) -> None:
    send("x")
    with make(topic) as consumer:
        eventually(lambda: len(consumer.assignment) == 4)
        consumer.unsubscribe(topic)
        assert consumer.assignment == []


def test_changed_queues_are_reported_to_the_callback(
    make: Make, way: Any, cluster: LocalCluster, topic: str, group: str
) -> None:
    told: list[list[MessageQueue]] = []
    with Admin(cluster.address) as admin:
        admin.create_topic(topic, queues=2)
        admin.create_topic(f"{topic}-other", queues=1)
        consumer = make(group=group, route_refresh_s=0.05)
        consumer.on_queues_changed(topic, told.append)  # Before the start.
        with consumer:
            consumer.on_queues_changed(f"{topic}-other", told.append)
            consumer.assign(consumer.queues(topic))
            admin.update_topic(topic, queues=3)
            eventually(lambda: len(told) == 1)
            assert told[0] == [MessageQueue(topic, "broker-a", number) for number in range(3)]
            consumer.assign(told[0])
            assert len(consumer.assignment) == 3
            admin.update_topic(f"{topic}-other", queues=2)
            eventually(lambda: len(told) == 2)
            assert {queue.topic for queue in told[1]} == {f"{topic}-other"}


def test_polling_is_refused_when_the_consumer_is_not_running(make: Make, topic: str) -> None:
    consumer = make(topic)
    with pytest.raises(ClientClosed):
        consumer.poll(1)
    with pytest.raises(ConfigError):
        make(topic, tags="||")


# ---- Plain pulls


def test_a_pull_returns_messages_and_the_next_offset(
    way: Any, cluster: LocalCluster, group: str, send: Any, topic: str
) -> None:
    send("x")
    queue = MessageQueue(topic, "broker-a", 1)
    send(*map(str, range(5)), queue=queue)
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group) as consumer:
        assert len(consumer.queues(topic)) == 4
        end = consumer.end_offset(queue)
        result = consumer.pull(queue, end - 5, 3)
        assert (result.status, [m.body for m in result.messages]) == (
            PullStatus.FOUND,
            [b"0", b"1", b"2"],
        )
        assert result.next_offset == end - 2
        assert {m.topic for m in result.messages} == {topic}
        nothing = consumer.pull(queue, end)
        assert nothing.status is PullStatus.NO_NEW_MESSAGE
        assert (nothing.messages, nothing.next_offset) == ([], end)
        unwanted = consumer.pull(queue, end - 5, tags="none")
        assert unwanted.status is PullStatus.NO_MATCHED_MESSAGE
        assert (unwanted.messages, unwanted.next_offset) == ([], end)
        assert consumer.pull(queue, end + 100).status is PullStatus.OFFSET_ILLEGAL
        consumer.commit({queue: end - 1})
        assert consumer.committed(queue) == end - 1
        assert consumer.offset_for_time(queue, 0) == consumer.begin_offset(queue) == 0
        with pytest.raises(ConfigError):
            consumer.pull(queue, -1)


def test_a_blocking_pull_waits_for_a_message(
    way: Any, cluster: LocalCluster, group: str, send: Any, topic: str
) -> None:
    send("x")
    queue = MessageQueue(topic, "broker-a", 0)
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group) as consumer:
        end = consumer.end_offset(queue)
        sender = threading.Timer(0.2, send, ["late"], {"queue": queue})
        sender.start()
        result = consumer.pull(queue, end, block=True)
        sender.join()
        assert [m.body for m in result.messages] == [b"late"]


def test_a_pulled_message_can_be_sent_back(
    way: Any, cluster: LocalCluster, group: str, send: Any, topic: str
) -> None:
    send("bad")
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group=group) as consumer:
        (message,) = [
            message
            for queue in consumer.queues(topic)
            for message in consumer.pull(queue, 0).messages
        ]
        consumer.send_back(message, delay_level=1)
        (broker,) = cluster.brokers.values()
        eventually(lambda: broker.store.max_offset(f"%RETRY%{group}", 0) == 1)
