"""Requests about groups and their offsets."""

from __future__ import annotations

from typing import Any

from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode

from .conftest import Wire


def groups(wire: Wire) -> dict[str, Any]:
    answer = wire.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table: dict[str, Any] = loads_lenient(answer.body)["subscriptionGroupTable"]
    return table


def commit(wire: Wire, topic: str, group: str, queue_id: int, offset: int) -> None:
    ext = {"topic": topic, "consumerGroup": group}
    ext |= {"queueId": str(queue_id), "commitOffset": str(offset)}
    wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def offsets(wire: Wire) -> dict[str, dict[int, int]]:
    answer = wire.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    table: dict[str, dict[int, int]] = loads_lenient(answer.body)["offsetTable"]
    return table


def test_groups_are_created_replaced_and_deleted(wire: Wire) -> None:
    body = {"groupName": "g", "consumeEnable": False, "retryQueueNums": 3}
    assert (
        wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=dumps_lenient(body)).code
        == ResponseCode.SUCCESS
    )
    group = groups(wire)["g"]
    assert (group["consumeEnable"], group["retryQueueNums"]) == (False, 3)
    assert group["retryMaxTimes"] == 16
    wire.send("t")
    assert wire.pull("t").code == ResponseCode.NO_PERMISSION
    wire.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
    assert "g" not in groups(wire)
    assert wire.pull("t").code == ResponseCode.SUCCESS, "made again by the pull"


def test_a_body_that_names_no_group_is_refused(wire: Wire) -> None:
    before = groups(wire)
    for body in (b"", b"{}", b"[]", b"{"):
        answer = wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert groups(wire) == before


def test_deleting_a_group_removes_its_offsets_only_on_request(wire: Wire) -> None:
    commit(wire, "t", "g", 0, 5)
    commit(wire, "t", "other", 0, 6)
    wire.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
    assert offsets(wire) == {"t@g": {0: 5}, "t@other": {0: 6}}
    wire.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "removeOffset": "true"})
    assert offsets(wire) == {"t@other": {0: 6}}


def test_consume_stats_show_the_position_of_a_group(wire: Wire) -> None:
    for _ in range(3):
        wire.send("t")
    wire.pull("t")
    commit(wire, "t", "g", 0, 2)
    commit(wire, "gone", "g", 0, 9)
    answer = wire.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
    body = loads_lenient(answer.body)
    by_queue = {dict(key)["queueId"]: value for key, value in body["offsetTable"].items()}
    assert set(by_queue) == {0, 1, 2, 3}, "the topic that is gone is left out"
    assert (by_queue[0]["brokerOffset"], by_queue[0]["consumerOffset"]) == (3, 2)
    assert by_queue[0]["lastTimestamp"] > 0
    assert by_queue[1] == {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0}
    answer = wire.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    body = loads_lenient(answer.body)
    assert body["totalDiff"] == 1
    (listed,) = [entry["g"] for entry in body["consumeStatsList"] if "g" in entry]
    assert len(listed) == 1
    assert {"TOOLS_CONSUMER": []} in body["consumeStatsList"]
    answer = wire.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"})
    assert loads_lenient(answer.body)["totalDiff"] == 0


def test_consume_stats_of_an_online_group_follow_its_subscription(wire: Wire) -> None:
    wire.send("t")
    commit(wire, "t", "g", 0, 1)
    wire.heartbeat("g", "another")
    answer = wire.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "t"})
    assert loads_lenient(answer.body)["offsetTable"] == {}


def test_groups_that_consume_a_topic_are_listed(wire: Wire) -> None:
    wire.heartbeat("online", "t")
    commit(wire, "t", "was-here", 0, 1)
    answer = wire.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "t"})
    assert loads_lenient(answer.body) == {"groupList": ["online", "was-here"]}


def test_consume_time_spans_are_returned_by_queue(wire: Wire) -> None:
    for _ in range(2):
        wire.send("t")
    commit(wire, "t", "g", 0, 1)
    answer = wire.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "t", "group": "g"})
    full, *empty = loads_lenient(answer.body)["consumeTimeSpanSet"]
    assert 0 < full["minTimeStamp"] == full["consumeTimeStamp"] <= full["maxTimeStamp"]
    assert full["messageQueue"] == {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
    assert len(full["minTimeStampStr"]) == len("2020-09-13#12:26:40:000")
    assert [(s["minTimeStamp"], s["maxTimeStamp"], s["delayTime"]) for s in empty] == [
        (-1, -1, 0)
    ] * 3
    answer = wire.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "none", "group": "g"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_correction_offsets_are_those_of_the_slowest_group(wire: Wire) -> None:
    for group, offset in (("slow", 3), ("fast", 7), ("ignored", 1)):
        commit(wire, "t", group, 0, offset)
    ext = {"topic": "t", "compareGroup": "fast", "filterGroups": "ignored"}
    answer = wire.ask(RequestCode.QUERY_CORRECTION_OFFSET, ext)
    assert loads_lenient(answer.body) == {"correctionOffsets": {0: 3}}
    assert "t@ignored" in offsets(wire), "not to count is not to be forgotten"


def test_offsets_are_cloned(wire: Wire) -> None:
    wire.send("t")
    wire.send("u")
    commit(wire, "t", "g", 2, 5)
    commit(wire, "u", "g", 0, 1)
    wire.ask(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "one", "topic": "t"})
    assert offsets(wire)["t@one"] == {2: 5}
    assert "u@one" not in offsets(wire)
    wire.ask(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "all"})
    assert offsets(wire)["t@all"] == {2: 5}
    assert offsets(wire)["u@all"] == {0: 1}


def test_delay_offsets_are_returned(wire: Wire) -> None:
    wire.send("t", properties="DELAY\x014")
    answer = wire.ask(RequestCode.GET_ALL_DELAY_OFFSET)
    assert answer.code == ResponseCode.SUCCESS
    assert "offsetTable" in loads_lenient(answer.body)
