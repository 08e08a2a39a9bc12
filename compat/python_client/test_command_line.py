"""The command line against every kind of cluster."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from compat.java_client import Cluster
from compat.python_client.shared import await_true
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message, MessageQueue
from tests.cli.conftest import run_command


class Commands:
    """Runs commands against one cluster."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
        ran = run_command(*words, "-n", self.address, "--output", "json")
        assert ran.code in codes, (words, ran)
        return ran.json

    def ends_with(self, code: int, *words: str) -> None:
        ran = run_command(*words, "-n", self.address)
        assert ran.code == code, (words, ran)


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    return Commands(cluster.address)


def test_topics_groups_and_brokers_are_managed(commands: Commands, mark: str) -> None:
    topic, group = f"T-{mark}", f"G-{mark}"
    commands.ask("topic", "create", topic, "--queues", "2")
    assert {"topic": topic} in commands.ask("topic", "list")
    assert [one["writeQueues"] for one in commands.ask("topic", "route", topic)] == [2, 2]
    (where,) = commands.ask("topic", "clusters", topic)
    place = ("-c", where["cluster"], "-t", topic)
    commands.ask("mqadmin", "updateTopicPerm", *place, "-p", "4")
    assert [one["perm"] for one in commands.ask("topic", "config", topic)] == [4, 4]
    commands.ask("group", "create", group, "--retry-times", "5")
    commands.ask("group", "update", group, "--no-consume", "-b", "broker-a")
    configs = commands.ask("group", "config", group)
    assert [(one["consumeEnable"], one["retryMaxTimes"]) for one in configs] == [
        (False, 5),
        (True, 5),
    ]
    commands.ask("group", "delete", group)
    commands.ask("topic", "delete", topic)
    commands.ends_with(5, "topic", "route", topic)

    def all_answer() -> bool:
        status = commands.ask("cluster", "status", "--more")
        return [one["answers"] for one in status] == [True, True]

    # One of Apache's brokers sometimes refuses runtime info just after its start.
    await_true("both brokers answer", all_answer)
    (name,) = commands.ask("broker", "config", "-b", "broker-a", "--only", "brokerName")[:1]
    assert name["value"] == "broker-a"
    commands.ask("nameserver", "kv-set", mark, "k", "v")
    assert commands.ask("nameserver", "kv-get", mark, "k")["value"] == "v"
    commands.ask("broker", "clean-queues", "-b", "broker-a")
    assert commands.ask("broker", "lag", "-b", "broker-a") is not None


def test_messages_and_offsets_are_queried(commands: Commands, topic: str, group: str) -> None:
    place = ("-b", "broker-a", "-q", "1")
    sent = commands.ask("message", "send", topic, "--body", "hello", "-k", "k1", *place)
    by_key = ("message", "get", "-t", topic, "-k", "k1")
    await_true("it is indexed", lambda: run_command(*by_key, "-n", commands.address).code == 0)
    assert [one["messageId"] for one in commands.ask(*by_key)] == [sent["messageId"]]
    found = commands.ask("message", "get", sent["offsetId"])
    assert (found["body"], found["broker"], found["queue"]) == ("hello", "broker-a", 1)
    assert [one["body"] for one in commands.ask("message", "print", topic)] == ["hello"]
    entries = commands.ask("topic", "entries", topic, *place)
    assert [one["offset"] for one in entries] == [0]
    commands.ask("group", "create", group)
    commands.ask("offset", "set", group, topic, *place, "0")
    lags = commands.ask("group", "lag", group)
    assert sum(one["lag"] for one in lags) == 1
    commands.ask("offset", "skip", group, topic)
    assert sum(one["lag"] for one in commands.ask("group", "lag", group)) == 0
    findings = commands.ask("explain", "message", sent["messageId"], "-t", topic, "-g", group)
    assert [one["verdict"] for one in findings] == ["consumed"]


def test_explain_finds_a_stuck_handler(
    commands: Commands, producer: Producer, topic: str, group: str
) -> None:
    """First the handler hangs; then it continues, and the findings are empty."""
    queue = MessageQueue(topic, "broker-a", 0)
    first = producer.send(Message(topic, b"1"), queue=queue)
    let_go = threading.Event()
    consumer = PushConsumer(
        commands.address, group=group, consume_from="first", concurrency=1, offset_persist_s=0.2
    )
    consumer.on(topic)(lambda message: let_go.wait(50) and None)
    quick = ("--watch-s", "0.2", "--patience", "0.1")

    def verdicts() -> list[str]:
        findings = commands.ask("explain", "group", group, *quick, codes=(0, 3))
        return [one["verdict"] for one in findings]

    with consumer:
        await_true("it is online", lambda: _is_online(commands, group))
        await_true("it is seen to hang", lambda: "stuck-on-message" in verdicts())
        findings = commands.ask("explain", "group", group, *quick, codes=(3,))
        assert findings[0]["evidence"]["message"] == first.message_id
        let_go.set()
        await_true("it is seen to be well", lambda: verdicts() == [])


def _is_online(commands: Commands, group: str) -> bool:
    return run_command("group", "members", group, "-n", commands.address).code == 0
