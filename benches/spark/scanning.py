"""A store directory as a table, next to the same query through the broker.

The broker is asked in both ways there are: by pulls, 32 messages each, as every RocketMQ broker
answers them, and by OrbitMQ's bulk read. All three sides run the same query in the same Spark; what
is asked for differs from line to line, because it decides what a scan can leave out. Next to each
stands the ceiling of the machine: the same query over a source that makes its columns from nothing;
where that is not three times the pulls, no scan can be. Two lines are without Spark: the same
columns as Arrow batches in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benches.spark.brokers import BODY_BYTES, Load, Ours, our_broker
from benches.spark.figures import Figure, at_least
from benches.spark.reading import EVERYTHING, TOPIC, read_job, rows_per_s
from benches.spark.sides import Answer, SparkSide, in_turn, spark_side
from benches.spark.sizes import Size
from orbitmq.spark.batch_reader import RocketMQBatchReader
from orbitmq.spark.source_options import SourceOptions
from orbitmq.storelog import COLUMNS, StoreLog

__all__ = ["store"]

CASE = "store"
QUERIES = {
    "all columns": ("", EVERYTHING),
    "count of all": ("queueOffset", "SELECT count(queueOffset) FROM messages"),
    "count and bytes by queue": (
        "queueId,queueOffset,body",
        "SELECT queueId, count(queueOffset), sum(length(body)) FROM messages GROUP BY queueId",
    ),
    "count by tag and minute": (
        "tags,storeTimestamp",
        "SELECT tags, date_trunc('minute', storeTimestamp), count(*) FROM messages GROUP BY ALL",
    ),
}


def store(directory: Path, size: Size) -> list[Figure]:
    """Scan a store that a broker serves at the same time."""
    load = Load(TOPIC, size.messages)
    figures: list[Figure] = []
    with our_broker(directory / "ours", load) as ours:
        with (
            spark_side() as scan,
            spark_side() as pull,
            spark_side() as bulk,
            spark_side() as ceiling,
        ):
            sides = {"scan": scan, "pull": pull, "bulk": bulk, "ceiling": ceiling}
            for name, (columns, query) in QUERIES.items():
                figures += compared(name, size, ours, sides, columns, query)
            first, end = ours.middle
            times = {"startingTimestamp": str(first), "endingTimestamp": str(end)}
            name = "all columns of the middle tenth"
            figures += compared(name, size, ours, sides, "", EVERYTHING, times, size.messages // 10)
        for name, names in (("all columns", COLUMNS), ("count of all", ("queueOffset",))):
            figures += without_spark(f"{name}, no Spark", size, ours, names)
    return figures


def compared(
    name: str,
    size: Size,
    ours: Ours,
    sides: dict[str, SparkSide],
    columns: str,
    query: str,
    wishes: dict[str, str] | None = None,
    wanted: int | None = None,
) -> list[Figure]:
    """The same query by a scan, by pulls and by bulk reads; `wanted` are the rows it asks for."""
    wished = {"columns": columns} if columns else {}
    made = {"rows": str(wanted or size.messages), "bytes": str(BODY_BYTES), "tasks": "2"} | wished
    wished |= wishes or {}
    topic = wished | {"nameServer": ours.address, "subscribe": TOPIC}
    table = wished | {"path": str(ours.store), "topics": TOPIC}
    jobs = {
        "scan": read_job("rocketmq-store", table, query),
        "pull": read_job("rocketmq", topic | {"bulkRead": "false"}, query),
        "bulk": read_job("rocketmq", topic, query),
        "ceiling": read_job("ceiling", made, query),
    }
    work = {side: partial(sides[side].run, job) for side, job in jobs.items()}
    answers = in_turn(size.rounds, work)
    return as_figures(name, size, answers)


def as_figures(name: str, size: Size, answers: dict[str, list[Answer]]) -> list[Figure]:
    rates = {side: rows_per_s(size.messages, each) for side, each in answers.items()}
    scan, at = rates["scan"], at_least(3)
    figures = [
        Figure(CASE, name, "rows/s", scan, "pulls of 32", rates["pull"], at),
        Figure(CASE, name, "rows/s", scan, "bulk reads", rates["bulk"], at),
    ]
    if ceiling := rates.get("ceiling"):
        most = f"{name}: ceiling of this machine"
        figures.append(Figure(CASE, most, "rows/s", ceiling, "pulls of 32", rates["pull"]))
    return figures


def without_spark(name: str, size: Size, ours: Ours, columns: tuple[str, ...]) -> list[Figure]:
    """One process, one thread: batches of a scan, and batches of what the broker gives."""

    def timed(work: Callable[[], int]) -> Answer:
        began = time.perf_counter()
        rows = work()
        if rows != size.messages:
            raise AssertionError(f"{name} has {rows} rows, not {size.messages}")
        return {"seconds": time.perf_counter() - began}

    def scan() -> int:
        wished = StoreLog(ours.store).scan(topics=[TOPIC], columns=columns)
        return sum(batch.num_rows for batch in wished)

    def pulled(bulk: str) -> int:
        given = {"nameServer": ours.address, "subscribe": TOPIC, "bulkRead": bulk}
        reader = RocketMQBatchReader(SourceOptions.of(given, streaming=False), columns, 1)
        return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))

    answers = in_turn(
        size.rounds,
        {
            "scan": lambda: timed(scan),
            "pull": lambda: timed(lambda: pulled("false")),
            "bulk": lambda: timed(lambda: pulled("true")),
        },
    )
    return as_figures(name, size, answers)
