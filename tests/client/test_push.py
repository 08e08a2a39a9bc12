"""Push consumers against brokers: complete delivery, retries, and commits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import Admin, Message, OrderlyStatus, Producer
from orbitmq.client.consumer.handlers import RetryLater
from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.errors import ClientClosed, ConfigError
from orbitmq.message import MessageQueue
from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.testing import LocalCluster
from tests.client.conftest import LIMIT_S, Seen, eventually

Make = Callable[..., Any]


@pytest.fixture
def make(way: Any, cluster: LocalCluster, group: str) -> Make:
    """Create a consumer of either kind, with a plain function as its handler."""

    def make(topic: str, function: Callable[[Any], Any], **options: Any) -> Any:
        of_topic = ("tags", "orderly", "batch", "auto_commit")
        how = {name: options.pop(name) for name in of_topic if name in options}
        options = {"group": group, "consume_from": "first", "rebalance_s": 1} | options
        consumer = way(PushConsumer, AsyncPushConsumer)(cluster.address, **options)
        if way.kind == "async":

            async def handle(message: Any) -> Any:
                return function(message)

            consumer._target.on(topic, **how)(handle)
        else:
            consumer.on(topic, **how)(function)
        return consumer

    return make


def _committed(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    (broker,) = cluster.brokers.values()
    return broker.offsets.of_group(topic, group)


def test_messages_arrive_and_are_committed(
    make: Make, send: Any, topic: str, group: str, seen: Seen, cluster: LocalCluster
) -> None:
    bodies = [str(number) for number in range(40)]
    ids = send(*bodies[:20])
    with make(topic, seen):
        send(*bodies[20:])
        assert sorted(seen.wait(40)) == sorted(bodies)
    assert len(seen.messages) == 40
    assert {m.topic for m in seen.messages} == {topic}
    assert set(ids) <= {m.message_id for m in seen.messages}
    assert sum(_committed(cluster, group, topic).values()) == 40


def test_a_restarted_consumer_continues_where_it_ended(
    make: Make, send: Any, topic: str, seen: Seen
) -> None:
    send("a", "b")
    with make(topic, seen):
        seen.wait(2)
    send("c")
    again = Seen()
    with make(topic, again):
        assert again.wait(1) == ["c"]


def test_tags_filter_messages(make: Make, send: Any, topic: str, seen: Seen) -> None:
    send("yes", tags="a")
    send("no", tags="c")
    send("also", tags="b")
    send("untagged")
    with make(topic, seen, tags="a || b"):
        seen.wait(2)
        send("last", tags="a")
        assert sorted(seen.wait(3)) == ["also", "last", "yes"]


def test_a_failed_message_comes_again(
    make: Make, send: Any, topic: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(message: Any) -> None:
        seen(message)
        if message.body == b"bad" and message.reconsume_times == 0:
            raise ValueError("not yet")

    (message_id,) = send("bad")
    with make(topic, handle):
        seen.wait_for(lambda: seen.bodies.count("bad") == 2)
    first, second = seen.messages
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert second.topic == topic
    assert second.stored_topic.startswith("%RETRY%")
    assert second.message_id == message_id
    (line,) = [record for record in caplog.records if "failed on message" in record.message]
    assert message_id in line.message
    assert line.exc_info is not None


@pytest.mark.parametrize("orderly", [False, True], ids=["any order", "in order"])
def test_an_exit_or_cancellation_in_a_handler_is_an_ordinary_failure(
    way: Any, make: Make, producer: Producer, send: Any, topic: str, seen: Seen, orderly: bool
) -> None:
    # A handler may call `sys.exit` indirectly, or await a task that was cancelled elsewhere.
    failure = asyncio.CancelledError if way.kind == "async" else SystemExit

    def handle(message: Any) -> None:
        seen(message)
        if message.body == b"bad" and message.reconsume_times == 0:
            raise failure

    send("first")
    queue = producer.queues(topic)[0]
    send("bad", "good", queue=queue)
    with make(topic, handle, orderly=orderly, concurrency=1, suspend_ms=10):
        seen.wait_for(lambda: seen.bodies.count("bad") == 2 and "good" in seen.bodies)


def test_a_message_becomes_a_dead_letter_after_too_many_failures(
    make: Make, send: Any, topic: str, group: str, seen: Seen, cluster: LocalCluster
) -> None:
    def handle(message: Any) -> None:
        seen(message)
        raise ValueError("never")

    (message_id,) = send("bad")
    with make(topic, handle, max_reconsume_times=1):
        seen.wait(2)
        dead = Seen()
        other = PushConsumer(cluster.address, group=f"{group}-dead", consume_from="first")
        other.on(f"%DLQ%{group}")(dead)
        with other:
            dead.wait(1)
    assert dead.messages[0].message_id == message_id
    assert len(seen.messages) == 2


def test_a_handler_can_make_a_dead_letter_at_once(
    make: Make, send: Any, topic: str, group: str, seen: Seen, cluster: LocalCluster
) -> None:
    def handle(message: Any) -> None:
        seen(message)
        raise RetryLater.dead_letter("no such customer")

    send("bad")
    (broker,) = cluster.brokers.values()
    with make(topic, handle):
        seen.wait(1)
        eventually(lambda: broker.store.max_offset(f"%DLQ%{group}", 0) == 1)
    assert len(seen.messages) == 1


def test_a_handler_receives_batches(
    make: Make, send: Any, topic: str, cluster: LocalCluster, group: str
) -> None:
    batches: list[list[Any]] = []
    every = Seen()

    def handle(messages: list[Any]) -> None:
        batches.append(messages)
        for message in messages:
            every(message)

    send(*map(str, range(50)))
    with make(topic, handle, batch=8):
        every.wait(50)
    assert max(map(len, batches)) == 8
    assert sum(_committed(cluster, group, topic).values()) == 50


def test_only_the_failed_part_of_a_batch_comes_again(
    make: Make, send: Any, topic: str, seen: Seen
) -> None:
    def handle(messages: list[Any]) -> None:
        for message in messages:
            seen(message)
        bad = [m for m in messages if m.body == b"bad" and m.reconsume_times == 0]
        if bad:
            raise RetryLater(messages=bad, delay_level=1)

    send("good", "bad", "fine")
    with make(topic, handle, batch=10):
        seen.wait(4)
    assert sorted(seen.bodies) == ["bad", "bad", "fine", "good"]


def test_order_is_kept_through_failures(make: Make, send: Any, topic: str, seen: Seen) -> None:
    failures: list[int] = []

    def handle(message: Any) -> None:
        if message.body == b"5" and len(failures) < 3:
            failures.append(message.reconsume_times)
            raise ValueError("wait")
        seen(message)

    send("0")
    queue = MessageQueue(topic, "broker-a", 1)
    send(*map(str, range(1, 20)), queue=queue)
    with make(topic, handle, orderly=True, suspend_ms=20):
        seen.wait(20)
    in_queue = [m.body.decode() for m in seen.messages if m.queue_id == queue.queue_id]
    expected = [str(n) for n in range(20) if str(n) in in_queue]
    assert in_queue == expected
    assert failures == [0, 1, 2]


def test_an_ordered_message_becomes_a_dead_letter_after_its_retries(
    make: Make, send: Any, topic: str, group: str, seen: Seen, cluster: LocalCluster
) -> None:
    def handle(message: Any) -> None:
        seen(message)
        if message.body == b"bad":
            raise ValueError("never")

    send("begin")
    (broker,) = cluster.brokers.values()
    with (
        make(topic, handle, orderly=True, suspend_ms=20, max_reconsume_times=2),
        Admin(cluster.address) as admin,
    ):
        # Without a route of the retry topic the message would be retried here once more.
        eventually(lambda: f"%RETRY%{group}" in admin.topic_names())
        send("bad")
        seen.wait(4)
        eventually(lambda: broker.store.max_offset(f"%DLQ%{group}", 0) == 1)
        send("good")
        seen.wait_for(lambda: "good" in seen.bodies)
    assert seen.bodies.count("bad") == 3


def test_two_members_share_the_queues(make: Make, send: Any, topic: str, seen: Seen) -> None:
    send("first")
    other = Seen()
    with make(topic, seen) as one, make(topic, other) as two:
        eventually(lambda: _queue_count(one, topic) == 2 and _queue_count(two, topic) == 2)
        # The first may have been handled by both: its queue can move before that is committed.
        numbers = {str(number) for number in range(16)}
        send(*numbers)
        eventually(lambda: numbers <= {*seen.bodies, *other.bodies})
        queues_of_one, queues_of_two = (
            {m.queue_id for m in own.messages if m.body.decode() in numbers}
            for own in (seen, other)
        )
        assert queues_of_one.isdisjoint(queues_of_two)
        two.stop()
        eventually(lambda: _queue_count(one, topic) == 4)
        send("after")
        seen.wait_for(lambda: "after" in seen.bodies)


def _queue_count(consumer: Any, topic: str) -> int:
    return sum(queue.topic == topic for queue in list(consumer._member.queues))


def test_every_member_receives_a_broadcast(
    make: Make, send: Any, topic: str, tmp_path: Any, seen: Seen
) -> None:
    other = Seen()
    options: dict[str, Any] = {"broadcast": True, "offset_directory": tmp_path}
    send("0")
    with (
        make(topic, seen, **options, instance_name="one"),
        make(topic, other, **options, instance_name="two"),
    ):
        send("1", "2", "3")
        assert sorted(seen.wait(4)) == sorted(other.wait(4)) == ["0", "1", "2", "3"]
    send("4")
    again = Seen()
    with make(topic, again, **options, instance_name="one"):
        assert again.wait(1) == ["4"]


def test_stopping_commits_only_finished_messages(
    make: Make, send: Any, topic: str, group: str, cluster: LocalCluster
) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def handle(message: Any) -> None:
        if message.body == b"slow":
            begun.set()
            assert go_on.wait(20)
        done.append(message.body)

    queue = MessageQueue(topic, "broker-a", 0)
    send("x")  # Create the topic.
    send("a", "b", "slow", "c", "d", queue=queue)
    consumer = make(topic, handle, concurrency=1)
    if isinstance(consumer, PushConsumer):
        consumer.start()
        assert begun.wait(20)
        member = consumer._member
        assert member is not None
        stopping = threading.Thread(target=consumer.stop)
        stopping.start()
        eventually(lambda: all(cache.is_stopped for cache in member.queues.values()))
        go_on.set()
        stopping.join()
        assert b"slow" in done
        rest = Seen()
        with make(topic, rest):
            left = {b"a", b"b", b"slow", b"c", b"d", b"x"} - set(done)
            assert left
            rest.wait(len(left))
            assert {m.body for m in rest.messages} >= left
            assert b"slow" not in {m.body for m in rest.messages}


def test_a_slow_handler_does_not_fill_memory(make: Make, send: Any, topic: str) -> None:
    gate = threading.Event()
    seen = Seen()

    def handle(message: Any) -> None:
        seen(message)
        gate.wait(20)

    send(*map(str, range(200)))
    options = {"max_cached_messages": 10, "pull_batch_size": 8, "concurrency": 2}
    consumer = make(topic, handle, **options)
    if not isinstance(consumer, PushConsumer):
        return  # A coroutine that blocks its loop is a mistake of the program.
    with consumer:
        seen.wait(2)
        eventually(lambda: all(c.count > 0 for q, c in _caches(consumer, topic)))
        time.sleep(0.2)
        assert all(cache.count <= 10 + 8 for _, cache in _caches(consumer, topic))
        gate.set()
        seen.wait(200)


def _caches(consumer: Any, topic: str) -> list[tuple[MessageQueue, Any]]:
    return [(q, c) for q, c in list(consumer._member.queues.items()) if q.topic == topic]


def test_slow_messages_are_spread_over_the_threads(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    changed, active, most = threading.Condition(), 0, 0
    seen = Seen()

    def handle(message: Any) -> None:
        nonlocal active, most
        with changed:
            active += 1
            most = max(most, active)
            changed.notify_all()
            if message.body not in (b"0", b"1"):
                # As slow as needed: until eight run, however late their threads begin.
                changed.wait_for(lambda: most >= 8, LIMIT_S)
        if message.body == b"1":
            time.sleep(0.05)  # It shows that the handler has become slow.
        with changed:
            active -= 1
        seen(message)

    send("0")
    send(*map(str, range(1, 41)), queue=MessageQueue(topic, "broker-a", 2))
    consumer = PushConsumer(cluster.address, group=group, consume_from="first", concurrency=12)
    consumer.on(topic)(handle)
    with consumer:
        seen.wait(41)
    assert 8 <= most <= 12


def test_a_handler_can_stop_its_consumer(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    consumer = PushConsumer(cluster.address, group=group, consume_from="first")

    @consumer.on(topic)
    def handle(_message: Any) -> None:
        consumer.stop()

    send("enough")
    consumer.run()
    assert not consumer.is_running


def test_a_running_consumer_can_subscribe_and_unsubscribe(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    seen = Seen()
    consumer = PushConsumer(cluster.address, group=group, consume_from="first")
    consumer.on("nothing-here")(seen)
    with consumer:
        send("late")
        consumer.on(topic)(seen)
        assert seen.wait(1) == ["late"]
        consumer.unsubscribe(topic)
        assert _queue_count(consumer, topic) == 0


def test_consumed_messages_are_traced(
    make: Make, send: Any, topic: str, group: str, seen: Seen, cluster: LocalCluster
) -> None:
    def handle(message: Any) -> None:
        seen(message)
        if message.reconsume_times == 0:
            raise ValueError("once")

    (message_id,) = send("traced")
    trace_topic = f"trace-{group}"
    with make(topic, handle, trace=trace_topic):
        seen.wait(2)
    with Consumer(cluster.address, trace_topic, group=f"{group}-t", consume_from="first") as traces:
        text = b""
        while text.count(b"SubAfter") < 2:
            text += b"".join(message.body for message in traces.poll(timeout_s=10))
    records = [record.split("\x01") for record in text.decode().split("\x02") if record]
    # The two messages that hold them may come from two queues.
    before = sorted((f for f in records if f[0] == "SubBefore"), key=lambda fields: fields[6])
    after = sorted((f for f in records if f[0] == "SubAfter"), key=lambda fields: fields[4])
    assert [(fields[3], fields[5], fields[6]) for fields in before] == [
        (group, message_id, "0"),
        (group, message_id, "1"),
    ]
    assert [(fields[2], fields[4], fields[6]) for fields in after] == [
        (message_id, "false", "2"),
        (message_id, "true", "0"),
    ]
    assert [fields[4] for fields in before] == [fields[1] for fields in after]


def test_a_namespace_is_invisible_to_the_handler(
    way: Any, cluster: LocalCluster, topic: str, group: str
) -> None:
    seen = Seen()

    def handle(message: Any) -> None:
        seen(message)
        if message.reconsume_times == 0:
            raise ValueError("once")

    options: dict[str, Any] = {"group": group, "namespace": "shop", "consume_from": "first"}
    consumer = PushConsumer(cluster.address, **options)
    consumer.on(topic)(handle)
    with Producer(cluster.address, group="p", namespace="shop") as producer, consumer:
        producer.send(Message(topic, b"x"))
        seen.wait(2)
        (broker,) = cluster.brokers.values()
        assert broker.store.max_offset(f"%RETRY%shop%{group}", 0) == 1
    assert [m.topic for m in seen.messages] == [topic, topic]
    assert [m.queue.topic for m in seen.messages] == [topic, f"%RETRY%{group}"]
    options["group"] = f"{group}-reader"
    with way(Consumer, AsyncConsumer)(cluster.address, topic, **options) as reader:
        (message,) = reader.poll()
        assert message.topic == message.queue.topic == topic
        assert {queue.topic for queue in reader.assignment} == {topic}


def test_a_message_is_sent_back_when_its_handler_is_stuck(
    cluster: LocalCluster, send: Any, topic: str, group: str
) -> None:
    stuck, seen = threading.Event(), Seen()

    def handle(message: Any) -> None:
        seen(message)
        if message.reconsume_times == 0:
            stuck.wait(30)

    send("x")
    (broker,) = cluster.brokers.values()
    third_level = (SCHEDULE_TOPIC, 2)
    delayed = broker.store.max_offset(*third_level)
    consumer = PushConsumer(
        cluster.address, group=group, consume_from="first", consume_timeout_s=0.2
    )
    consumer.on(topic)(handle)
    with consumer:
        seen.wait(2)
        stuck.set()
    assert broker.store.max_offset(*third_level) == delayed + 1, "it waits at delay level 3"
    assert sum(broker.offsets.of_group(topic, group).values()) == 1


def test_invalid_handlers_and_subscriptions_are_refused() -> None:
    with pytest.raises(ConfigError, match="no handlers"):
        PushConsumer("127.0.0.1:1", group="g").start()
    consumer = PushConsumer("127.0.0.1:1", group="g")
    with pytest.raises(ConfigError, match="AsyncPushConsumer"):

        @consumer.on("T")
        async def handle(_message: Any) -> None: ...

    with pytest.raises(ConfigError, match="PushConsumer"):
        AsyncPushConsumer("127.0.0.1:1", group="g").on("T")(print)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="batch"):
        consumer.on("T", batch=0)(print)
    with pytest.raises(ConfigError, match="illegal characters"):
        consumer.on("a b")(print)
    with pytest.raises(ClientClosed):
        consumer.suspend()


# ---- Commits by hand


def test_an_ordered_handler_commits_by_hand(
    make: Make,
    producer: Producer,
    send: Any,
    topic: str,
    group: str,
    seen: Seen,
    cluster: LocalCluster,
) -> None:
    send("0")
    queue = producer.queues(topic)[0]
    send(*"123456", queue=queue)
    rolled_back: list[bytes] = []

    def handle(message: Any) -> OrderlyStatus | None:
        if message.queue != queue:
            return OrderlyStatus.COMMIT
        seen(message)
        if message.body == b"4" and not rolled_back:
            rolled_back.append(message.body)
            return OrderlyStatus.ROLLBACK
        return OrderlyStatus.COMMIT if message.body in b"25" else None

    with make(topic, handle, orderly=True, auto_commit=False, suspend_ms=20):
        seen.wait_for(lambda: seen.bodies[-1:] == ["6"])
    numbers = [body for body in seen.bodies if body != "0"]
    assert numbers == list("12343456"), "a rollback goes back to the last commit"
    offsets = [message.queue_offset for message in seen.messages if message.body == b"5"]
    assert _committed(cluster, group, topic)[queue.queue_id] == offsets[0] + 1
    again = Seen()
    with make(topic, again, orderly=True):
        assert again.wait(1) == ["6"], "what was not committed comes again"


def test_a_failure_does_not_repeat_kept_messages(
    make: Make, producer: Producer, send: Any, topic: str, group: str, seen: Seen
) -> None:
    send("first")
    queue = producer.queues(topic)[0]
    send("a", "b", "c", queue=queue)

    def handle(message: Any) -> OrderlyStatus | None:
        seen(message)
        if message.body == b"b" and message.reconsume_times == 0:
            raise ValueError("not yet")
        return OrderlyStatus.COMMIT if message.body == b"c" else None

    with make(topic, handle, orderly=True, auto_commit=False, suspend_ms=20):
        seen.wait_for(lambda: "c" in seen.bodies)
    assert [body for body in seen.bodies if body != "first"] == ["a", "b", "b", "c"]


def test_auto_commit_false_is_refused_without_orderly(make: Make, topic: str, seen: Seen) -> None:
    with pytest.raises(ConfigError, match="auto_commit=False needs orderly=True"):
        make(topic, seen, auto_commit=False)
