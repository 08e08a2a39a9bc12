"""OrbitMQ's client, one measurement a process: takes a verb and prints one JSON line.

The same words as ClientBench.java takes, and some of our own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

import uvloop

from orbitmq import (
    AsyncConsumer,
    AsyncProducer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
)

TASKS = 10_000
"""Sends in flight on one loop."""


def send(options: argparse.Namespace) -> dict[str, float]:
    """One thread, each send answered before the next."""
    body = b"b" * options.body
    with Producer(options.nameserver, group="bench") as producer:
        for _ in range(options.warmup):
            producer.send(Message(options.topic, body))
        began = time.perf_counter()
        for _ in range(options.messages):
            producer.send(Message(options.topic, body))
        return {"per_second": options.messages / (time.perf_counter() - began)}


def async_send(options: argparse.Namespace) -> dict[str, float]:
    """One loop, each send awaited by a task of its own; or, with a linger, each by its future."""
    body = b"b" * options.body

    async def many(producer: AsyncProducer, count: int) -> None:
        async def one() -> None:
            await producer.send(Message(options.topic, body))

        for first in range(0, count, TASKS):
            await asyncio.gather(*(one() for _ in range(min(TASKS, count - first))))

    async def many_enqueued(producer: AsyncProducer, count: int) -> None:
        waiting: deque[asyncio.Future[SendResult]] = deque()
        for _ in range(count):
            if len(waiting) == TASKS:
                await waiting.popleft()
            waiting.append(await producer.enqueue(Message(options.topic, body)))
        for future in waiting:
            await future

    async def measured() -> float:
        linger = {"linger_ms": options.linger_ms} if options.linger_ms else {}
        async with AsyncProducer(
            options.nameserver, group="bench", max_in_flight=TASKS, **linger
        ) as producer:
            send_all = many_enqueued if options.linger_ms else many
            await send_all(producer, options.warmup)
            began = time.perf_counter()
            await send_all(producer, options.messages)
            rate: float = options.messages / (time.perf_counter() - began)
            return rate

    return {"per_second": uvloop.run(measured())}


def fill(options: argparse.Namespace) -> dict[str, float]:
    """Messages for others to consume, in batches, spread over all queues."""
    batch = [Message(options.topic, b"b" * options.body) for _ in range(500)]
    with Producer(options.nameserver, group="bench") as producer:
        began = time.perf_counter()
        for _ in range(options.messages // len(batch)):
            producer.send_many(batch)
        return {"per_second": options.messages / (time.perf_counter() - began)}


class Arrivals:
    """Counts to a number; the rate is that between the first message and the last."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._count = 0
        self._lock = threading.Lock()
        self._began = 0.0
        self._took = 0.0
        self.done = threading.Event()

    def add(self, count: int) -> None:
        with self._lock:
            if not self._count:
                self._began = time.perf_counter()
            self._count += count
            if self._count >= self._wanted and not self._took:
                self._took = time.perf_counter() - self._began
                self.done.set()

    @property
    def figures(self) -> dict[str, float]:
        if not self.done.wait(300):
            raise SystemExit(f"only {self._count} of {self._wanted} messages arrived")
        return {"per_second": self._wanted / self._took}


def push(options: argparse.Namespace) -> dict[str, float]:
    """A function called with one message, or with a list of them."""
    consumer = PushConsumer(
        options.nameserver, group=options.group, consume_from="first", **options.settings
    )
    arrivals = Arrivals(options.messages)
    handler: Callable[..., None]
    if options.batch > 1:

        def handler(messages: list[ReceivedMessage]) -> None:
            arrivals.add(len(messages))
    else:

        def handler(_message: ReceivedMessage) -> None:
            arrivals.add(1)

    consumer.on(options.topic, batch=options.batch)(handler)
    consumer.start()
    try:
        return arrivals.figures
    finally:
        consumer.stop()


def async_for(options: argparse.Namespace) -> dict[str, float]:
    """An iteration that looks at each message's body."""

    async def measured() -> float:
        began = count = 0
        async with AsyncConsumer(
            options.nameserver,
            options.topic,
            group=options.group,
            consume_from="first",
            **options.settings,
        ) as consumer:
            async for message in consumer:
                if not count:
                    began = time.perf_counter_ns()
                count += 1
                assert message.body
                if count == options.messages:
                    break
        return count / ((time.perf_counter_ns() - began) / 1e9)

    return {"per_second": uvloop.run(measured())}


def latency(options: argparse.Namespace) -> dict[str, float]:
    """From before the send to the handler, one message at a time."""
    took: list[float] = []
    arrived = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        took.append((time.time_ns() - int(message.body)) / 1000)
        arrived.set()

    consumer = PushConsumer(options.nameserver, group=options.group)
    consumer.on(options.topic)(handle)
    with Producer(options.nameserver, group="bench") as producer:
        producer.send(Message(options.topic, str(time.time_ns()).encode()))
        consumer.start()
        try:
            arrived.wait(20)
            for _ in range(options.warmup + options.messages):
                arrived.clear()
                producer.send(Message(options.topic, str(time.time_ns()).encode()))
                if not arrived.wait(20):
                    raise SystemExit("a message did not arrive")
        finally:
            consumer.stop()
    return {"p50_us": statistics.median(took[-options.messages :])}


def first_send(options: argparse.Namespace) -> dict[str, float]:
    """From the start of a producer to the answer to its first send."""
    began = time.perf_counter()
    with Producer(options.nameserver, group="bench") as producer:
        producer.send(Message(options.topic, b"first"))
        return {"ms": (time.perf_counter() - began) * 1000}


def import_time(options: argparse.Namespace) -> dict[str, float]:
    """What importing the package adds to the start of Python."""

    def start(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    pairs = [(start("pass"), start(options.code)) for _ in range(10)]
    return {"ms": statistics.median(loaded - bare for bare, loaded in pairs) * 1000}


VERBS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "send": send,
    "async-send": async_send,
    "fill": fill,
    "push": push,
    "async-for": async_for,
    "latency": latency,
    "first-send": first_send,
    "import": import_time,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--nameserver", default="127.0.0.1:9876")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--group", default="bench")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--warmup", type=int, default=1_000)
    parser.add_argument("--body", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--linger-ms", type=float, default=0)
    parser.add_argument("--code", default="import orbitmq", help="what `import` measures")
    parser.add_argument("--settings", type=json.loads, default={}, help="of the consumer, as JSON")
    options = parser.parse_args()
    print(json.dumps(VERBS[options.verb](options)))


if __name__ == "__main__":
    main()
