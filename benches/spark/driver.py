"""A Spark driver: takes jobs as JSON, a line each, and answers with a line of figures.

Every side has a process of its own, so that none finds a JVM that another one has warmed up or
filled; it lives for all rounds, so that sides can take turns. `local[n]` and the session helper's
settings for everybody.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benches.spark.ceiling import Ceiling
from orbitmq.spark import read_store

Job = dict[str, Any]
PHASES = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
NUMBER_DIGITS = 10


def session(cores: int, jars: list[str]) -> SparkSession:
    from orbitmq.spark import register
    from orbitmq.spark.session import tuned

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    master = f"local[{cores}]"
    settings, _ = tuned(master, {})
    settings |= {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}
    settings["spark.sql.streaming.numRecentProgressUpdates"] = "100000"
    settings |= {"spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    if jars:
        settings["spark.jars"] = ",".join(jars)
    builder = SparkSession.builder.master(master).appName("orbitmq-bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(Ceiling)
    return spark


def frame(spark: SparkSession, job: Job, *, streaming: bool = False) -> DataFrame:
    if job["format"] == "read_store":
        return read_store(spark, **job["options"])
    reader = spark.readStream if streaming else spark.read
    loaded: DataFrame = reader.format(job["format"]).options(**job["options"]).load()
    return loaded


def read(spark: SparkSession, job: Job) -> Job:
    """Run a query over all of a table, its result to the sink that forgets it."""

    def query() -> None:
        frame(spark, job).createOrReplaceTempView("messages")
        spark.sql(job["query"]).write.format("noop").mode("overwrite").save()

    return timed(spark, query) | worker_peaks()


def timed(spark: SparkSession, work: Callable[[], object]) -> Job:
    """Seconds, and those that the JVM's compiler was busy meanwhile."""
    assert spark._jvm is not None
    compiler = spark._jvm.java.lang.management.ManagementFactory.getCompilationMXBean()
    compiled_ms, began = compiler.getTotalCompilationTime(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    compiling_s = (compiler.getTotalCompilationTime() - compiled_ms) / 1000
    return {"seconds": seconds, "compiling_s": compiling_s}


def count(spark: SparkSession, job: Job) -> Job:
    """Say how many rows there are, for the measure to be of what it is said to be."""
    return {"rows": frame(spark, job).count()}


def write(spark: SparkSession, job: Job) -> Job:
    """Write rows that the JVM makes from nothing, as cheaply as it can.

    A number and a constant: `lpad` to the whole length copies byte by byte, which took four fifths
    of the JVM's time and so hid what the sinks do.
    """
    rest = "x" * (job["bytes"] - NUMBER_DIGITS)
    body = f"cast(concat(lpad(cast(id as string), {NUMBER_DIGITS}, '0'), '{rest}') as binary)"
    rows = spark.range(0, job["rows"], 1, job["tasks"]).selectExpr(f"{body} as {job['column']}")
    writer = rows.write.format(job["format"]).mode("append").options(**job["options"])
    return timed(spark, writer.save) | worker_peaks()


def started(spark: SparkSession, job: Job) -> StreamingQuery:
    writer = frame(spark, job, streaming=True).selectExpr(*job["select"]).writeStream
    checkpoint = Path(job["directory"]) / f"checkpoint-{os.getpid()}-{time.time_ns()}"
    return (
        writer.format(job["sink"])
        .options(**job["sink_options"])
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )


def latency(spark: SparkSession, job: Job) -> Job:
    """Milliseconds of the triggers that have something to do, while messages trickle in."""
    query = started(spark, job)
    stop = threading.Event()
    sender = threading.Thread(target=trickle, args=(job, stop), daemon=True)
    sender.start()
    time.sleep(job["warm_up_s"])
    warm_at = datetime.now(UTC)
    time.sleep(job["triggers_s"])
    stop.set()
    sender.join()
    if error := query.exception():
        raise error
    seen = [
        progress
        for progress in progress_of(query)
        if progress["numInputRows"] and datetime.fromisoformat(progress["timestamp"]) > warm_at
    ]
    query.stop()
    if not seen:
        raise RuntimeError("no trigger had something to do")
    rows = statistics.median(each["numInputRows"] for each in seen)
    took = [each["durationMs"] for each in seen]
    phases = {phase: statistics.median(each.get(phase, 0) for each in took) for phase in PHASES}
    ms = [each["triggerExecution"] for each in took]
    return {"ms": ms, "phases": phases, "rows": rows}


def progress_of(query: StreamingQuery) -> list[Job]:
    """What all triggers so far have said of themselves.

    By way of JSON: `query.recentProgress` makes hundreds of calls to the JVM for each of them, and
    a driver that asks for it while triggers run measures that.
    """
    return [json.loads(each.json()) for each in query._jsq.recentProgress()]


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

_running: list[StreamingQuery] = []


def stream(spark: SparkSession, job: Job) -> Job:
    """Start a query that `stop` ends, once it has seen all that is there."""
    query = started(spark, job)
    query.processAllAvailable()
    _running.append(query)
    return {}


def stop(_spark: SparkSession, _job: Job) -> Job:
    """End it; says how many triggers had something to do."""
    query = _running.pop()
    batches = sum(1 for each in progress_of(query) if each["numInputRows"])
    query.stop()
    return {"batches": batches}


def worker_peaks() -> Job:
    """The most memory a Python worker of this driver has had: all of it, and without files."""
    peak = anonymous = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"pyspark.daemon" not in command or not is_ours(status.parent):
                continue
            lines = (line.split() for line in status.read_text().splitlines())
            kib = {words[0]: int(words[1]) for words in lines if words[-1:] == ["kB"]}
        except OSError:
            continue  # it has ended meanwhile
        peak = max(peak, kib["VmHWM:"] / 1024)
        anonymous = max(anonymous, kib["RssAnon:"] / 1024)
    return {"worker_mb": round(peak, 1), "worker_anonymous_mb": round(anonymous, 1)}


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


KINDS: dict[str, Callable[[SparkSession, Job], Job]] = {
    each.__name__: each for each in (read, count, write, latency, stream, stop)
}


def main() -> None:
    settings: Job = json.loads(sys.argv[1])
    spark = session(settings["cores"], settings["jars"])
    print(json.dumps({"spark": spark.version}), flush=True)
    for line in sys.stdin:
        job: Job = json.loads(line)
        print(json.dumps(KINDS[job["kind"]](spark, job)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
