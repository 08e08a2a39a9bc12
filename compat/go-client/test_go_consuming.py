"""Consumers of every kind in the Go client."""

from __future__ import annotations

import statistics

import pytest

from compat.go_system import StartGo, System
from compat.python_client.shared import await_true
from orbitmq import Admin

pytest_plugins = ["compat.go_fixtures"]

ON_TIME_MS = 900
"""A broker that only scans held pulls takes seconds; a busy machine takes hundreds of ms."""


def test_a_push_consumer_receives_new_messages_at_once(go: StartGo, system: System) -> None:
    """Long polls: a consumer that found nothing receives new messages at once."""
    system.create_topic("go-push")
    consumer = go("push", "go-push", group="g-push").ready()
    producer = go("send", "go-push", count=60, every_ms=20)
    consumer.until_got(set(range(60)))
    producer.finish()
    late_ms = [line["seen_ms"] - line["stored_ms"] for line in consumer.got[10:]]
    assert statistics.median(late_ms) < ON_TIME_MS
    assert len(consumer.got) == 60


def test_a_group_continues_where_it_ended(go: StartGo, system: System) -> None:
    system.create_topic("go-resume")
    go("send", "go-resume", count=20).finish()
    first = go("push", "go-resume", group="g-resume")
    first.until_got(set(range(20)))
    # What a handler has taken may not be marked as consumed yet when the client is stopped.
    with Admin(system.address) as admin:
        await_true(
            "all offsets committed", lambda: admin.group_lag("g-resume", "go-resume").total == 0
        )
    first.stop()
    go("send", "go-resume", first=20, count=20).finish()
    second = go("push", "go-resume", group="g-resume")
    second.until_got(set(range(20, 40)))
    assert second.numbers() == set(range(20, 40))


def test_an_orderly_consumer_receives_each_shard_in_order(go: StartGo, system: System) -> None:
    system.create_topic("go-ordered")
    go("send", "go-ordered", count=200, shards=10).finish()
    consumer = go("push", "go-ordered", group="g-ordered", orderly=True).ready()
    go("send", "go-ordered", first=200, count=100, shards=10).finish()
    consumer.until_got(set(range(300)))
    consumer.stop()
    for shard in range(10):
        numbers = [line["number"] for line in consumer.got if line["shard"] == f"shard-{shard}"]
        assert numbers == list(range(shard, 300, 10))
        queues = {
            (line["broker"], line["queue_id"])
            for line in consumer.got
            if line["shard"] == f"shard-{shard}"
        }
        assert len(queues) == 1


def test_every_member_receives_a_broadcast(go: StartGo, system: System) -> None:
    system.create_topic("go-broadcast")
    consumers = [go("push", "go-broadcast", group="g-cast", broadcast=True) for _ in range(3)]
    for consumer in consumers:
        consumer.ready()
    go("send", "go-broadcast", count=30).finish()
    for consumer in consumers:
        consumer.until_got(set(range(30)))
        assert len(consumer.got) == 30


def test_tags_filter_messages(go: StartGo, system: System) -> None:
    system.create_topic("go-tags")
    consumer = go("push", "go-tags", group="g-tags", tags="a || c").ready()
    go("send", "go-tags", count=60, tags="a,b,c").finish()
    wanted = {number for number in range(60) if number % 3 != 1}
    consumer.until_got(wanted)
    consumer.stop()
    assert consumer.numbers() == wanted
    assert {line["tags"] for line in consumer.got} == {"a", "c"}


def test_every_queue_can_be_pulled(go: StartGo, system: System) -> None:
    system.create_topic("go-pull", queues=2)
    go("send", "go-pull", count=50).finish()
    seen: list[int] = []
    for broker in system.brokers:
        for queue in range(2):
            puller = go("pull", "go-pull", group="g-pull", broker=broker, queue=queue, batch=7)
            got = puller.finish().got
            assert [line["offset"] for line in got] == list(range(len(got)))
            seen += [line["number"] for line in got]
    assert sorted(seen) == list(range(50))


def test_a_polling_consumer_receives_all_messages(go: StartGo, system: System) -> None:
    system.create_topic("go-poll")
    go("send", "go-poll", count=50).finish()
    poller = go("pull", "go-poll", group="g-poll", poll=True)
    poller.until_got(set(range(50)))
    go("send", "go-poll", first=50, count=10).finish()
    poller.until_got(set(range(60)))


@pytest.mark.parametrize(("level", "delay_ms"), [(1, 1000), (2, 2000)])
def test_delayed_messages_come_after_the_time_of_their_level(
    go: StartGo, system: System, level: int, delay_ms: int
) -> None:
    system.create_topic("go-delay")
    consumer = go("push", "go-delay", group="g-delay").ready()
    go("send", "go-delay", count=20, delay=level).finish()
    consumer.until_got(set(range(20)))
    waited = [line["seen_ms"] - line["born_ms"] for line in consumer.got]
    assert min(waited) >= delay_ms - 5
    assert statistics.median(waited) - delay_ms < ON_TIME_MS


def test_a_failing_message_becomes_a_dead_letter_after_its_retries(
    go: StartGo, system: System
) -> None:
    system.create_topic("go-retry")
    # The retry topic comes with the first heartbeat of a group, and the client looks for new routes
    # every 30 seconds only: a consumer of the past saves the wait.
    go("push", "go-retry", group="g-retry").ready().stop()
    consumer = go("push", "go-retry", group="g-retry", failures=-1, max_reconsume=2).ready()
    go("send", "go-retry", count=4).finish()
    tries = [(number, again) for number in range(4) for again in range(3)]

    def all_tried() -> bool:
        seen = [(line["got"]["number"], line["got"]["reconsumed"]) for line in consumer.said[1:]]
        return sorted(seen) == tries

    consumer.until(all_tried, 60, "three tries of each message")
    assert {line["topic"] for line in consumer.got} == {"go-retry"}
    letters = go("push", "%DLQ%g-retry", group="g-letters")
    letters.until_got(set(range(4)))
    consumer.stop()
    # A message may come again before another one comes first.
    first_ids = {
        line["number"]: line["offset_id"] for line in consumer.got if line["reconsumed"] == 0
    }
    for line in letters.got:
        assert line["reconsumed"] == 3
        assert line["origin"] == first_ids[line["number"]]


def test_a_failed_message_succeeds_on_its_retry(go: StartGo, system: System) -> None:
    system.create_topic("go-again")
    go("push", "go-again", group="g-again").ready().stop()
    consumer = go("push", "go-again", group="g-again", failures=1).ready()
    go("send", "go-again", count=5).finish()
    consumer.until_said(1 + 10)  # that it is ready, and two tries of each message
    by_try = sorted((line["reconsumed"], line["number"]) for line in consumer.got)
    assert by_try == [(again, number) for again in range(2) for number in range(5)]
    waited = [line["seen_ms"] - line["born_ms"] for line in consumer.got if line["reconsumed"]]
    assert min(waited) >= 995
