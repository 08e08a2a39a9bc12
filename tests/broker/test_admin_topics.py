"""Requests that create, delete and measure topics."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq._native import Command, FrameReader, loads_lenient
from orbitmq.broker.state.topics import TopicTable
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.testing import LocalCluster

from .conftest import Wire

CREATE = {
    "topic": "t",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "2",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


def create(wire: Wire, **changes: str) -> Command:
    return wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, CREATE | changes)


def route(cluster: LocalCluster, topic: str) -> dict[str, Any] | None:
    """Return the route of a topic from a nameserver."""
    host, _, port = cluster.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=1, ext={"topic": topic})
        connection.sendall(request.encode())
        reader, answers = FrameReader(), list[Command]()
        while not answers:
            answers += reader.feed(connection.recv(1 << 16))
    found: dict[str, Any] | None = loads_lenient(answers[0].body) if answers[0].body else None
    return found


def topics(wire: Wire) -> dict[str, Any]:
    answer = wire.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    table: dict[str, Any] = loads_lenient(answer.body)["topicConfigTable"]
    return table


def test_a_created_topic_is_registered_before_the_answer(wire: Wire, cluster: LocalCluster) -> None:
    assert create(wire, perm="4").code == ResponseCode.SUCCESS
    known = route(cluster, "t")
    assert known is not None
    (queue_data,) = known["queueDatas"]
    assert (queue_data["readQueueNums"], queue_data["writeQueueNums"]) == (4, 2)
    assert queue_data["perm"] == 4
    assert topics(wire)["t"]["writeQueueNums"] == 2


def test_a_restarted_nameserver_gets_all_topics_with_the_next_creation(
    wire: Wire, cluster: LocalCluster
) -> None:
    create(wire, topic="older")
    cluster.stop_nameserver(0)
    cluster.start_nameserver(0)
    create(wire, topic="newer")
    assert route(cluster, "newer") is not None
    assert route(cluster, "older") is not None


def test_creating_a_topic_again_replaces_all_its_settings(wire: Wire) -> None:
    create(wire, topicSysFlag="1", topicFilterType="MULTI_TAG")
    create(wire, readQueueNums="8", writeQueueNums="8", perm="2")
    assert topics(wire)["t"] == {
        "order": False,
        "perm": 2,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "t",
        "topicSysFlag": 0,
        "writeQueueNums": 8,
    }


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("TBW102", "The topic[TBW102] is conflict with system topic."),
        ("rmq_sys_x", "The topic[rmq_sys_x] is conflict with system topic."),
        ("broker-a", "The topic[broker-a] is conflict with system topic."),
        ("x" * 128, "The specified topic is longer than topic max length."),
        (
            "a b",
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        (" ", "The specified topic is blank."),
    ],
)
def test_reserved_and_invalid_topic_names_are_refused(wire: Wire, name: str, remark: str) -> None:
    for answer in (
        create(wire, topic=name),
        wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name}),
    ):
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_topic_is_refused_when_a_field_is_missing(wire: Wire) -> None:
    for field in ("readQueueNums", "writeQueueNums", "perm", "topicFilterType"):
        ext = {name: value for name, value in CREATE.items() if name != field}
        answer = wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert create(wire, topicFilterType="NO_TAG").code == ResponseCode.SYSTEM_ERROR
    assert "t" not in topics(wire)


def test_a_deleted_topic_loses_its_queues_but_not_its_neighbours(
    wire: Wire, cluster: LocalCluster
) -> None:
    wire.send("gone")
    wire.send("stays")
    for _ in range(2):
        answer = wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"})
        assert answer.code == ResponseCode.SUCCESS
    assert "gone" not in topics(wire)
    (broker,) = cluster.brokers.values()
    assert [topic for topic, _ in broker.store.queues()] == ["stays"]
    assert wire.pull("gone").code == ResponseCode.TOPIC_NOT_EXIST
    assert wire.send("gone").get_ext("queueOffset") == "0"


def test_deleting_a_topic_leaves_the_queues_of_unknown_topics(
    wire: Wire, cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]
) -> None:
    """A topic table may have lost rows; the messages of those topics must be kept."""
    wire.send("unknown")
    wire.send("gone")
    (broker,) = cluster.brokers.values()
    table: TopicTable = broker.topics
    on_broker(lambda: table.delete("unknown"))
    wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"})
    assert broker.store.queues() == [("unknown", 0)]


def test_queues_without_a_topic_are_cleaned_on_request(
    wire: Wire, cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]
) -> None:
    wire.send("gone")
    wire.send("later", properties="DELAY\x014")
    (broker,) = cluster.brokers.values()
    table: TopicTable = broker.topics
    on_broker(lambda: table.delete("gone"))
    assert ("gone", 0) in broker.store.queues()
    assert wire.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == ResponseCode.SUCCESS
    assert broker.store.queues() == [("SCHEDULE_TOPIC_XXXX", 3)]


def test_delayed_messages_outlive_the_deletion_of_other_topics(
    wire: Wire, cluster: LocalCluster
) -> None:
    wire.send("gone")
    wire.send("t", properties="TIMER_DELAY_SEC\x0160")
    (broker,) = cluster.brokers.values()
    assert wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "gone"}).code == 0
    assert wire.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == 0
    assert broker.store.queues() == [(TIMER_TOPIC, 0)]


def test_topic_stats_show_the_offsets_of_each_queue(wire: Wire) -> None:
    create(wire)
    wire.send("t", queueId="1")
    wire.send("t", queueId="1")
    answer = wire.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"})
    table = {
        dict(key)["queueId"]: v for key, v in loads_lenient(answer.body)["offsetTable"].items()
    }
    assert table[0] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert (table[1]["maxOffset"], table[1]["minOffset"]) == (2, 0)
    assert table[1]["lastUpdateTimestamp"] > 0
    assert set(table) == {0, 1}, "write queues only"
    answer = wire.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "none"})
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[none] not exist")


def test_system_topics_are_listed(wire: Wire) -> None:
    answer = wire.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    listed = loads_lenient(answer.body)["topicList"]
    assert {"TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"} <= set(listed)


def test_the_topic_template_is_unchanged_without_automatic_creation(
    cluster: LocalCluster, wire: Wire
) -> None:
    (broker,) = cluster.brokers.values()
    before = topics(wire)["TBW102"]
    broker.config.auto_create_topic_enable = False
    assert wire.send("not-yet").code == ResponseCode.TOPIC_NOT_EXIST
    assert topics(wire)["TBW102"] == before
    broker.config.auto_create_topic_enable = True
    assert wire.send("now").code == ResponseCode.SUCCESS
