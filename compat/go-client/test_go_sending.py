"""Sends of every kind by the Go client, and the answers of the brokers."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from compat.go_peer import GoClient, GoError
from compat.go_system import MakeSystem, StartGo, System

pytest_plugins = ["compat.go_fixtures"]

COUNT = 40


def queues_of(clients: list[GoClient]) -> dict[tuple[str, int], list[int]]:
    """Return the numbers of the messages in each queue, in the order of their offsets."""
    found = sorted(
        (line["broker"], line["queue_id"], line["offset"], line["number"])
        for client in clients
        for line in client.got
    )
    queues: dict[tuple[str, int], list[int]] = {}
    for broker, queue_id, _, number in found:
        queues.setdefault((broker, queue_id), []).append(number)
    return queues


def test_sync_sends_are_spread_over_all_queues(go: StartGo, system: System) -> None:
    system.create_topic("go-sync")
    sent = go("send", "go-sync", count=COUNT).finish().sent
    assert [line["number"] for line in sent] == list(range(COUNT))
    # Round robin: every queue of every broker gets its share, and offsets grow one by one.
    queues = Counter((line["broker"], line["queue_id"]) for line in sent)
    assert len(queues) == 4 * len(system.brokers)
    assert max(queues.values()) - min(queues.values()) <= 1
    for queue in queues:
        offsets = [line["offset"] for line in sent if (line["broker"], line["queue_id"]) == queue]
        assert offsets == list(range(len(offsets)))
    assert len({line["offset_id"] for line in sent}) == COUNT

    consumer = go("push", "go-sync", group="g-sync")
    consumer.until_got(set(range(COUNT)))
    consumer.stop()
    by_number = {line["number"]: line for line in sent}
    for line in consumer.got:
        acknowledged = by_number[line["number"]]
        for name in ("broker", "queue_id", "offset", "msg_id", "offset_id"):
            assert line[name] == acknowledged[name], name
        assert line["keys"] == f"key-{line['number']}"
        assert line["topic"] == "go-sync"


def test_a_topic_is_created_by_its_first_message(go: StartGo, system: System) -> None:
    sent = go("send", "go-created", count=3).finish().sent
    assert len(sent) == 3
    consumer = go("push", "go-created", group="g-created")
    consumer.until_got({0, 1, 2})


def test_async_sends_are_all_stored(go: StartGo, system: System) -> None:
    system.create_topic("go-async")
    producer = go("send", "go-async", mode="async", count=200).finish()
    assert producer.errors == []
    assert {line["number"] for line in producer.sent} == set(range(200))
    consumer = go("push", "go-async", group="g-async")
    consumer.until_got(set(range(200)))


def test_oneway_sends_are_all_stored(go: StartGo, system: System) -> None:
    system.create_topic("go-oneway")
    consumer = go("push", "go-oneway", group="g-oneway").ready()
    # A one-way sender has no answer to wait for: it stays until its last bytes are sent.
    producer = go("send", "go-oneway", mode="oneway", count=COUNT, every_ms=5).finish()
    assert producer.said == [{"stopped": True}]
    consumer.until_got(set(range(COUNT)))


def test_a_batch_is_stored_message_by_message(go: StartGo, system: System) -> None:
    system.create_topic("go-batch")
    sent = go("send", "go-batch", mode="batch", count=40, batch=10, tags="a,b").finish().sent
    assert [line["number"] for line in sent] == [0, 10, 20, 30]
    for line in sent:
        assert len(line["offset_id"].split(",")) == 10
    consumer = go("push", "go-batch", group="g-batch")
    consumer.until_got(set(range(40)))
    in_queues = queues_of([consumer])
    for line in sent:
        first = line["number"]
        queue = in_queues[line["broker"], line["queue_id"]]
        assert queue[line["offset"] : line["offset"] + 10] == list(range(first, first + 10))
    assert {line["tags"] for line in consumer.got if line["number"] % 2} == {"b"}


def test_a_selector_chooses_the_queue(go: StartGo, system: System) -> None:
    system.create_topic("go-selector")
    for broker in system.brokers:
        producer = go("send", "go-selector", count=5, broker=broker, queue=3).finish()
        assert [(line["broker"], line["queue_id"], line["offset"]) for line in producer.sent] == [
            (broker, 3, offset) for offset in range(5)
        ]


def test_a_send_to_a_missing_queue_is_refused(go: StartGo, system: System) -> None:
    system.create_topic("go-no-queue")
    producer = go("send", "go-no-queue", broker=system.brokers[0], queue=9, retries=0).finish()
    (error,) = producer.errors
    assert "queueId[9] is illegal" in error


@pytest.mark.parametrize("zeros", [True, False])
def test_compressed_bodies_arrive_unchanged(go: StartGo, system: System, zeros: bool) -> None:
    topic = f"go-compressed-{zeros}"
    system.create_topic(topic)
    go("send", topic, bytes=100_000, zeros=zeros, count=3).finish()
    consumer = go("push", topic, group=f"g-compressed-{zeros}")
    consumer.until_got({0, 1, 2})
    for line in consumer.got:
        assert line["bytes"] == 100_000
        assert line["compressed"]
        if zeros:
            body = f"{line['number']} ".encode().ljust(100_000, b"\0")
            assert line["sha1"] == hashlib.sha1(body).hexdigest()


def test_bodies_of_the_largest_size_are_stored(go: StartGo, system: System) -> None:
    system.create_topic("go-largest")
    uncompressed = 1 << 30
    producer = go("send", "go-largest", bytes=4 << 20, compress=uncompressed, count=2).finish()
    assert producer.errors == []
    consumer = go("push", "go-largest", group="g-largest")
    consumer.until_got({0, 1})
    assert {line["bytes"] for line in consumer.got} == {4 << 20}
    assert len({line["sha1"] for line in consumer.got}) == 2


def test_a_body_beyond_the_limit_is_refused(go: StartGo, system: System) -> None:
    system.create_topic("go-too-large")
    size = (4 << 20) + 1
    producer = go("send", "go-too-large", bytes=size, compress=1 << 30, retries=0).finish()
    (error,) = producer.errors
    assert "the message is illegal, maybe msg body or properties length not matched" in error


def test_properties_beyond_the_limit_are_refused(go: StartGo, system: System) -> None:
    system.create_topic("go-properties")
    producer = go("send", "go-properties", property=33_000, retries=0).finish()
    (error,) = producer.errors
    assert "the message is illegal, maybe msg body or properties length not matched" in error


def test_an_unknown_topic_is_refused_without_automatic_creation(
    go: StartGo, make_system: MakeSystem
) -> None:
    strict = make_system(autoCreateTopicEnable="false")
    producer = go("send", "go-unknown", at=strict, retries=0).finish()
    (error,) = producer.errors
    assert error == "the topic=go-unknown route info not found"
    with pytest.raises(GoError, match="route info not found, it may not exist"):
        go("push", "go-unknown", at=strict, group="g-unknown").ready()
    strict.create_topic("go-known", queues=1)
    assert go("send", "go-known", at=strict).finish().errors == []
