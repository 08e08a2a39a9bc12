"""Enqueued messages: each has a future, none needs a task or a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbitmq import AsyncProducer, Message, Producer, SendStatus
from orbitmq.client.producer import batcher
from orbitmq.errors import BadMessage, BrokerRefused, ClientClosed, ConfigError
from orbitmq.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def messages(topic: str, count: int) -> list[Message]:
    return [Message(topic, b"%d" % number) for number in range(count)]


def flush(producer: Producer) -> None:
    """Send all lingering batches now."""
    own = producer._batcher
    assert own is not None
    own._loop.call_soon_threadsafe(own._batcher.flush)


def test_every_message_has_its_own_result(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with AsyncProducer(cluster.address, group="g", linger_ms=1) as producer:
            futures = [await producer.enqueue(m) for m in messages("own", 2500)]
            results = await asyncio.gather(*futures)
            assert len({result.message_id for result in results}) == 2500
            assert len({(r.queue, r.queue_offset) for r in results}) == 2500
            assert all(result.status is SendStatus.SEND_OK for result in results)

    asyncio.run(run())


def test_every_message_of_several_threads_has_its_own_result(cluster: LocalCluster) -> None:
    with (
        Producer(cluster.address, group="g", linger_ms=1) as producer,
        ThreadPoolExecutor(4) as pool,
    ):
        futures = list(pool.map(producer.enqueue, messages("threads", 2500)))
        results = [future.result(30) for future in futures]
        assert len({(r.queue, r.queue_offset) for r in results}) == 2500


BAD = [
    pytest.param(Message("bad", b"x", tags="\ud83d"), id="half a character"),
    pytest.param(Message("bad", b"x", flag=2**40), id="flag"),
    pytest.param(Message("bad", b"x", wait_store_ok=1), id="no bool"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("bad", BAD)
def test_an_unencodable_message_fails_alone(cluster: LocalCluster, bad: Message) -> None:
    with Producer(cluster.address, group="g", linger_ms=1) as producer:
        futures = [producer.enqueue(m) for m in (bad, *messages("bad", 3), bad)]
        for future in (futures[0], futures[-1]):
            with pytest.raises(BadMessage, match="to bad cannot be written"):
                future.result(30)
        assert all(f.result(30).status is SendStatus.SEND_OK for f in futures[1:-1])


@pytest.mark.parametrize("bad", BAD)
def test_an_unencodable_message_is_raised_at_once_with_asyncio(
    cluster: LocalCluster, bad: Message
) -> None:
    async def run() -> None:
        async with AsyncProducer(cluster.address, group="g", linger_ms=1) as producer:
            with pytest.raises(BadMessage, match="to bad cannot be written"):
                await producer.enqueue(bad)
            good = await producer.enqueue(Message("bad", b"x"))
            assert (await asyncio.wait_for(good, 30)).status is SendStatus.SEND_OK

    asyncio.run(run())


def test_enqueue_is_refused_without_linger_ms(cluster: LocalCluster) -> None:
    message = Message("t", b"x")
    with (
        Producer(cluster.address, group="g") as producer,
        pytest.raises(ConfigError, match="needs a linger_ms"),
    ):
        producer.enqueue(message)

    async def run() -> None:
        async with AsyncProducer(cluster.address, group="g") as producer:
            with pytest.raises(ConfigError, match="needs a linger_ms"):
                await producer.enqueue(message)

    asyncio.run(run())
    closed = Producer(cluster.address, group="g", linger_ms=1)
    with pytest.raises(ClientClosed, match="not running"):
        closed.enqueue(message)


def test_a_delayed_message_is_sent_alone(cluster: LocalCluster) -> None:
    delayed = Message("alone", b"later", delay_level=1)
    with Producer(cluster.address, group="g", linger_ms=1) as producer:
        assert producer.enqueue(delayed).result(30).status is SendStatus.SEND_OK

    async def run() -> None:
        async with AsyncProducer(cluster.address, group="g", linger_ms=1) as producer:
            assert (await (await producer.enqueue(delayed))).status is SendStatus.SEND_OK

    asyncio.run(run())


def test_a_refused_batch_fails_the_future_of_every_message() -> None:
    # Each is within the limit of the broker, but their batch is not.
    large = [Message("large", b"x" * 4000) for _ in range(20)]
    with (
        LocalCluster(settings={"maxMessageSize": "65536"}) as cluster,
        Producer(cluster.address, group="g", linger_ms=60_000) as producer,
    ):
        futures = [producer.enqueue(message) for message in large]
        flush(producer)
        for future in futures:
            with pytest.raises(BrokerRefused, match="illegal"):
                future.result(30)


def test_closing_sends_all_enqueued_messages(cluster: LocalCluster) -> None:
    with Producer(cluster.address, group="g", linger_ms=60_000) as producer:
        futures = [producer.enqueue(message) for message in messages("closing", 3)]
    assert [future.result(0).status for future in futures] == [SendStatus.SEND_OK] * 3


def test_enqueue_waits_when_too_many_messages_are_pending(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher, "MOST_HANDED_OVER", 5)
    with Producer(cluster.address, group="g", linger_ms=60_000) as producer:
        futures = [producer.enqueue(message) for message in messages("waits", 5)]
        sixth = threading.Thread(target=lambda: futures.append(producer.enqueue(last)))
        last = Message("waits", b"last")
        sixth.start()
        sixth.join(0.1)
        assert sixth.is_alive()
        flush(producer)
        sixth.join(30)
        assert not sixth.is_alive()
    assert [future.result(0).status for future in futures] == [SendStatus.SEND_OK] * 6

    async def run() -> None:
        monkeypatch.setattr(batcher, "MOST_BATCHES_UNDER_WAY", 1)
        async with AsyncProducer(
            cluster.address, group="g", linger_ms=60_000, batch_messages=2
        ) as producer:
            first = [await producer.enqueue(message) for message in messages("waits", 2)]
            assert not any(future.done() for future in first)
            third = await producer.enqueue(last)
            assert all(future.done() for future in first)
        assert third.result().status is SendStatus.SEND_OK

    asyncio.run(run())
