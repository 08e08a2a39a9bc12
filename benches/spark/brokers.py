"""Brokers with messages in them: ours, and Kafka's with the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.broker import DEFAULT_SIZES, FastJavaCluster
from benches.kafka import kafka_broker
from compat import jars
from compat.java_cluster import BrokerSettings, free_port
from orbitmq import Admin
from orbitmq._native import NewMessage, Store

__all__ = [
    *("BODY_BYTES", "OUT", "Load", "Ours"),
    *("apache_broker", "filled_kafka", "kafka_jars", "our_broker"),
]

LOCK_FILE = Path(__file__).resolve().parent.with_name("jars-spark-kafka-4.2.0.lock")
BODY_BYTES = 1024
OUT = "out"
"""The topic that sinks write to."""
HOST = ("127.0.0.1", 10911)
HISTORY_MS = 3_600_000
APACHE_DEFAULTS = {
    "maxTransferCountOnMessageInMemory": "32",
    "maxTransferBytesOnMessageInMemory": str(256 << 10),
    "maxTransferCountOnMessageInDisk": "8",
    "maxTransferBytesOnMessageInDisk": str(64 << 10),
}
"""What a pull gets of a 4.9.7 that nobody has configured; the suites' cluster gives more."""


@dataclass(frozen=True)
class Load:
    """A topic and what is in it."""

    topic: str
    messages: int
    queues: int = 8
    body_bytes: int = BODY_BYTES


@dataclass(frozen=True)
class Ours:
    """A running broker of ours."""

    address: str
    store: Path
    middle: tuple[int, int]
    """The times, in milliseconds, between which the middle tenth of the messages was stored."""


@contextmanager
def our_broker(directory: Path, *loads: Load) -> Iterator[Ours]:
    """A broker process of ours with these topics, and an empty one to write to."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    store, port = directory / "store", free_port()
    middle = fill(store, loads)
    command = [sys.executable, "-m", "orbitmq.cli", "up", "--data", str(store), "--port", str(port)]
    with (directory / "broker.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    address = f"127.0.0.1:{port}"
    try:
        _make_topics(process, address, [*loads, Load(OUT, 0)])
        yield Ours(address, store, middle)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _make_topics(process: subprocess.Popen[bytes], address: str, loads: Sequence[Load]) -> None:
    for attempt in range(100):
        try:
            with Admin(address) as admin:
                for load in loads:
                    admin.create_topic(load.topic, queues=load.queues)
            return
        except Exception:
            if attempt == 99 or process.poll() is not None:
                raise
            time.sleep(0.1)


def fill(store_path: Path, loads: Sequence[Load]) -> tuple[int, int]:
    """Write the messages straight into the store; returns when the middle tenth was stored.

    As if they had come in steadily over the last hour: a reader that looks for a time has to allow
    for clocks that were set back, which in a log of a few seconds would be all of it.
    """
    total, done = max(sum(load.messages for load in loads), 1), 0
    began_ms = time.time_ns() // 1_000_000 - HISTORY_MS
    with Store.open(store_path, create=True) as store:
        for load in loads:
            body = b"x" * load.body_bytes
            at_once = max(min(1000, (4 << 20) // load.body_bytes), 1)
            for first in range(0, load.messages, at_once):
                numbers = range(first, min(first + at_once, load.messages))
                made = [_message(load, body, number) for number in numbers]
                store.append_many(made, now_ms=began_ms + HISTORY_MS * done // total)
                done += len(made)
    return began_ms + HISTORY_MS * 45 // 100, began_ms + HISTORY_MS * 55 // 100


def _message(load: Load, body: bytes, number: int) -> NewMessage:
    return NewMessage(
        load.topic,
        body,
        queue_id=number % load.queues,
        born_timestamp=1_700_000_000_000,
        born_host=HOST,
        store_host=HOST,
        properties={"UNIQ_KEY": f"{number:032X}", "TAGS": "tag"},
    )


@contextmanager
def apache_broker(directory: Path, load: Load) -> Iterator[str]:
    """Apache RocketMQ 4.9.7 on a store that we filled; the address of its nameserver."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    cluster = FastJavaCluster(directory, BrokerSettings(sizes=DEFAULT_SIZES, extra=APACHE_DEFAULTS))
    try:
        fill(cluster.store_root, [load])
        cluster.start_broker()
        with Admin(cluster.nameserver) as admin:
            admin.create_topic(load.topic, queues=load.queues)
        yield cluster.nameserver
    finally:
        cluster.close()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def filled_kafka(directory: Path, load: Load) -> Iterator[str]:
    """A Kafka broker with such a topic; its address."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        with kafka_broker(directory, load.queues) as address:
            fill_kafka(address, load)
            yield address
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def fill_kafka(address: str, load: Load) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1 << 20})
    body = b"x" * load.body_bytes
    for number in range(load.messages):
        headers: dict[str, str | bytes | None] = {"UNIQ_KEY": f"{number:032X}", "TAGS": "tag"}
        while True:
            try:
                partition = number % load.queues
                producer.produce(load.topic, body, headers=headers, partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def kafka_jars() -> list[str]:
    """The jars of Spark's Kafka connector."""
    directory = jars.fetch(LOCK_FILE)
    return [str(directory / jar.file_name) for jar in jars.read_lock(LOCK_FILE)]
