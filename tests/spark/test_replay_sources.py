"""Messages that a replay takes from its source, and the queues they keep."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orbitmq import Message, NewMessage, Producer
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.spark.pipelines import Exit
from orbitmq.testing import LocalCluster
from tests.spark.archiving import Archive, Replay, texts
from tests.spark.conftest import NewTopic
from tests.spark.small_stores import HOST, T0, fill, open_small
from tests.spark.topics import bodies_in, produce, records_in

pytestmark = pytest.mark.newest_spark

OWN = (
    *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_orbit_timers"),
    *("%RETRY%group", "TRANS_CHECK_MAX_TIME_TOPIC"),
)


def test_system_topics_are_not_replayed(
    replay: Replay, cluster: LocalCluster, tmp_path: Path, new_topic: NewTopic
) -> None:
    target = new_topic(cluster, queues=1)
    with open_small(tmp_path / "store") as store:
        for number, topic in enumerate((*OWN, "orders", "XXXX_SCHEDULE_TOPIC_XXXX_mine")):
            message = NewMessage(topic, topic.encode(), born_timestamp=T0, store_host=HOST)
            store.append(message, now_ms=T0 + number)
    keys: dict[str, Any] = {"name_server": cluster.address, "source": {"store": "store"}}
    code, report = replay(**keys, sink={"topic": target})
    assert (code, report.facts["messages"]) == (Exit.DONE, 2)
    expected = Counter([b"orders", b"XXXX_SCHEDULE_TOPIC_XXXX_mine"])
    assert bodies_in(cluster, target) == expected
    code, report = replay(**keys, topics=["%RETRY%group"], dry_run=True)
    assert (code, report.facts["messages"]) == (Exit.DONE, 1), "who names a topic gets it"


def test_queues_of_two_brokers_are_kept(
    replay: Replay,
    two_brokers: LocalCluster,
    tmp_path: Path,
    new_topic: NewTopic,
) -> None:
    topic, target = new_topic(two_brokers, queues=2), new_topic(two_brokers, queues=2)
    with Producer(two_brokers.address, group="test") as producer:
        for broker in sorted(two_brokers.brokers):
            for queue in range(2):
                place = MessageQueue(topic, broker, queue)
                producer.send(Message(topic, f"{broker} {queue}".encode()), queue=place)
    keys: dict[str, Any] = {
        "name_server": two_brokers.address,
        "source": {"topic": topic},
        "sink": {"topic": target, "keep_queues": True},
    }
    code, report = replay(**keys)
    assert (code, report.facts["messages"]) == (Exit.DONE, 4)
    kept = {
        record.body.decode(): (name, record.queue_id)
        for name, record in records_in(two_brokers, target)
    }
    assert kept == {
        f"{name} {queue}": (name, queue) for name in two_brokers.brokers for queue in (0, 1)
    }
    fill(tmp_path / "store", 4)
    keys["source"] = {"store": "store"}
    told = replay.refused(**keys)
    assert "replay.toml: sink.keep_queues: " in told
    assert "add brokerName to source.options" in told
    keys["source"] = {"store": "store", "options": {"brokerName": "broker-z"}}
    told = replay.refused(**keys)
    assert "messages of broker-z cannot keep their queues" in told
    assert "broker-a, broker-b" in told


def test_an_archive_keeps_the_brokers_of_its_queues(
    replay: Replay,
    archive: Archive,
    cluster: LocalCluster,
    two_brokers: LocalCluster,
    tmp_path: Path,
    new_topic: NewTopic,
) -> None:
    topic, target = new_topic(cluster, queues=1), new_topic(two_brokers, queues=1)
    produce(cluster, topic, texts(0, 5))
    keys: dict[str, Any] = {
        "name_server": two_brokers.address,
        "source": {"archive": "archive"},
        "sink": {"topic": target, "keep_queues": True},
        "rate": 100.0,
    }
    assert "is no archive" in replay.refused(**keys)
    archive.fill(topic)
    code, report = replay(**keys)
    assert (code, report.facts["messages"]) == (Exit.DONE, 5)
    (broker,) = cluster.brokers
    assert {name for name, _ in records_in(two_brokers, target)} == {broker}
