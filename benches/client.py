"""The Python client against the official Java client, and against what else Python users pick.

The clients talk to one broker, `orbitmq up`; the Kafka libraries to a Kafka broker of one node.
Each figure is made by a process of its own, the sides in turn.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benches.broker import load_side, our_broker
from benches.kafka import kafka_broker
from benches.measurements import Outcome, fresh_directory
from benches.sides import HEAP, PEERS, BenchError, Figures, Side
from compat import jars
from compat.java_machine import MODULE_FLAGS, compile_java, java_tools

QUEUES = 4
"""What a topic gets that its first message creates."""
JAVA = "Java client 4.9.7"
CLASSES = "from orbitmq import Producer, PushConsumer"
BIG_PULLS = json.dumps({"pull_batch_size": 1000})


@dataclass(frozen=True)
class ClientSizes:
    """How much of everything; `quick` is for trying the harness, not for quoting."""

    rounds: int = 3
    sync_sends: int = 30_000
    async_sends: int = 200_000
    consumed: int = 1_000_000
    latency: int = 2_000

    @staticmethod
    def quick() -> ClientSizes:
        return ClientSizes(1, 2_000, 20_000, 50_000, 200)


def our_client() -> Side:
    return Side("our client", [sys.executable, "-m", "benches.peers.our_client"])


def kafka_client() -> Side:
    return Side("Kafka client", [sys.executable, "-m", "benches.peers.kafka_client"])


def java_client() -> Side:
    tools = java_tools()
    if tools is None:
        raise BenchError("java and javac (JDK 17) are needed to measure the official client")
    directory = jars.fetch()
    command = [tools[0], *MODULE_FLAGS, f"-Xms{HEAP}", f"-Xmx{HEAP}"]
    command += [f"-Dlogback.configurationFile={PEERS / 'logback.xml'}"]
    command += [f"-Drocketmq.client.logRoot={os.devnull}", "-Drocketmq.client.logUseSlf4j=true"]
    class_path = f"{compile_java(PEERS)}{os.pathsep}{jars.class_path(directory)}"
    return Side("Java client", [*command, "-cp", class_path, "ClientBench"])


def client(sizes: ClientSizes, work: Path) -> tuple[list[Outcome], list[str]]:
    """Measure all of it; returns the outcomes and the commands that made them."""
    ours, java, load, kafka = our_client(), java_client(), load_side(), kafka_client()
    numbers = count()
    outcomes: list[Outcome] = []

    with fresh_directory(work, "client") as directory, our_broker(directory / "ours") as broker:
        at = ("--nameserver", broker.address)

        def group() -> tuple[str, str]:
            return ("--group", f"bench-{next(numbers)}")

        def compare(
            name: str,
            unit: str,
            target: str,
            ask_us: Callable[[], Figures],
            ask_them: Callable[[], Figures],
            *,
            peer: str = JAVA,
            higher_is_better: bool = True,
        ) -> None:
            rounds = [(ask_us(), ask_them()) for _ in range(sizes.rounds)]
            (key,) = (k for k in rounds[0][0] if k in rounds[0][1])
            mine, others = [us[key] for us, _ in rounds], [them[key] for _, them in rounds]
            outcomes.append(Outcome(name, unit, target, mine, others, higher_is_better, peer))

        sends = ("--messages", str(sizes.sync_sends), "--topic", "sync")
        compare(
            "sync send, one thread", "messages/s", "≥ 2",
            lambda: ours.run("send", *at, *sends), lambda: java.run("send", *at, *sends),
        )  # fmt: skip

        many = ("--messages", str(sizes.async_sends), "--warmup", "20000", "--topic", "async")
        window = ("--connections", "1", "--queues", str(QUEUES), "--body", "128", "--window", "256")
        compare(
            "async send, a task each", "messages/s", "≥ 0.3",
            lambda: ours.run("async-send", *at, *many),
            lambda: load.run(
                "send", "--address", broker.address, "--topic", "async",
                "--messages", str(sizes.async_sends), *window,
            ),
            peer="load generator, 256 in flight",
        )  # fmt: skip
        lingering = (*at, *many, "--linger-ms", "5")
        compare(
            "async, enqueued for batches", "messages/s", "≥ 4",
            lambda: ours.run("async-send", *lingering),
            lambda: ours.run("async-send", *at, *many),
            peer="without batching",
        )  # fmt: skip

        consumed = ("--messages", str(sizes.consumed), "--topic", "small")
        ours.run("fill", *at, *consumed)

        def java_push() -> Figures:
            return java.run("push", *at, *group(), *consumed)

        compare(
            "push, a call per message", "messages/s", "≥ 1",
            lambda: ours.run("push", *at, *group(), *consumed), java_push,
        )  # fmt: skip
        compare(
            "push, lists of 1 000", "messages/s", "≥ 5",
            lambda: ours.run(
                "push", *at, *group(), *consumed, "--batch", "1000", "--settings", BIG_PULLS
            ),
            java_push,
        )  # fmt: skip
        probes = ("--messages", str(sizes.latency), "--topic", "probe")
        compare(
            "send to handler, median", "us", "≥ 1",
            lambda: ours.run("latency", *at, *group(), *probes),
            lambda: java.run("latency", *at, *group(), *probes),
            higher_is_better=False,
        )  # fmt: skip

        with kafka_broker(directory / "kafka", QUEUES) as address:
            kafka_at = ("--address", address)
            compare(
                "async, enqueued for batches", "messages/s", "",
                lambda: ours.run("async-send", *lingering),
                lambda: kafka.run("aiokafka-send", *kafka_at, *many),
                peer="aiokafka",
            )  # fmt: skip
            kafka.run("confluent-send", *kafka_at, *consumed)
            compare(
                "async for", "messages/s", "≥ 1",
                lambda: ours.run("async-for", *at, *group(), *consumed),
                lambda: kafka.run("aiokafka-for", *kafka_at, *group(), *consumed),
                peer="aiokafka",
            )  # fmt: skip
            compare(
                "push, lists of 1 000", "messages/s", "",
                lambda: ours.run(
                    "push", *at, *group(), *consumed, "--batch", "1000", "--settings", BIG_PULLS
                ),
                lambda: kafka.run("confluent-batches", *kafka_at, *group(), *consumed),
                peer="confluent-kafka",
            )  # fmt: skip
        for name, target, words in (
            ("import orbitmq", "≤ 150 ms", ["import"]),
            ("import producer and consumer", "", ["import", "--code", CLASSES]),
            ("first send after start", "≤ 100 ms", ["first-send", *at]),
        ):
            taken_ms = [ours.run(*words)["ms"] for _ in range(sizes.rounds)]
            outcomes.append(Outcome(name, "ms", target, taken_ms, [], False, ""))
    return outcomes, [c for side in (ours, java, load, kafka) for c in side.commands_run]
