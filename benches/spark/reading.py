"""Reading a topic as a batch: next to Kafka's connector and the ceiling; by cores and queues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.spark.brokers import BODY_BYTES, Load, filled_kafka, kafka_jars, our_broker
from benches.spark.figures import Figure, at_least, at_most
from benches.spark.sides import Answer, SparkSide, in_turn, spark_side
from benches.spark.sizes import Size

__all__ = ["EVERYTHING", "batch", "read_job", "rows_per_s", "scaling"]

EVERYTHING = "SELECT * FROM messages"
TOPIC = "bench"
MEMORY_MB = 400
LARGE_BYTES = 4_000_000


def read_job(kind: str, options: dict[str, str], query: str = EVERYTHING) -> dict[str, Any]:
    return {"kind": "read", "format": kind, "options": options, "query": query}


def our_job(address: str, topic: str = TOPIC, **more: str) -> dict[str, Any]:
    return read_job("rocketmq", {"nameServer": address, "subscribe": topic} | more)


def checked(side: SparkSide, job: dict[str, Any], rows: int) -> Callable[[], Answer]:
    """The job, once it is sure that it reads as many rows as it is measured by."""
    found = side.run(job | {"kind": "count"})["rows"]
    if found != rows:
        raise AssertionError(f"{job} has {found} rows, not {rows}")
    return lambda: side.run(job)


def rows_per_s(rows: int, answers: list[Answer]) -> list[float]:
    return [rows / each["seconds"] for each in answers]


def batch(directory: Path, size: Size) -> list[Figure]:
    """All of a topic into the sink that forgets it."""
    load = Load(TOPIC, size.messages)
    ceiling = {"rows": str(size.messages), "bytes": str(BODY_BYTES), "tasks": "2"}
    with (
        our_broker(directory / "ours", load) as ours,
        filled_kafka(directory / "kafka", load) as kafka,
        spark_side() as our_side,
        spark_side() as ceiling_side,
        spark_side(jars=kafka_jars()) as kafka_side,
    ):
        theirs = {"kafka.bootstrap.servers": kafka, "subscribe": TOPIC, "includeHeaders": "true"}
        measured = in_turn(
            size.rounds,
            {
                "ours": checked(our_side, our_job(ours.address), load.messages),
                "ceiling": lambda: ceiling_side.run(read_job("ceiling", ceiling)),
                "kafka": checked(kafka_side, read_job("kafka", theirs), load.messages),
            },
        )
    figures = []
    for state, answers in measured.items():
        rates = {name: rows_per_s(load.messages, each) for name, each in answers.items()}
        name, case = f"read {load.messages:,} of 1 KiB, all columns{state}", "batch"
        figures += [
            Figure(case, name, "rows/s", rates["ours"], "Kafka", rates["kafka"], at_least(1.5)),
            Figure(case, name, "rows/s", rates["ours"], "ceiling", rates["ceiling"], at_least(0.6)),
        ]
    all_ours = [each for rounds in measured.values() for each in rounds["ours"]]
    return [*figures, memory("batch", "a worker at its peak", all_ours)]


def memory(case: str, name: str, answers: list[Answer]) -> Figure:
    peaks = [max(each["worker_mb"] for each in answers)]
    return Figure(case, name, "MB", peaks, target=at_most(MEMORY_MB))


def scaling(directory: Path, size: Size) -> list[Figure]:
    """By 1 and 2 cores, with 1 to 64 queues; and what a worker takes with the largest messages."""
    messages = size.messages // 2
    loads = [Load(f"queues-{queues}", messages, queues) for queues in (1, 8, 64)]
    large = Load("large", max(messages // 4000, 20), 4, LARGE_BYTES)
    figures, answers = [], []
    with our_broker(directory / "ours", *loads, large) as ours:
        rates: dict[tuple[int, str], list[float]] = {}
        for cores in (1, 2):
            with spark_side(cores=cores) as side:
                jobs = {
                    f"{load.queues} queues": our_job(ours.address, load.topic) for load in loads
                }
                split = our_job(ours.address, loads[0].topic, minPartitions=str(cores))
                jobs["1 queues, minPartitions = cores"] = split
                for name, job in jobs.items():
                    side.run(job)
                    answer = side.run(job)
                    rates[cores, name] = rows_per_s(messages, [answer])
                    answers.append(answer)
        for (cores, name), rate in rates.items():
            if cores == 2:
                line = (f"{name}, 2 cores", "rows/s", rate, "1 core", rates[1, name])
                figures.append(Figure("scaling", *line))
        figures.append(memory("scaling", "a worker at its peak, 1 to 64 queues", answers))
        with spark_side() as side:
            name = f"a worker at its peak, bodies of {LARGE_BYTES // 1_000_000} MB"
            figures.append(memory("scaling", name, [side.run(our_job(ours.address, "large"))]))
    return figures
