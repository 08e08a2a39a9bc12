"""`python -m benches.spark`: the Spark source against Spark's own Kafka connector, in one run.

| measurement | sides |
| --- | --- |
| batch | all of 2 M messages of 1 KiB into the no-op sink: ours, Kafka's, and a ceiling source |
| scaling | the same by 1 and 2 cores, with 1, 8 and 64 queues |
| latency | milliseconds per trigger, 1 and 8 queues, source to sink; and the engine's own floor |

Every side is a driver process of its own (`spark_driver`), on the same Spark; brokers are processes
of their own, too. Rounds are taken within a driver after one for warming up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.kafka import kafka_broker
from benches.sides import REPOSITORY_ROOT, BenchError
from compat import jars
from compat.java_cluster import free_port
from orbitmq import Admin
from orbitmq._native import NewMessage, Store

LOCK_FILE = Path(__file__).resolve().with_name("jars-spark-kafka-4.2.0.lock")
SPARK_DIR = REPOSITORY_ROOT / ".build" / "spark-4.2.0"
TOPIC = "bench"
BODY_BYTES = 1024
NAMES = ("batch", "scaling", "latency")


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    messages: int = 2_000_000
    rounds: int = 3
    triggers: int = 100
    warm_up: int = 50


def drive(job: dict[str, Any]) -> dict[str, Any]:
    """Run a measurement in a driver of its own."""
    path = [str(SPARK_DIR), str(REPOSITORY_ROOT)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-m", "benches.spark_driver", json.dumps(job)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise BenchError(f"{job} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures


@contextmanager
def orbitmq_broker(directory: Path, messages: int, queues: int) -> Iterator[str]:
    """A broker process whose topic has so many messages; its address."""
    store = directory / "store"
    fill(store, messages, queues)
    port = free_port()
    command = [sys.executable, "-m", "orbitmq.cli", "up", "--data", str(store), "--port", str(port)]
    with (directory / "broker.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    address = f"127.0.0.1:{port}"
    try:
        for attempt in range(100):
            try:
                with Admin(address) as admin:
                    admin.create_topic(TOPIC, queues=queues)
                    admin.create_topic("out", queues=queues)
                break
            except Exception:
                if attempt == 99 or process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def fill(store_path: Path, messages: int, queues: int) -> None:
    host, body = ("127.0.0.1", 10911), b"x" * BODY_BYTES
    with Store.open(store_path) as store:
        for first in range(0, messages, 1000):
            store.append_many(
                [
                    NewMessage(
                        TOPIC,
                        body,
                        queue_id=number % queues,
                        born_timestamp=1_700_000_000_000,
                        born_host=host,
                        store_host=host,
                        properties={"UNIQ_KEY": f"{number:032X}", "TAGS": "tag"},
                    )
                    for number in range(first, min(first + 1000, messages))
                ]
            )


def fill_kafka(address: str, messages: int, topic: str = TOPIC) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1 << 20})
    body = b"x" * BODY_BYTES
    headers: dict[str, str | bytes | None] = {"UNIQ_KEY": b"7F000001FEDC18B4AAC200000001FFFF"}
    for number in range(messages):
        while True:
            try:
                producer.produce(topic, body, headers=headers, partition=number % 8)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def kafka_jars() -> list[str]:
    directory = jars.fetch(LOCK_FILE)
    return [str(directory / jar.file_name) for jar in jars.read_lock(LOCK_FILE)]


def rocketmq_job(address: str, size: Size, **more: Any) -> dict[str, Any]:
    options = {"nameServer": address, "subscribe": TOPIC}
    job = {"kind": "batch", "format": "rocketmq", "options": options}
    return job | {"rows": size.messages, "rounds": size.rounds} | more


def measure_batch(directory: Path, size: Size) -> dict[str, Any]:
    figures = {}
    with orbitmq_broker(fresh(directory / "ours"), size.messages, 8) as address:
        figures["OrbitMQ"] = drive(rocketmq_job(address, size))
    ceiling = {"rows": str(size.messages), "bytes": str(BODY_BYTES), "tasks": "2"}
    job = {"kind": "batch", "format": "ceiling", "options": ceiling}
    figures["ceiling"] = drive(job | {"rows": size.messages, "rounds": size.rounds})
    with kafka_broker(fresh(directory / "kafka", make=False), 8) as address:
        fill_kafka(address, size.messages)
        options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
        options |= {"startingOffsets": "earliest", "includeHeaders": "true"}
        job = {"kind": "batch", "format": "kafka", "options": options, "jars": kafka_jars()}
        figures["Kafka"] = drive(job | {"rows": size.messages, "rounds": size.rounds})
    ours = statistics.median(figures["OrbitMQ"]["rows_per_s"])
    for name, each in figures.items():
        theirs = statistics.median(each["rows_per_s"])
        each["ratio"] = round(ours / theirs, 2)
        text = f"{theirs:12,.0f} rows/s   ours is {each['ratio']:.2f} of it"
        print(f"{name:>10} {text}   worker {each['worker_mb']:.0f} MB", flush=True)
    return figures


def measure_scaling(directory: Path, size: Size) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for queues in (1, 8, 64):
        with orbitmq_broker(fresh(directory / "ours"), size.messages // 2, queues) as address:
            for cores in (1, 2):
                job = rocketmq_job(address, Size(size.messages // 2, 1), cores=cores)
                result = drive(job)
                figures[f"{queues} queues, {cores} cores"] = result
                rate = statistics.median(result["rows_per_s"])
                text = f"{rate:12,.0f} rows/s   worker {result['worker_mb']:.0f} MB"
                print(f"{queues:3} queues, {cores} cores {text}", flush=True)
    return figures


def measure_latency(directory: Path, size: Size) -> dict[str, Any]:
    figures: dict[str, Any] = {}

    def take(name: str, job: dict[str, Any]) -> None:
        counts = {"seconds": 60, "triggers": size.triggers, "warm_up": size.warm_up}
        figures[name] = drive({"kind": "latency", "directory": str(directory)} | counts | job)
        print(f"{name:>22} {figures[name]['median_ms']:6.0f} ms a trigger", flush=True)

    rate = {"format": "rate", "options": {"rowsPerSecond": "100"}, "select": ["value"]}
    take("floor", rate | {"sink": "noop", "sink_options": {}, "sender": "none"})
    for queues in (1, 8):
        with orbitmq_broker(fresh(directory / "ours"), 0, queues) as address:
            options = {"nameServer": address, "subscribe": TOPIC, "columns": "body"}
            sink = {"nameServer": address, "topic": "out"}
            job = {"format": "rocketmq", "options": options, "select": ["body"]}
            job |= {"sink": "rocketmq", "sink_options": sink}
            take(f"OrbitMQ, {queues} queues", job | sender("rocketmq", address))
        with kafka_broker(fresh(directory / "kafka", make=False), queues) as address:
            options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
            fill_kafka(address, 0)
            sink = {"kafka.bootstrap.servers": address, "topic": "out"}
            job = {"format": "kafka", "options": options, "select": ["value"]}
            job |= {"sink": "kafka", "sink_options": sink, "jars": kafka_jars()}
            take(f"Kafka, {queues} partitions", job | sender("kafka", address))
    return figures


def sender(kind: str, address: str) -> dict[str, str]:
    return {"sender": kind, "address": address, "topic": TOPIC}


def fresh(directory: Path, *, make: bool = True) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    if make:
        directory.mkdir(parents=True)
    return directory


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.spark", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes: to try the harness")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    default = REPOSITORY_ROOT / ".build" / "bench-spark"
    parser.add_argument("--dir", type=Path, default=default, help="where the brokers keep theirs")
    options = parser.parse_args()
    size = Size(200_000, 1, 20, 10) if options.quick else Size()
    measures = {"batch": measure_batch, "scaling": measure_scaling, "latency": measure_latency}
    figures = {}
    for name in options.names or NAMES:
        print(f"== {name}", flush=True)
        figures[name] = measures[name](options.dir, size)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
