"""Traffic of Java producers and consumers for the suites, and its results."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat.java_cluster import JavaCluster
from compat.java_peer import JavaPeer
from compat.records import SCHEDULE_TOPIC
from compat.store_view import Queue

TOPICS = {"Orders": 4, "Payments": 8, "Audit": 1}
DELAY_LEVELS = 18
# Levels of 1 s and 5 s, which fall due while a test waits, and of 30 min and more, which do not.
SHORT_LEVELS = (1, 2)
LONG_LEVELS = (16, 17, 18)
DELIVERY_TIMEOUT_S = 60


def topic_queues() -> list[Queue]:
    return [(topic, queue_id) for topic, count in TOPICS.items() for queue_id in range(count)]


def all_queues() -> list[Queue]:
    return topic_queues() + [(SCHEDULE_TOPIC, level - 1) for level in range(1, DELAY_LEVELS + 1)]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One message and the broker's answer to its producer."""

    number: int
    topic: str
    queue_id: int
    queue_offset: int
    unique_key: str
    offset_id: str
    delay_level: int
    tags: str | None = None
    keys: tuple[str, ...]
    flag: int
    body_size: int
    body_sha1: str
    properties: dict[str, str]

    @property
    def stored_queue(self) -> Queue:
        """Queue of the record: a delayed message waits in the queue of its level."""
        if self.delay_level:
            return SCHEDULE_TOPIC, self.delay_level - 1
        return self.topic, self.queue_id

    @property
    def physical_offset(self) -> int:
        """Physical offset, from the last 8 bytes of the offset id."""
        return int(self.offset_id[-16:], 16)


def read_lines(path: Path) -> Iterable[Any]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def java_writes(
    peer: JavaPeer,
    cluster: JavaCluster,
    *,
    seed: int,
    count: int = 0,
    create_topics: bool = False,
    delay_levels: Sequence[int] = SHORT_LEVELS + LONG_LEVELS,
    until_failure: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> list[Sent]:
    """Send with real producers; return the acknowledged messages, in no particular order."""
    manifest = peer.home / f"manifest-{seed}.jsonl"
    peer.do(
        "write",
        on_progress=on_progress,
        nameserver=cluster.nameserver,
        broker_name=cluster.settings.name,
        topics=TOPICS,
        create_topics=create_topics,
        delay_levels=list(delay_levels),
        seed=seed,
        first=0,
        count=count,
        until_failure=until_failure,
        threads=12,
        manifest=str(manifest),
    )
    return [Sent(**{**line, "keys": tuple(line["keys"])}) for line in read_lines(manifest)]


def await_deliveries(peer: JavaPeer, cluster: JavaCluster) -> None:
    """Wait until every message of the short delay levels is in its real topic."""
    deadline = time.monotonic() + DELIVERY_TIMEOUT_S
    while True:
        *ranges, table = peer.ask(
            cluster.broker,
            [
                *(
                    {"ask": "range", "topic": SCHEDULE_TOPIC, "queue_id": level - 1}
                    for level in SHORT_LEVELS
                ),
                {"ask": "runtime"},
            ],
        )
        waiting = {
            level: table.get(f"scheduleMessageOffset_{level}")
            for level, answer in zip(SHORT_LEVELS, ranges, strict=True)
            if int(table.get(f"scheduleMessageOffset_{level}", "0").split(",")[0]) < answer["max"]
        }
        if table and not waiting:
            return
        assert time.monotonic() < deadline, f"delayed messages are not delivered: {waiting}"
        select.select([], [], [], 0.1)


def java_consumes(
    peer: JavaPeer, cluster: JavaCluster, *, group: str, expected: int
) -> list[dict[str, Any]]:
    """Return all messages a real push consumer of a new group reads from the first offset."""
    out = peer.home / f"consumed-{group}.jsonl"
    peer.do(
        "consume",
        nameserver=cluster.nameserver,
        group=group,
        topics=list(TOPICS),
        expected=expected,
        quiet_ms=30_000,
        out=str(out),
    )
    return list(read_lines(out))
