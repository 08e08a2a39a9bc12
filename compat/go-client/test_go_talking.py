"""Requests and replies, delivery times, and traces of the Go client."""

from __future__ import annotations

import time

import pytest

from compat.go_system import MakeSystem, StartGo, System
from orbitmq import Admin

pytest_plugins = ["compat.go_fixtures"]

LATER_MS = 1500


@pytest.fixture
def talking(make_system: MakeSystem) -> System:
    return make_system(traceTopicEnable="true")


def test_a_request_gets_its_reply(go: StartGo, talking: System) -> None:
    talking.create_topic("go-requests")
    answering = go("push", "go-requests", at=talking, group="g-answering", replies=True).ready()
    asking = go("send", "go-requests", at=talking, mode="request", count=4).finish()
    answering.stop()
    # With either broker the client registers too late for the reply to its first request.
    replies = {line["reply"] for line in asking.said if "reply" in line}
    assert replies | {"reply to 0"} == {f"reply to {number}" for number in range(4)}
    # It tries again, more than once on a slow machine.
    assert all("channel of" in error for error in answering.errors)


def test_a_message_comes_at_the_requested_time(go: StartGo, talking: System) -> None:
    talking.create_topic("go-later")
    consumer = go("push", "go-later", at=talking, group="g-later").ready()
    go("send", "go-later", at=talking, count=5, later_ms=LATER_MS).finish()
    consumer.until_got(set(range(5)))
    consumer.stop()
    late_ms = [got["seen_ms"] - got["born_ms"] - LATER_MS for got in consumer.got]
    assert len(late_ms) == 5
    assert min(late_ms) >= 0


def test_traces_show_the_send_and_the_consumption(go: StartGo, talking: System) -> None:
    talking.create_topic("go-traced")
    consumer = go("push", "go-traced", at=talking, group="g-traced", trace=True).ready()
    # A producer that ends loses its last traces, so this one stays for a moment.
    traced = {"trace": True, "group": "p-traced", "every_ms": 1000}
    [sent] = go("send", "go-traced", at=talking, **traced).finish().sent
    consumer.until_got({0})
    consumer.stop()  # This sends its remaining traces.
    with Admin(talking.address) as admin:
        deadline = time.monotonic() + 60
        while True:
            events = admin.message_trace(sent["msg_id"])
            groups = {event.group for event in events}
            if {"p-traced", "g-traced"} <= groups or time.monotonic() > deadline:
                break
    assert groups == {"p-traced", "g-traced"}
