"""What a Python user could pick instead, against Kafka: takes a verb and prints one JSON line."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

TASKS = 10_000
BATCH_BYTES = 1 << 20


def aiokafka_send(options: argparse.Namespace) -> dict[str, float]:
    """One loop, each send awaited by a task of its own; aiokafka gathers them into batches."""
    body = b"b" * options.body

    async def measured() -> float:
        # With batches of its default 16 KiB the many tasks mostly wake each other up.
        producer = AIOKafkaProducer(
            bootstrap_servers=options.address,
            linger_ms=options.linger_ms,
            max_batch_size=BATCH_BYTES,
        )
        await producer.start()

        async def one() -> None:
            await (await producer.send(options.topic, body))

        began = 0.0
        for count in (options.warmup, options.messages):
            began = time.perf_counter()
            for first in range(0, count, TASKS):
                await asyncio.gather(*(one() for _ in range(min(TASKS, count - first))))
        rate: float = options.messages / (time.perf_counter() - began)
        await producer.stop()
        return rate

    return {"per_second": uvloop.run(measured())}


def aiokafka_for(options: argparse.Namespace) -> dict[str, float]:
    """An iteration that looks at each message's value."""

    async def measured() -> float:
        consumer = AIOKafkaConsumer(
            options.topic,
            bootstrap_servers=options.address,
            group_id=options.group,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        began = count = 0
        async for message in consumer:
            if not count:
                began = time.perf_counter_ns()
            count += 1
            assert message.value
            if count == options.messages:
                break
        took_s = (time.perf_counter_ns() - began) / 1e9
        await consumer.stop()
        return count / took_s

    return {"per_second": uvloop.run(measured())}


def confluent_send(options: argparse.Namespace) -> dict[str, float]:
    """Produced as fast as the library takes them, all delivered at the end."""
    body = b"b" * options.body
    producer = Producer({"bootstrap.servers": options.address, "linger.ms": options.linger_ms})
    began = 0.0
    for count in (options.warmup, options.messages):
        began = time.perf_counter()
        for _ in range(count):
            while True:
                try:
                    producer.produce(options.topic, body)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush()
    return {"per_second": options.messages / (time.perf_counter() - began)}


def confluent_batches(options: argparse.Namespace) -> dict[str, float]:
    """Lists of up to 1 000 messages."""
    consumer = Consumer(
        {
            "bootstrap.servers": options.address,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([options.topic])
    began = count = 0
    while count < options.messages:
        messages = consumer.consume(1_000, 1.0)
        if messages and not count:
            began = time.perf_counter_ns()
        count += len(messages)
    took_s = (time.perf_counter_ns() - began) / 1e9
    consumer.close()
    return {"per_second": count / took_s}


VERBS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "aiokafka-send": aiokafka_send,
    "aiokafka-for": aiokafka_for,
    "confluent-send": confluent_send,
    "confluent-batches": confluent_batches,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--group", default="bench")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--warmup", type=int, default=1_000)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--linger-ms", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps(VERBS[options.verb](options)))


if __name__ == "__main__":
    main()
