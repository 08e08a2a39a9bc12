"""One Spark driver: takes a measurement as JSON, prints its figures as one JSON line.

A process of its own for each side, so that no side finds a JVM that another one has warmed up or
filled. `local[n]`, the session helper's settings for everybody, Spark 4.2: the newest that there is
a Kafka connector for.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

Job = dict[str, Any]


class Ceiling(DataSource):
    """What no source can beat: the columns of such messages, made once and given many times."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        from orbitmq.spark.schema import message_schema

        return message_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self.options
        return CeilingReader(int(options["rows"]), int(options["bytes"]), int(options["tasks"]))


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int, size: int, tasks: int) -> None:
        self.rows, self.size, self.tasks = rows, size, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        from orbitmq._native import RecordColumns, encode_record

        columns, per_batch = RecordColumns(), (4 << 20) // (self.size + 400)
        record = encode_record(
            "bench",
            b"x" * self.size,
            properties={"UNIQ_KEY": "7F000001FEDC18B4AAC200000001FFFF", "TAGS": "tag"},
        )
        columns.append(record * per_batch, broker_name="broker-a")
        batch, left = pa.record_batch(columns.finish()), self.rows // self.tasks
        while left > 0:
            part = batch if left >= per_batch else batch.slice(0, left)
            yield part
            left -= part.num_rows


def session(job: Job) -> SparkSession:
    from orbitmq.spark import register
    from orbitmq.spark.session import tuned

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    master = f"local[{job.get('cores', 2)}]"
    settings, _ = tuned(master, {})
    builder = SparkSession.builder.master(master).appName("orbitmq-bench")
    settings |= {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    settings |= {"spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    if job.get("jars"):
        settings["spark.jars"] = ",".join(job["jars"])
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(Ceiling)
    return spark


def source(spark: SparkSession, job: Job, *, streaming: bool = False) -> DataFrame:
    reader = spark.readStream if streaming else spark.read
    frame: DataFrame = reader.format(job["format"]).options(**job["options"]).load()
    return frame


def batch(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Read everything into the sink that forgets it: rows per second of each round, warmed up."""
    seconds = []
    for _ in range(job["rounds"] + 1):
        began = time.perf_counter()
        source(spark, job).write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - began)
    figures = {"rows_per_s": [job["rows"] / each for each in seconds[1:]]}
    return figures | {"worker_mb": worker_peak_mb(), "first_s": seconds[0]}


def latency(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Milliseconds a trigger takes that has something to do, while messages trickle in."""
    writer = source(spark, job, streaming=True).selectExpr(*job["select"]).writeStream
    checkpoint = Path(job["directory"]) / f"checkpoint-{os.getpid()}"
    query = (
        writer.format(job["sink"])
        .options(**job["sink_options"])
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )
    stop = threading.Event()
    sender = threading.Thread(target=trickle, args=(job, stop), daemon=True)
    sender.start()
    took: list[float] = []
    seen = -1
    deadline = time.monotonic() + job["seconds"] * 6
    while len(took) < job["warm_up"] + job["triggers"] and time.monotonic() < deadline:
        error = query.exception()
        if error is not None:
            raise error
        for progress in query.recentProgress:
            if progress["batchId"] > seen and progress["numInputRows"]:
                seen = progress["batchId"]
                took.append(progress["durationMs"]["triggerExecution"])
        time.sleep(0.05)
    stop.set()
    sender.join()
    query.stop()
    measured = took[job["warm_up"] :]
    if not measured:
        raise RuntimeError(f"only {len(took)} triggers had something to do")
    return {"median_ms": statistics.median(measured), "triggers": len(measured)}


def trickle(job: Job, stop: threading.Event) -> None:
    send = SENDERS[job["sender"]](job)
    while not stop.wait(0.01):
        send()


def rocketmq_sender(job: Job) -> Callable[[], object]:
    from orbitmq import Message, Producer

    producer = Producer(job["address"], group="trickle").start()
    return lambda: producer.send(Message(job["topic"], b"x" * 1024))


def kafka_sender(job: Job) -> Callable[[], object]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": job["address"], "linger.ms": 0})

    def send() -> None:
        producer.produce(job["topic"], b"x" * 1024)
        producer.poll(0)

    return send


SENDERS: dict[str, Callable[[Job], Callable[[], object]]] = {
    "rocketmq": rocketmq_sender,
    "kafka": kafka_sender,
    "none": lambda _job: lambda: None,
}


def worker_peak_mb() -> float:
    """The most memory a Python worker of this driver has had."""
    peak = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"pyspark.daemon" not in command or not is_ours(status.parent):
                continue
            lines = status.read_text().splitlines()
        except OSError:
            continue  # it has ended meanwhile
        peak = max(peak, *(int(line.split()[1]) / 1024 for line in lines if "VmHWM" in line))
    return round(peak, 1)


def is_ours(process: Path) -> bool:
    """Whether a process descends from this one."""
    for _ in range(6):
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        if parent == os.getpid():
            return True
        process = Path("/proc") / str(parent)
        if parent <= 1:
            break
    return False


def main() -> None:
    job: Job = json.loads(sys.argv[1])
    spark = session(job)
    figures = {"batch": batch, "latency": latency}[job["kind"]](spark, job)
    print(json.dumps(figures), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
