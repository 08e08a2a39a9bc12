"""Decisions of the verbs, without sockets: a test plays the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from orbitmq._native import Command, dumps_lenient, encode_offset_id, encode_record
from orbitmq.admin.clusters import cluster_info
from orbitmq.admin.messages import message_by_id
from orbitmq.admin.offsets import reset_offsets
from orbitmq.errors import ConnectionLost, NoRoute
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.rpc.flow import Call, Flow

T = TypeVar("T")
Answer = Callable[[Call], Command | Exception]

BROKER = "10.0.0.1:10911"
PLACES = {"brokerAddrs": {0: BROKER}, "brokerName": "a", "cluster": "c"}
CLUSTER = {"brokerAddrTable": {"a": PLACES}, "clusterAddrTable": {"c": ["a"]}}
QUEUES = {"brokerName": "a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
ROUTE = {"brokerDatas": [PLACES], "queueDatas": [QUEUES]}


def answer(code: int = 0, body: Any = b"", **ext: str) -> Command:
    data = body if isinstance(body, bytes) else dumps_lenient(body)
    return Command(code, flag=1, body=data, ext=ext)


def play(flow: Flow[T], respond: Answer) -> tuple[T, list[Call]]:
    """Run a flow; returns its result and what it asked."""
    calls: list[Call] = []
    try:
        wish = next(flow)
        while True:
            assert isinstance(wish, Call)
            calls.append(wish)
            result = respond(wish)
            wish = flow.throw(result) if isinstance(result, Exception) else flow.send(result)
    except StopIteration as end:
        return end.value, calls


def usual(call: Call) -> Command:
    if call.code == RequestCode.GET_BROKER_CLUSTER_INFO:
        return answer(body=CLUSTER)
    if call.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return answer(body=ROUTE)
    raise AssertionError(call)


def test_nameservers_are_asked_in_turn() -> None:
    def respond(call: Call) -> Command | Exception:
        return ConnectionLost("gone") if call.address == "n1:1" else usual(call)

    info, calls = play(cluster_info(["n1:1", "n2:1", "n3:1"]), respond)
    assert info.clusters == {"c": ("a",)}
    assert [call.address for call in calls] == ["n1:1", "n2:1"]


def test_no_nameserver_answers() -> None:
    with pytest.raises(NoRoute, match="gone; gone") as caught:
        play(cluster_info(["n1:1", "n2:1"]), lambda _: ConnectionLost("gone"))
    assert caught.value.cause == "no_nameserver"


def test_an_id_with_a_strangers_address_is_no_reason_to_call_there() -> None:
    message_id = encode_offset_id(("10.9.9.9", 10911), 42)
    record = encode_record("T", b"x", properties={"UNIQ_KEY": message_id})

    def respond(call: Call) -> Command:
        return answer(body=record) if call.code == RequestCode.QUERY_MESSAGE else usual(call)

    found, calls = play(message_by_id(["n:1"], "T", message_id), respond)
    assert found is not None
    assert found.body == b"x"
    assert {call.address for call in calls} == {"n:1", BROKER}
    assert calls[-1].ext is not None
    assert calls[-1].ext["_UNIQUE_KEY_QUERY"] == "true"


def test_an_id_of_a_broker_is_looked_up_there() -> None:
    message_id = encode_offset_id(("10.0.0.1", 10911), 42)

    def respond(call: Call) -> Command:
        if call.code == RequestCode.VIEW_MESSAGE_BY_ID:
            assert (call.address, call.ext) == (BROKER, {"offset": "42"})
            return answer(body=encode_record("T", b"x"))
        return usual(call)

    found, _ = play(message_by_id(["n:1"], "T", message_id), respond)
    assert found is not None


@pytest.mark.parametrize("is_online", [True, False])
def test_members_that_are_there_move_themselves(is_online: bool) -> None:
    queues = [MessageQueue("T", "a", queue_id) for queue_id in range(2)]

    def respond(call: Call) -> Command:
        if call.code == RequestCode.GET_CONSUMER_CONNECTION_LIST:
            return answer(0 if is_online else ResponseCode.CONSUMER_NOT_ONLINE)
        if call.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
            assert call.ext is not None
            assert (call.ext["timestamp"], call.ext["isForce"]) == ("1000", "true")
            return answer(body={"offsetTable": {queue.as_key(): 7 for queue in queues}})
        if call.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            return answer(offset="7")
        return answer() if call.code == RequestCode.UPDATE_CONSUMER_OFFSET else usual(call)

    moved, calls = play(reset_offsets(["n:1"], "g", "T", 1000), respond)
    assert moved == dict.fromkeys(queues, 7)
    commits = [call for call in calls if call.code == RequestCode.UPDATE_CONSUMER_OFFSET]
    assert len(commits) == (0 if is_online else 2)
