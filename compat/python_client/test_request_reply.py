"""Request and reply: brokers push a reply on the requester's connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import Java, Way, await_true
from orbitmq._native import ReceivedMessage, decode_messages
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.request_reply import reply_to
from orbitmq.errors import BadMessage, NoReply
from orbitmq.message import Message, MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.rpc.drivers import run_sync as blocking
from orbitmq.rpc.route_table import RouteTable
from orbitmq.rpc.routes import route_or_diagnose


class Shop:
    """Pulls requests from a topic and replies to them."""

    def __init__(
        self, address: str, topic: str, reply: Callable[[ReceivedMessage], Message | None]
    ) -> None:
        self._network = BlockingNetwork()
        self._producer = Producer(address, group=f"shop-{topic}").start()
        self._routes = RouteTable((address,))
        self._topic = topic
        self._reply = reply
        self._stopped = threading.Event()
        self.failures: list[Exception] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        route = blocking.perform(route_or_diagnose(self._routes, self._topic), self._network)
        offsets = dict.fromkeys(route.subscribe_queues, 0)
        while not self._stopped.is_set():
            for queue, offset in offsets.items():
                messages = self._pull(queue, offset)
                offsets[queue] += len(messages)
                for message in messages:
                    try:
                        reply = self._reply(message)
                        if reply is not None:
                            self._producer.send(reply)
                    except Exception as error:
                        self.failures.append(error)

    def _pull(self, queue: MessageQueue, offset: int) -> list[ReceivedMessage]:
        address = self._routes.master(queue.broker_name)
        assert address is not None
        ext = {
            "consumerGroup": f"shop-{self._topic}",
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        response = self._network.invoke(address, RequestCode.PULL_MESSAGE, ext=ext)
        return decode_messages(response.body, queue) if response.code == 0 else []

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.close()
        self._network.close()


@pytest.fixture
def open_shop(cluster: Cluster, topic: str) -> Iterator[Callable[..., Shop]]:
    shops: list[Shop] = []

    def start(reply: Callable[[ReceivedMessage], Message | None]) -> Shop:
        shops.append(Shop(cluster.address, topic, reply))
        return shops[-1]

    yield start
    for shop in shops:
        shop.close()


@pytest.fixture
def producer(cluster: Cluster, way: Way, group: str) -> Iterator[Producer]:
    with way(Producer, AsyncProducer)(cluster.address, group=group, timeout_ms=10_000) as producer:
        yield producer


def test_a_reply_comes_back(producer: Producer, topic: str, open_shop: Callable[..., Shop]) -> None:
    shop = open_shop(lambda request: reply_to(request, b"price of " + request.body, tags="price"))
    for fruit in (b"apple", b"pear"):
        reply = producer.request(Message(topic, fruit, keys=["k"]), timeout_ms=15_000)
        assert reply.body == b"price of " + fruit
        assert reply.tags == "price"
    assert not shop.failures


def test_a_large_reply_comes_back_unchanged(
    producer: Producer, topic: str, open_shop: Callable[..., Shop]
) -> None:
    body = bytes(range(256)) * 1000
    open_shop(lambda request: reply_to(request, body))
    assert producer.request(Message(topic, b"all of it"), timeout_ms=15_000).body == body


def test_a_request_without_a_reply_times_out(producer: Producer, topic: str) -> None:
    with pytest.raises(NoReply, match="no reply came within 300 ms"):
        producer.request(Message(topic, b"hello?"), timeout_ms=300)


def test_an_ordinary_message_cannot_be_replied_to(
    producer: Producer, topic: str, open_shop: Callable[..., Shop]
) -> None:
    shop = open_shop(lambda request: reply_to(request, b"you did not ask"))
    producer.send(Message(topic, b"statement"))
    await_true("somebody tries to reply", lambda: shop.failures)
    assert [type(error) for error in shop.failures] == [BadMessage]


def test_our_reply_reaches_a_java_requester(
    java: Java, topic: str, open_shop: Callable[..., Shop]
) -> None:
    shop = open_shop(lambda request: reply_to(request, b"re: " + request.body))
    assert java("ask", topic=topic, count=5) == 5
    assert not shop.failures


def test_a_java_reply_reaches_our_requester(
    producer: Producer, java: Java, topic: str, group: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        replying = pool.submit(java, "reply", topic=topic, group=f"{group}-java", count=5)
        for number in range(5):
            asked = f"question {number}".encode()
            reply = producer.request(Message(topic, asked), timeout_ms=30_000)
            assert reply.body == b"re: " + asked
        assert sorted(replying.result(30)) == [f"question {number}" for number in range(5)]
