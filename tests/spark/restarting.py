"""Brokers that restart under a running stream while their nameserver stays.

Several brokers of one topic restart at the same time, each on a thread of its own by its own part
of a schedule. They are watched by two streams: a query of Spark's for which a loss is an error, and
a reader that is asked as Spark asks it for which a loss is a warning.

A broker gets some messages, each acknowledged, and then goes. Most go when the query has read them:
the query looks for more while the broker is away. Some go at once: the query has a batch of it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.streaming.query import StreamingQuery

from orbitmq import Admin, Message, Producer
from orbitmq.protocol.bodies import MessageQueue
from tests.spark.source_fixtures import bodies, reader, start, stream, written

__all__ = ["SCHEDULE", "Restart", "Restartable", "outlive"]

TOPIC = "restarting"
QUEUES = 2
MESSAGES = 6
"""Number of messages that a broker gets before it stops."""
LIMIT_S = 180.0
ROUNDS = int(os.environ.get("SOAK", "1"))
TRIGGER_S = 0.05


@dataclass(frozen=True)
class Restart:
    """A kind of stop, its duration, and whether a batch may need the broker meanwhile."""

    how: Literal["kill", "stop"]
    away_s: float
    while_read: bool = False


KILL: Final = "kill"
STOP: Final = "stop"
SCHEDULE: Sequence[Sequence[Restart]] = (
    (
        *(Restart(KILL, 4), Restart(STOP, 3.3), Restart(KILL, 5), Restart(STOP, 2)),
        *(Restart(KILL, 3), Restart(KILL, 1, while_read=True), Restart(KILL, 4)),
    ),
    (
        *(Restart(STOP, 4), Restart(KILL, 3.6), Restart(KILL, 2), Restart(STOP, 5)),
        *(Restart(STOP, 1, while_read=True), Restart(KILL, 4)),
    ),
    (
        *(Restart(KILL, 3), Restart(KILL, 4.5), Restart(STOP, 4), Restart(KILL, 1)),
        *(Restart(KILL, 3, while_read=True), Restart(STOP, 2.5)),
    ),
    (Restart(KILL, 2), Restart(STOP, 30)),
)
"""Of four brokers: 21 restarts, 12 by kill -9. `SOAK=3` repeats all of them three times."""


class Restartable(Protocol):
    """A broker; `start` returns when it is registered."""

    name: str

    def start(self) -> None:
        """Start or restart the broker."""

    def stop(self) -> None:
        """Stop it in order."""

    def kill(self) -> None:
        """Kill it with kill -9."""


class _Follower(threading.Thread):
    """Reads a topic like Spark, and continues after lost messages."""

    def __init__(self, nameserver: str) -> None:
        super().__init__(name="follower", daemon=True)
        self.bodies: list[str] = []
        self.error: BaseException | None = None
        self._reader = reader(
            nameserver,
            subscribe=TOPIC,
            startingOffsets="earliest",
            failOnDataLoss="false",
            maxBrokerAbsence="1h",
            columns="body",
        )
        self._over = threading.Event()

    def run(self) -> None:
        try:
            at = self._reader.initialOffset()
            while not self._over.wait(TRIGGER_S):
                end = self._reader.latestOffset(at, ReadAllAvailable())
                if end == at:
                    continue
                for task in self._reader.partitions(at, end):
                    for batch in self._reader.read(task):
                        column = pa.record_batch(batch).column("body").to_pylist()
                        self.bodies += [bytes(body).decode() for body in column]
                at = end
        except BaseException as error:
            self.error = error
        finally:
            self._reader.stop()

    def end(self) -> None:
        self._over.set()
        self.join(LIMIT_S)


class _Restarts:
    """The query, and the messages sent to it."""

    def __init__(self, nameserver: str, query: StreamingQuery) -> None:
        self.expected: list[str] = []
        self.outlived: list[str] = []
        """The restarts after which the query still ran."""
        self._nameserver = nameserver
        self._query = query

    def run(self, broker: Restartable, schedule: Iterable[Restart]) -> None:
        """Restart a broker repeatedly."""
        for number, restart in enumerate(schedule):
            self._send(broker, number)
            if not restart.while_read:
                self._await_reading(broker, (number + 1) * MESSAGES)
            (broker.kill if restart.how == KILL else broker.stop)()
            time.sleep(restart.away_s)  # This is the subject of the test.
            broker.start()
            what = f"{broker.name}, restart {number}: {restart}"
            self._check(what)
            self.outlived.append(what)

    def _send(self, broker: Restartable, number: int) -> None:
        with Producer(self._nameserver, group="restarts", retry_times=0, timeout_ms=60_000) as one:
            queues = [MessageQueue(TOPIC, broker.name, queue_id) for queue_id in range(QUEUES)]
            for each in range(MESSAGES):
                body = f"{broker.name}-{number:03d}-{each}"
                one.send(Message(TOPIC, body.encode()), queue=queues[each % QUEUES])
                self.expected.append(body)

    def _await_reading(self, broker: Restartable, count: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self._read_of(broker) < count:
            self._check(f"{broker.name} waits for its messages to be read")
            assert time.monotonic() < deadline, self._query.lastProgress
            time.sleep(0.05)  # Spark has no event for it.

    def _read_of(self, broker: Restartable) -> int:
        progress = self._query.lastProgress
        if progress is None:
            return 0
        offsets: Mapping[str, Mapping[str, Mapping[str, int]]]
        offsets = json.loads(progress["sources"][0]["endOffset"] or "{}")
        return sum(offsets.get(TOPIC, {}).get(broker.name, {}).values())

    def _check(self, when: str) -> None:
        error = self._query.exception()
        text = f"after {len(self.outlived)} restarts, at {when}: {error}"
        assert error is None, text


def outlive(
    spark: SparkSession,
    nameserver: str,
    brokers: Sequence[Restartable],
    directory: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Restart brokers by the schedule while streams run that must not be affected."""
    schedule = [tuple(part) * ROUNDS for part in SCHEDULE]
    with Admin(nameserver) as admin:
        admin.create_topic(TOPIC, queues=QUEUES)
    follower = _Follower(nameserver)
    options = {"startingOffsets": "earliest", "maxBrokerAbsence": "1h"}
    query = start(stream(spark, nameserver, TOPIC, **options), directory)
    restarts = _Restarts(nameserver, query)
    follower.start()
    try:
        with ThreadPoolExecutor(len(brokers)) as pool:
            for done in [*map(pool.submit, [restarts.run] * 4, brokers, schedule)]:
                done.result()
        for broker, part in zip(brokers, schedule, strict=True):
            restarts._await_reading(broker, len(part) * MESSAGES)
        deadline = time.monotonic() + LIMIT_S
        while len(follower.bodies) < len(restarts.expected) and follower.is_alive():
            assert time.monotonic() < deadline, "not all was read"
            time.sleep(TRIGGER_S)
    finally:
        query.stop()
        follower.end()
    assert len(restarts.outlived) == sum(map(len, schedule)) == 21 * ROUNDS
    assert follower.error is None
    expected = sorted(restarts.expected)
    assert sorted(follower.bodies) == expected
    assert bodies(written(spark, directory)) == expected
    warned = [each for each in caplog.records if each.name == "orbitmq.spark.source.data_loss"]
    assert not warned, [each.getMessage() for each in warned]
