"""Producers of either kind on a real cluster in this process."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from orbitmq import AsyncProducer, Message, MessageQueue, Producer, SendResult, SendStatus
from orbitmq._native import decode_messages
from orbitmq.client import background
from orbitmq.errors import BadMessage, ClientClosed, ConfigError, NoRoute
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.testing import LocalCluster
from tests.both_ways import LoopThread, way_of

Way = Callable[..., Callable[..., Any]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    thread = LoopThread()
    yield way_of(request.param, thread)
    thread.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "T-" + "".join(c if c.isalnum() else "-" for c in request.node.name)[-100:]


@pytest.fixture
def make(cluster: LocalCluster, way: Way) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []

    def make(**settings: Any) -> Producer:
        settings = {"group": "g", "timeout_ms": 10_000, **settings}
        made.append(way(Producer, AsyncProducer)(cluster.address, **settings))
        return made[-1].start()

    yield make
    for producer in made:
        producer.close()


def pull(cluster: LocalCluster, queue: MessageQueue, stored_topic: str | None = None) -> list[Any]:
    """Return all messages of a queue."""
    ext = {
        "consumerGroup": "g",
        "topic": stored_topic or queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    network = BlockingNetwork()
    address = "{}:{}".format(*cluster.brokers[queue.broker_name].host)
    response = network.invoke(address, RequestCode.PULL_MESSAGE, ext=ext)
    network.close()
    return decode_messages(response.body, queue) if response.code == 0 else []


def test_a_message_is_stored_unchanged(
    cluster: LocalCluster, make: Callable[..., Producer], topic: str
) -> None:
    producer = make()
    message = Message(topic, b"x" * 9000, tags="a", keys=["k"], properties={"shop": "Malmö"})
    result = producer.send(message)
    assert result.status is SendStatus.SEND_OK
    [stored] = pull(cluster, result.queue)
    assert stored.message_id == result.message_id
    assert stored.offset_id == result.offset_id
    assert stored.body == message.body
    assert len(stored.stored_body) < 1000
    assert (stored.tags, stored.keys) == ("a", ("k",))
    assert stored.get_property("shop") == "Malmö"


def test_keys_and_selectors_choose_the_queue(make: Callable[..., Producer], topic: str) -> None:
    producer = make()
    queues = producer.queues(topic)
    assert len(queues) == 8
    by_key = {producer.send(Message(topic, b"x"), sharding_key="c7").queue for _ in range(5)}
    assert len(by_key) == 1
    chosen = producer.send(Message(topic, b"x"), selector=lambda all, message: all[-1])
    assert chosen.queue == queues[-1]
    assert producer.send(Message(topic, b"x"), queue=queues[2]).queue == queues[2]
    with pytest.raises(BadMessage, match="only one can choose"):
        producer.send(Message(topic, b"x"), queue=queues[0], sharding_key="k")


def test_a_batch_is_in_one_queue_in_order(
    cluster: LocalCluster, make: Callable[..., Producer], topic: str
) -> None:
    producer = make()
    result = producer.send_many([Message(topic, b"%d" % number) for number in range(10)])
    stored = pull(cluster, result.queue)
    assert [message.body for message in stored] == [b"%d" % number for number in range(10)]
    assert [message.message_id for message in stored] == result.message_id.split(",")


def test_a_oneway_message_is_stored(
    cluster: LocalCluster, make: Callable[..., Producer], topic: str
) -> None:
    producer = make()
    queue = producer.send(Message(topic, b"first")).queue
    producer.send_oneway(Message(topic, b"second"), queue=queue)
    producer.send(Message(topic, b"third"), queue=queue)
    bodies = {message.body for message in pull(cluster, queue)}
    assert bodies == {b"first", b"second", b"third"}


def test_a_namespace_is_invisible_to_the_program(
    cluster: LocalCluster, make: Callable[..., Producer], topic: str
) -> None:
    producer = make(namespace="ns")
    seen: list[str] = []

    def selector(queues: Any, message: Message) -> Any:
        seen.extend({queue.topic for queue in queues})
        return queues[0]

    result = producer.send(Message(topic, b"x"), selector=selector)
    assert seen == [topic]
    assert result.queue.topic == topic
    [stored] = pull(cluster, result.queue, f"ns%{topic}")
    assert stored.get_property("INSTANCE_ID") == "ns"


def test_brokers_know_a_producer_until_it_is_closed(
    cluster: LocalCluster, make: Callable[..., Producer], topic: str
) -> None:
    producer = make(group="well-known")
    producer.send(Message(topic, b"x"))
    client_id = producer.client_id

    def known() -> bool:
        async def look() -> bool:
            brokers = cluster.brokers.values()
            return all(broker.producers.of_client(client_id) is not None for broker in brokers)

        return cluster.run(look())

    _await(known)
    producer.close()
    assert not known()


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_sending_is_refused_when_the_producer_is_not_running(
    cluster: LocalCluster, way: Way
) -> None:
    producer = way(Producer, AsyncProducer)(cluster.address, group="g")
    with pytest.raises(ClientClosed, match="is not running"):
        producer.send(Message("T", b"x"))
    producer.start()
    with pytest.raises(ClientClosed, match="started before"):
        producer.start()
    producer.close()
    producer.close()
    with pytest.raises(ClientClosed, match="is not running"):
        producer.send(Message("T", b"x"))


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_invalid_producer_settings_are_refused(kind: Any) -> None:
    with pytest.raises(ConfigError, match="not a name"):
        kind("127.0.0.1:1", group="a b")
    with pytest.raises(ConfigError, match="reserved"):
        kind("127.0.0.1:1", group="DEFAULT_PRODUCER")
    with pytest.raises(ConfigError, match="positive"):
        kind("127.0.0.1:1", group="g", timeout_ms=0)


def test_an_unreachable_nameserver_is_reported_by_the_first_send(way: Way) -> None:
    with way(Producer, AsyncProducer)("127.0.0.1:1", group="g") as producer:
        with pytest.raises(NoRoute, match="no nameserver can be reached") as caught:
            producer.send(Message("T", b"x"), timeout_ms=300)
        assert caught.value.cause == "no_nameserver"


def test_lingering_messages_are_sent_together(cluster: LocalCluster, topic: str) -> None:
    async def run() -> None:
        async with AsyncProducer(cluster.address, group="g", linger_ms=5) as producer:
            messages = [Message(topic, b"%d" % number) for number in range(20)]
            results = await asyncio.gather(*(producer.send(message) for message in messages))
            assert len({result.queue for result in results}) == 1
            assert [result.queue_offset for result in results] == list(range(20))
            stored = pull(cluster, results[0].queue)
            assert [message.body for message in stored] == [m.body for m in messages]
            assert [m.message_id for m in stored] == [r.message_id for r in results]
            # An invalid one fails alone.
            good, bad = await asyncio.gather(
                producer.send(Message(topic, b"x")),
                producer.send(Message(topic, b"")),
                return_exceptions=True,
            )
            assert isinstance(bad, BadMessage)
            assert not isinstance(good, BaseException)
            # What cannot be batched is sent alone.
            large = await producer.send(Message(topic, b"x" * 10_000))
            assert large.status is SendStatus.SEND_OK

    asyncio.run(run())


def test_threads_share_batches(cluster: LocalCluster, topic: str) -> None:
    with (
        Producer(cluster.address, group="g", linger_ms=300) as producer,
        ThreadPoolExecutor(8) as pool,
    ):
        messages = [Message(topic, b"%d" % number) for number in range(8)]
        all_there = threading.Barrier(8)

        def send(message: Message) -> SendResult:
            all_there.wait(30)
            return producer.send(message)

        results = list(pool.map(send, messages))
        assert len({result.message_id for result in results}) == 8
        assert len({result.queue for result in results}) < 8


def test_closing_sends_lingering_messages(cluster: LocalCluster, topic: str) -> None:
    async def run() -> None:
        producer = AsyncProducer(cluster.address, group="g", linger_ms=60_000)
        await producer.start()
        sends = [asyncio.create_task(producer.send(Message(topic, b"x"))) for _ in range(3)]
        await asyncio.sleep(0)
        await producer.close()
        assert [send.result().status for send in sends] == [SendStatus.SEND_OK] * 3

    asyncio.run(run())


def test_sends_in_flight_are_limited_and_cancelled_ones_make_room(
    cluster: LocalCluster, topic: str
) -> None:
    async def run() -> None:
        async with AsyncProducer(
            cluster.address, group="g", max_in_flight=50, timeout_ms=20_000
        ) as producer:
            message = Message(topic, b"x")
            sends = [asyncio.create_task(producer.send(message)) for _ in range(3000)]
            await asyncio.sleep(0)
            for send in sends[::10]:
                send.cancel()
            results = await asyncio.gather(*sends, return_exceptions=True)
            assert sum(isinstance(r, asyncio.CancelledError) for r in results) == 300
            assert len({r.message_id for r in results if not isinstance(r, BaseException)}) == 2700
            # All permits have been given back.
            assert producer._turns.free == 50

    asyncio.run(run())


@pytest.mark.parametrize("max_in_flight", [10_000, 1000], ids=["all at once", "as by default"])
def test_ten_thousand_concurrent_sends_succeed(
    cluster: LocalCluster, topic: str, max_in_flight: int
) -> None:
    async def run() -> None:
        async with AsyncProducer(
            cluster.address, group="g", max_in_flight=max_in_flight, timeout_ms=60_000
        ) as producer:
            await producer.send(Message(topic, b"first"))  # It fetches the route and connects.
            sends = [
                asyncio.create_task(producer.send(Message(topic, b"%d" % number)))
                for number in range(10_000)
            ]
            await asyncio.sleep(0)
            assert producer._turns.free == 0, "as many as may be are under way"
            results = await asyncio.gather(*sends)
            assert {result.status for result in results} == {SendStatus.SEND_OK}
            assert len({(result.queue, result.queue_offset) for result in results}) == 10_000
            assert producer._turns.free == max_in_flight

    asyncio.run(run())


def test_threads_send_at_the_same_time(cluster: LocalCluster, topic: str) -> None:
    with Producer(cluster.address, group="g", timeout_ms=10_000) as producer:
        ids: set[str] = set()

        def work() -> None:
            ids.update([producer.send(Message(topic, b"x")).message_id for _ in range(20)])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ids) == 160


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_connections_and_a_heartbeat_of_its_own(
    cluster: LocalCluster, topic: str
) -> None:
    with Producer(cluster.address, group="g", timeout_ms=10_000) as producer:
        parent = producer.send(Message(topic, b"parent"))
        before = producer.client_id
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            text = "nothing"
            try:
                result = producer.send(Message(topic, b"child"), timeout_ms=10_000)
                gc.collect()
                text = f"{result.message_id} {producer.client_id}"
                producer.close()
            except BaseException as error:
                text = repr(error)
            finally:
                os.write(writing, text.encode())
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            words = answer.read().split()
        os.waitpid(child, 0)
        assert len(words) == 2, words
        message_id, client_id = words
        assert message_id[:24] != parent.message_id[:24]
        assert client_id != before
        assert producer.send(Message(topic, b"parent again")).status is SendStatus.SEND_OK
        assert background.generation() == 0
        # The parent still receives on its own connections.
        instance = producer._instance
        assert instance is not None
        instance.broker_versions.clear()
        background.run(instance.heartbeat())
        assert len(instance.broker_versions) == 2


def test_the_first_send_does_not_wait_for_timers(cluster: LocalCluster, topic: str) -> None:
    with Producer(cluster.address, group="warm") as producer:
        producer.send(Message(topic, b"x"))
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        with Producer(cluster.address, group="g") as producer:
            producer.send(Message(topic, b"x"))
            took.append(time.perf_counter() - begin)
    assert min(took) < 0.5, "the shortest of the client's timers is a second"


def test_blocking_and_asyncio_producers_have_the_same_methods() -> None:
    for name, method in vars(Producer).items():
        if name.startswith("_") or not callable(method):
            continue
        twin = getattr(AsyncProducer, name)
        assert inspect.signature(method) == inspect.signature(twin), name
        assert inspect.iscoroutinefunction(twin)
        assert (method.__doc__ or "").splitlines()[0] == (twin.__doc__ or "").splitlines()[0]
    assert inspect.signature(Producer) == inspect.signature(AsyncProducer)
