"""Creating never changes what exists, and queues with messages are removed only on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from orbitmq import errors
from orbitmq.admin.admin import Admin
from orbitmq.admin.async_admin import AsyncAdmin
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message, MessageQueue
from orbitmq.testing import LocalCluster
from tests.both_ways import LoopThread, way_of
from tests.cli.conftest import Run

Ask = Callable[..., Any]


@pytest.fixture
def full(admin: Admin, producer: Producer, request: pytest.FixtureRequest) -> str:
    """A topic of 16 queues on each broker; of broker-a's, 0 has two messages, 9 and 15 three."""
    topic = f"full-{request.node.name}"[:100].replace("[", "-").replace("]", "")
    admin.create_topic(topic, queues=16)
    for queue_id, count in ((0, 2), (9, 3), (15, 3)):
        for _ in range(count):
            producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", queue_id))
    return topic


def queues(admin: Admin, topic: str) -> set[tuple[int, int]]:
    found = admin.topic_configs(topic).values()
    return {(config.write_queue_nums, config.read_queue_nums) for config in found}


def test_creating_an_existing_topic_is_refused_and_changes_nothing(
    run: Run, ask: Ask, admin: Admin, full: str
) -> None:
    refused = run("topic", "create", full, code=1)
    assert f"topic {full} exists already" in refused.err
    assert "on broker-a with queues to write 16 instead of 8" in refused.err
    assert queues(admin, full) == {(16, 16)}
    kept = ask("topic", "create", full, "--if-not-exists")
    assert kept["existed"] == ["broker-a", "broker-b"]
    assert (kept["writeQueues"], kept["readQueues"]) == (16, 16)
    assert ask("topic", "create", full, "--queues", "16")["existed"] == ["broker-a", "broker-b"]
    assert queues(admin, full) == {(16, 16)}


def test_a_topic_is_created_only_on_brokers_that_lack_it(ask: Ask, run: Run, admin: Admin) -> None:
    ask("topic", "create", "here", "--queues", "2", "-b", "broker-a")
    run("topic", "create", "here", "--queues", "3", code=1)
    assert set(admin.topic_configs("here")) == {"broker-a"}
    made = ask("topic", "create", "here", "--queues", "3", "--if-not-exists")
    assert (made["existed"], made["writeQueues"]) == (["broker-a"], None)
    counts = {name: one.read_queue_nums for name, one in admin.topic_configs("here").items()}
    assert counts == {"broker-a": 2, "broker-b": 3}


def test_queues_with_messages_are_removed_only_with_shrink(
    run: Run, ask: Ask, admin: Admin, full: str
) -> None:
    refused = run("topic", "update", full, "--queues", "8", code=1)
    assert f"topic {full} would lose 16 queues to read, with 6 messages" in refused.err
    assert "(broker-a/9: 3, broker-a/15: 3)" in refused.err
    assert queues(admin, full) == {(16, 16)}
    assert ask("topic", "update", full, "--write-queues", "8")["readQueues"] == 16
    shrunk = ask("topic", "update", full, "--queues", "8", "--shrink")
    assert (shrunk["writeQueues"], shrunk["readQueues"]) == (8, 8)
    assert queues(admin, full) == {(8, 8)}


def test_mqadmin_overwrites_existing_topics_and_groups(run: Run, admin: Admin, full: str) -> None:
    run("mqadmin", "updateTopic", "-c", "DefaultCluster", "-t", full, "-w", "4", "-r", "4")
    assert queues(admin, full) == {(4, 4)}
    admin.create_group("anew", retry_max_times=3)
    run("mqadmin", "updateSubGroup", "-c", "DefaultCluster", "-g", "anew", "-s", "false")
    (config,) = {(c.consume_enable, c.retry_max_times) for c in _group(admin, "anew")}
    assert config == (False, 16)


@pytest.mark.parametrize("verb", ["create", "update"])
def test_more_queues_to_write_than_to_read_are_refused(run: Run, admin: Admin, verb: str) -> None:
    topic = f"unread-{verb}"
    if verb == "update":
        admin.create_topic(topic)
    refused = run("topic", verb, topic, "--write-queues", "12", code=2)
    assert "12 queues to write and 8 to read" in refused.err
    assert (topic in admin.topic_names()) is (verb == "update")


def test_a_group_keeps_its_settings_when_it_is_created_again(
    run: Run, ask: Ask, admin: Admin
) -> None:
    ask("group", "create", "kept", "--retry-times", "3", "--no-consume")
    refused = run("group", "create", "kept", code=1)
    assert "group kept exists already, on broker-a with consumeEnable false instead of true" in (
        refused.err
    )
    again = ask("group", "create", "kept", "--if-not-exists")
    assert (again["retryMaxTimes"], again["existed"]) == (3, ["broker-a", "broker-b"])
    assert {(one.retry_max_times, one.consume_enable) for one in _group(admin, "kept")} == {
        (3, False)
    }


def _group(admin: Admin, group: str) -> list[Any]:
    return list(admin.group_configs()[group].values())


@pytest.fixture(params=["sync", "async"])
def either(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[Any]:
    thread = LoopThread()
    with way_of(request.param, thread)(Admin, AsyncAdmin)(cluster.address) as admin:
        yield admin
    thread.close()


def test_the_admin_client_creates_and_updates_as_the_commands_do(either: Any, full: str) -> None:
    with pytest.raises(errors.AlreadyExists, match="queues to read 16 instead of 8"):
        either.create_topic(full)
    either.create_topic(full, if_not_exists=True)
    with pytest.raises(errors.ShrinkRefused, match="6 messages") as caught:
        either.update_topic(full, queues=9)
    assert sum(caught.value.counts.values()) == 6
    config = either.topic_configs(full)["broker-a"]
    with pytest.raises(errors.ShrinkRefused):
        either.put_topic(replace(config, read_queue_nums=4, write_queue_nums=4))
    assert queues(either, full) == {(16, 16)}
    either.update_topic(full, queues=9, perm=4, shrink=True)
    assert queues(either, full) == {(9, 9)}
    with pytest.raises(errors.NoRoute, match="nowhere"):
        either.update_topic("nowhere", queues=9)

    group = f"group-of-{full}"
    either.create_group(group, retry_max_times=3)
    with pytest.raises(errors.AlreadyExists, match="retryMaxTimes 3 instead of 16"):
        either.create_group(group)
    either.create_group(group, if_not_exists=True)
    either.update_group(group, retry_queues=2)
    assert {(one.retry_max_times, one.retry_queue_nums) for one in _group(either, group)} == {
        (3, 2)
    }
    with pytest.raises(errors.NoSuchGroup, match="nobody"):
        either.update_group("nobody", retry_queues=2)
