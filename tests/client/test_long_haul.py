"""Ten million messages through one consumer, whose memory does not grow.

The messages are put into the store's files before its broker starts: sending them would take longer
than all the rest. The consumer is a process of its own, so that nothing else is in its memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq import Admin, NewMessage, Store, StoreOptions
from orbitmq.testing import LocalCluster

TOPIC = "haul"
QUEUES = 4
MESSAGES = 10_000_000
LOOK_EVERY = 1_000_000
SETTLED_AFTER = 2
"""Millions of messages until all workers run and their memory has been touched once."""
GROWTH_MIB = 24
CONCURRENCY = 8
FILE_BYTES = 64 << 20

CONSUMER = """
import itertools, json, sys, threading
from orbitmq import PushConsumer

address, topic = sys.argv[1:3]
wanted, every, concurrency = map(int, sys.argv[3:])
consumer = PushConsumer(
    address, group="haulier", consume_from="first", concurrency=concurrency
)
numbers, done = itertools.count(1), threading.Event()

def look(seen):
    with open("/proc/self/status") as status:
        kib = int(status.read().partition("RssAnon:")[2].split()[0])
    names = [thread.name for thread in threading.enumerate()]
    workers = sum(name.startswith("orbitmq-haulier") for name in names)
    figures = {"workers": workers, "other_threads": len(names) - workers}
    print(json.dumps({"seen": seen, "mib": kib / 1024, **figures}), flush=True)

@consumer.on(topic)
def handle(message):
    seen = next(numbers)
    if seen % every == 0:
        look(seen)
        if seen == wanted:
            done.set()

with consumer:
    assert done.wait(400), next(numbers)
"""


def fill(directory: Path) -> None:
    # The sizes of a test cluster.
    options = StoreOptions(
        commit_log_file_size=FILE_BYTES, index_slots=50_000, index_entries=200_000
    )
    with Store.open(directory, options, create=True) as store:
        for queue_id in range(QUEUES):
            message = NewMessage(TOPIC, b"sixteen bytes ..", queue_id=queue_id)
            batch = [message] * 10_000
            for _ in range(MESSAGES // QUEUES // len(batch)):
                store.append_many(batch)


@pytest.mark.timeout(600)
def test_memory_is_flat_over_ten_million_messages(tmp_path: Path) -> None:
    fill(tmp_path / "broker-a")
    with LocalCluster(data=tmp_path) as cluster:
        with Admin(cluster.address) as admin:
            admin.create_topic(TOPIC, queues=QUEUES)
        numbers = map(str, (MESSAGES, LOOK_EVERY, CONCURRENCY))
        done = subprocess.run(
            [sys.executable, "-c", CONSUMER, cluster.address, TOPIC, *numbers],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [look["seen"] for look in looks] == list(range(LOOK_EVERY, MESSAGES + 1, LOOK_EVERY))
    settled, *later = looks[SETTLED_AFTER - 1 :]
    assert max(look["mib"] for look in later) - settled["mib"] < GROWTH_MIB, looks
    # Workers are created when there is work for them, so their present number is random; the
    # maximum is not.
    assert all(0 < look["workers"] <= CONCURRENCY for look in looks), looks
    assert {look["other_threads"] for look in later} == {settled["other_threads"]}, looks
