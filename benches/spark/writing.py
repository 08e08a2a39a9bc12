"""Writing rows to a topic, at least once and exactly once, next to Spark's Kafka sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benches.spark.brokers import BODY_BYTES, OUT, Load, filled_kafka, kafka_jars, our_broker
from benches.spark.figures import Figure, at_least
from benches.spark.reading import rows_per_s
from benches.spark.sides import in_turn, spark_side
from benches.spark.sizes import Size

__all__ = ["sink"]


def sink(directory: Path, size: Size) -> list[Figure]:
    """Rows of 1 KiB that the JVM makes from nothing, by two tasks, to 8 queues."""
    rows = size.messages // 2
    job: dict[str, Any] = {"kind": "write", "rows": rows, "bytes": BODY_BYTES, "tasks": 2}
    with (
        our_broker(directory / "ours") as ours,
        filled_kafka(directory / "kafka", Load("other", 0)) as kafka,
        spark_side() as our_side,
        spark_side() as once_side,
        spark_side(jars=kafka_jars()) as kafka_side,
    ):
        options = {"nameServer": ours.address, "topic": OUT}
        our_job = job | {"format": "rocketmq", "column": "body", "options": options}
        once = our_job | {"options": options | {"deduplicate": "true"}}
        their_options = {"kafka.bootstrap.servers": kafka, "topic": OUT}
        theirs = job | {"format": "kafka", "column": "value", "options": their_options}
        measured = in_turn(
            size.rounds,
            {
                "ours": lambda: our_side.run(our_job),
                "once": lambda: once_side.run(once),
                "kafka": lambda: kafka_side.run(theirs),
            },
        )
    figures = []
    for state, answers in measured.items():
        rates = {name: rows_per_s(rows, each) for name, each in answers.items()}
        name = f"write {rows:,} of 1 KiB"
        least, once_name = f"{name}, at least once{state}", f"{name}, exactly once{state}"
        figures += [
            Figure("sink", least, "rows/s", rates["ours"], "Kafka", rates["kafka"], at_least(1)),
            Figure("sink", once_name, "rows/s", rates["once"], "Kafka", rates["kafka"]),
        ]
    return figures
