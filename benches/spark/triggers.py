"""Micro-batches: what a trigger takes that has something to do, what a stream asks that has not.

The floors are the engine's own: rows of Spark's `rate` source to the sink that forgets them, all in
the JVM; and a row of a source in Python to a sink in Python, neither of which does anything.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from benches.spark.brokers import OUT, Load, filled_kafka, kafka_jars, our_broker
from benches.spark.figures import Figure, at_most
from benches.spark.sides import Answer, spark_side
from benches.spark.sizes import Size
from orbitmq import Admin
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster

__all__ = ["idle", "latency"]

TOPIC = "bench"
LATENCY_MS = 80
IDLE_REQUESTS_PER_S = 2
SETTLING_S = 2
HEARTBEATS = {RequestCode.HEART_BEAT, RequestCode.REGISTER_BROKER}


def latency(directory: Path, size: Size) -> list[Figure]:
    """Source to sink with 1 and 8 queues, while messages trickle in."""

    def take(job: dict[str, Any], jars: list[str] | None = None) -> Answer:
        times = {"warm_up_s": size.warm_up_s, "triggers_s": size.triggers_s}
        with spark_side(jars=jars) as side:
            return side.run({"kind": "latency", "directory": str(directory)} | times | job)

    rate = {"format": "rate", "options": {"rowsPerSecond": "100"}, "select": ["value"]}
    nobody = {"sender": "none", "sink_options": {}}
    floor = take(rate | nobody | {"sink": "noop"})
    in_python = {"format": "ceiling", "options": {"columns": "body"}, "select": ["body"]}
    python_floor = take(in_python | nobody | {"sink": "ceiling"})
    floors = (("floor in the JVM", floor), ("floor with Python", python_floor))
    figures: list[Figure] = []
    for queues in (1, 8):
        load = Load(TOPIC, 0, queues)
        with our_broker(directory / "ours", load) as ours:
            options = {"nameServer": ours.address, "subscribe": TOPIC, "columns": "body"}
            sink = {"nameServer": ours.address, "topic": OUT}
            job = {"format": "rocketmq", "options": options, "select": ["body"]}
            job |= {"sink": "rocketmq", "sink_options": sink}
            answer = take(job | sender("rocketmq", ours.address))
        with filled_kafka(directory / "kafka", load) as kafka:
            options = {"kafka.bootstrap.servers": kafka, "subscribe": TOPIC}
            sink = {"kafka.bootstrap.servers": kafka, "topic": OUT}
            job = {"format": "kafka", "options": options, "select": ["value"]}
            job |= {"sink": "kafka", "sink_options": sink}
            theirs = take(job | sender("kafka", kafka), kafka_jars())
        name = f"a trigger, {queues} queues"
        for peer, of_peer in (("Kafka", theirs), *floors):
            target = at_most(LATENCY_MS) if peer == "Kafka" else None
            phases = {"ours": answer["phases"], "peer": of_peer["phases"]}
            line = ("latency", name, "ms", answer["ms"], peer, of_peer["ms"], target, phases)
            figures.append(Figure(*line))
    return figures


def sender(kind: str, address: str) -> dict[str, str]:
    return {"sender": kind, "address": address, "topic": TOPIC}


def idle(directory: Path, size: Size) -> list[Figure]:
    """Requests a second that reach a broker while nothing is sent."""
    figures = []
    for queues in (8, 64):
        with LocalCluster() as cluster, spark_side() as side:
            with Admin(cluster.address) as admin:
                admin.create_topic(TOPIC, queues=queues)
            options = {"nameServer": cluster.address, "subscribe": TOPIC}
            job = {"format": "rocketmq", "options": options, "select": ["body"]}
            job |= {"sink": "noop", "sink_options": {}, "directory": str(directory)}
            side.run({"kind": "stream"} | job)
            time.sleep(SETTLING_S)  # the first questions are not those of an idle stream
            asked = requests_of(cluster, size.idle_s)
            side.run({"kind": "stop"})
        name, details = f"an idle stream, {queues} queues", {"by_code": dict(asked)}
        rate = [asked.total() / size.idle_s]
        target = at_most(IDLE_REQUESTS_PER_S)
        figures.append(Figure("idle", name, "requests/s", rate, target=target, details=details))
    return figures


def requests_of(cluster: LocalCluster, seconds: float) -> Counter[int]:
    """What a broker is asked meanwhile, by code."""
    router = cluster.brokers["broker-a"].router
    asked: Counter[int] = Counter()
    find = router.find

    def counting(code: int) -> Any:
        asked[code] += 1
        return find(code)

    router.find = counting  # type: ignore[method-assign]
    time.sleep(seconds)
    router.find = find  # type: ignore[method-assign]
    for code in HEARTBEATS:
        asked.pop(code, None)  # of the broker itself and of clients in general, not of the stream
    return asked
