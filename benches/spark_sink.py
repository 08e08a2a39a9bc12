"""`python -m benches.spark_sink`: our Spark sink against Spark's Kafka sink, in one run.

Rows of 1 KiB that the JVM makes from nothing are written to a topic of 8 queues, by `local[2]`: to
our broker at least once, to our broker exactly once, to Kafka 4.1. Every side is a driver process
of its own on the same Spark; a first round warms it up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benches.kafka import kafka_broker
from benches.sides import REPOSITORY_ROOT, BenchError
from benches.spark import BODY_BYTES, SPARK_DIR, fresh, kafka_jars, orbitmq_broker
from benches.spark_driver import session

OUT = "out"


def drive(job: dict[str, Any]) -> list[float]:
    """Run one side in a driver of its own; rows per second of each round."""
    command = [sys.executable, "-m", "benches.spark_sink", "--job", json.dumps(job)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(SPARK_DIR), str(REPOSITORY_ROOT)])}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if done.returncode or not lines:
        raise BenchError(f"{job} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    rates: list[float] = json.loads(lines[-1])
    return rates


def write_rounds(job: dict[str, Any]) -> list[float]:
    """Write so many rows in each round, after one that does not count."""
    spark = session(job)
    rows = spark.range(0, job["rows"], 1, 2).selectExpr(
        f"cast(lpad(cast(id as string), {BODY_BYTES}, 'x') as binary) as {job['column']}"
    )
    rates = []
    for _ in range(job["rounds"] + 1):
        began = time.perf_counter()
        rows.write.format(job["format"]).mode("append").options(**job["options"]).save()
        rates.append(job["rows"] / (time.perf_counter() - began))
    spark.stop()
    return rates[1:]


def measure(directory: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    """Take all sides and print them."""
    figures = {}
    base = {"rows": rows, "rounds": rounds}
    with orbitmq_broker(fresh(directory / "ours"), 1, 8) as address:
        for name, once in (("OrbitMQ", "false"), ("exactly once", "true")):
            options = {"nameServer": address, "topic": OUT, "deduplicate": once}
            job = base | {"format": "rocketmq", "column": "body", "options": options}
            figures[name] = drive(job)
    with kafka_broker(fresh(directory / "kafka", make=False), 8) as address:
        options = {"kafka.bootstrap.servers": address, "topic": OUT}
        job = base | {"format": "kafka", "column": "value", "options": options}
        figures["Kafka"] = drive(job | {"jars": kafka_jars()})
    kafka = statistics.median(figures["Kafka"])
    for name, rates in figures.items():
        rate = statistics.median(rates)
        print(f"{name:>14} {rate:12,.0f} rows/s   {rate / kafka:.2f} of Kafka's", flush=True)
    return figures


def main() -> None:
    """Measure, or be one side of it."""
    parser = argparse.ArgumentParser(prog="python -m benches.spark_sink", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    default = REPOSITORY_ROOT / ".build" / "bench-spark-sink"
    parser.add_argument("--dir", type=Path, default=default)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        print(json.dumps(write_rounds(json.loads(options.job))), flush=True)
    else:
        measure(options.dir, options.rows, options.rounds)


if __name__ == "__main__":
    main()
