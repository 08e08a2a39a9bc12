"""Go clients in a changing cluster: members join and are killed, a broker restarts."""

from __future__ import annotations

import select
import time
from collections import Counter

from compat.go_system import StartGo, System

pytest_plugins = ["compat.go_fixtures"]


def test_a_group_loses_nothing_when_a_member_is_killed_under_load(
    go: StartGo, system: System
) -> None:
    system.create_topic("go-group", queues=4)
    count = 3000
    consumers = [go("push", "go-group", group="g-group", work_ms=2).ready() for _ in range(3)]
    producer = go("send", "go-group", count=count, every_ms=1)
    for consumer in consumers:
        consumer.until_said(100)
    consumers[0].kill()
    joined = go("push", "go-group", group="g-group", work_ms=2).ready()
    producer.finish()
    sent = {line["number"] for line in producer.sent}
    assert sent == set(range(count))

    everyone = [*consumers, joined]
    deadline = time.monotonic() + 90
    while missing := sent.difference(*(consumer.numbers() for consumer in everyone)):
        assert time.monotonic() < deadline, f"{len(missing)} messages are lost"
        select.select([], [], [], 0.1)
    assert len(joined.got) > 0
    # Messages not committed by the killed member come again, all others once.
    times = Counter(line["number"] for consumer in everyone for line in consumer.got)
    assert sum(times.values()) < 2 * count


def test_a_consumer_continues_when_a_broker_restarts(go: StartGo, system: System) -> None:
    system.create_topic("go-restart")
    consumer = go("push", "go-restart", group="g-restart").ready()
    go("send", "go-restart", count=40).finish()
    consumer.until_got(set(range(40)))
    system.restart_broker()
    # Through both brokers again, and to a consumer that has stayed: it reconnects by itself, and
    # its next heartbeat (every 30 seconds) tells the broker of its subscription again.
    producer = go("send", "go-restart", first=40, count=40).finish()
    assert {line["broker"] for line in producer.sent} == set(system.brokers)
    consumer.until_got(set(range(80)), timeout_s=120)
    consumer.stop()
    assert len(consumer.got) < 2 * 80
