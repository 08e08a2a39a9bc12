"""A store directory as a table, next to the same query through brokers.

Brokers are asked by pulls, 32 messages each: Apache RocketMQ 4.9.7 on a store of the same messages,
and ours; and ours by its bulk read. All sides run the same query in the same Spark; what is asked
for differs from line to line, because it decides what a scan can leave out. Whole rows are scanned
both ways there are, `format("rocketmq-store")` and `read_store`. Next to each query stands the
ceiling of the machine: the same over a data source that makes its columns from nothing. Two lines
are without Spark: the same columns as Arrow batches in one process, which has both cores; so have
pulls, of which the broker does the one half and the client the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benches.spark.brokers import BODY_BYTES, Load, Ours, apache_broker, our_broker
from benches.spark.figures import Figure, Target, at_least
from benches.spark.reading import EVERYTHING, TOPIC, read_job, rows_per_s
from benches.spark.sides import Answer, Rounds, in_turn, spark_side
from benches.spark.sizes import Size
from orbitmq.spark.source.batch_reader import RocketMQBatchReader
from orbitmq.spark.source.options import SourceOptions
from orbitmq.storelog import COLUMNS, StoreLog

__all__ = ["store"]

CASE = "store"
QUERIES = {
    "count of all": ("queueOffset", "SELECT count(queueOffset) FROM messages"),
    "count and bytes by queue": (
        "queueId,queueOffset,body",
        "SELECT queueId, count(queueOffset), sum(length(body)) FROM messages GROUP BY queueId",
    ),
    "count by tag and minute": (
        "tags,storeTimestamp",
        "SELECT tags, date_trunc('minute', storeTimestamp), count(*) FROM messages GROUP BY ALL",
    ),
    "all columns": ("", EVERYTHING),
}
PULLS = {
    "apache": "pulls of 32, Apache 4.9.7",
    "pull": "pulls of 32, OrbitMQ",
    "bulk": "bulk reads, OrbitMQ",
}
"""What a scan is compared with; bulk reads are no pulls, and have no target."""
WAYS = {"scan": "", "frame": ", read_store"}
MOST = "ceiling"
TARGET = at_least(3)


def store(directory: Path, size: Size) -> list[Figure]:
    """Scan a store that a broker serves at the same time."""
    load = Load(TOPIC, size.messages)
    figures: list[Figure] = []
    with (
        our_broker(directory / "ours", load) as ours,
        apache_broker(directory / "apache", load) as apache,
    ):
        with (
            spark_side() as scan,
            spark_side() as frame,
            spark_side() as pull,
            spark_side() as bulk,
            spark_side() as ceiling,
        ):
            drivers = {"scan": scan, "frame": frame, "bulk": bulk, MOST: ceiling}
            drivers |= {"apache": pull, "pull": pull}  # the same to a JVM

            def compared(name: str, columns: str, query: str, **more: Any) -> list[Figure]:
                jobs = jobs_of(size, ours, apache, columns, query, **more)
                work = {side: partial(drivers[side].run, job) for side, job in jobs.items()}
                measured = in_turn(size.rounds, work)
                rows = more.get("wanted", size.messages)
                return as_figures(name, rows, measured, None if more else TARGET)

            for name, (columns, query) in QUERIES.items():
                figures += compared(name, columns, query)
            # A part is found by its time through the broker, too: a line without a target.
            first, end = ours.middle
            times = {"startingTimestamp": str(first), "endingTimestamp": str(end)}
            name = "all columns of the middle tenth"
            figures += compared(name, "", EVERYTHING, wishes=times, wanted=size.messages // 10)
        for name, names in (("all columns", COLUMNS), ("count of all", ("queueOffset",))):
            figures += without_spark(f"{name}, no Spark", size, ours, apache, names)
    return figures


def jobs_of(
    size: Size,
    ours: Ours,
    apache: str,
    columns: str,
    query: str,
    *,
    wishes: dict[str, str] | None = None,
    wanted: int | None = None,
) -> dict[str, dict[str, Any]]:
    """The same query by every side; `wanted` are the rows it asks for."""
    wished = {"columns": columns} if columns else {}
    made = {"rows": str(wanted or size.messages), "bytes": str(BODY_BYTES), "tasks": "2"} | wished
    wished |= wishes or {}
    table = wished | {"path": str(ours.store), "topics": TOPIC}

    def topic(address: str, **more: str) -> dict[str, Any]:
        given = wished | {"nameServer": address, "subscribe": TOPIC} | more
        return read_job("rocketmq", given, query)

    jobs = {
        "apache": topic(apache, bulkRead="false"),
        "pull": topic(ours.address, bulkRead="false"),
        "bulk": topic(ours.address),
        "scan": read_job("rocketmq-store", table, query),
        MOST: read_job("ceiling", made, query),
    }
    if query == EVERYTHING:
        jobs["frame"] = read_job("read_store", table, query)
    return jobs


def as_figures(
    name: str, rows: int, measured: dict[str, Rounds], target: Target | None = TARGET
) -> list[Figure]:
    figures = []
    for state, answers in measured.items():
        rates = {side: rows_per_s(rows, each) for side, each in answers.items()}
        for way in [each for each in WAYS if each in rates]:
            for side, peer in PULLS.items():
                line = (f"{name}{WAYS[way]}{state}", "rows/s", rates[way], peer, rates[side])
                figures.append(Figure(CASE, *line, None if side == "bulk" else target))
        if most := rates.get(MOST):
            line_name = f"{name}: ceiling of a data source{state}"
            figures.append(Figure(CASE, line_name, "rows/s", most, PULLS["pull"], rates["pull"]))
    return figures


def without_spark(
    name: str, size: Size, ours: Ours, apache: str, columns: tuple[str, ...]
) -> list[Figure]:
    """One process: batches of a scan, and batches of what the broker gives."""

    def timed(work: Callable[[], int]) -> Answer:
        began = time.perf_counter()
        rows = work()
        if rows != size.messages:
            raise AssertionError(f"{name} has {rows} rows, not {size.messages}")
        return {"seconds": time.perf_counter() - began}

    def scan() -> int:
        wished = StoreLog(ours.store).scan(topics=[TOPIC], columns=columns)
        return sum(batch.num_rows for batch in wished)

    def pulled(address: str, bulk: str) -> int:
        given = {"nameServer": address, "subscribe": TOPIC, "bulkRead": bulk}
        reader = RocketMQBatchReader(SourceOptions.of(given, streaming=False), columns, 1)
        return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))

    measured = in_turn(
        size.rounds,
        {
            "scan": lambda: timed(scan),
            "apache": lambda: timed(lambda: pulled(apache, "false")),
            "pull": lambda: timed(lambda: pulled(ours.address, "false")),
            "bulk": lambda: timed(lambda: pulled(ours.address, "true")),
        },
    )
    return as_figures(name, size.messages, measured)
