"""Requests about clients: lists, relayed requests, and offset resets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq._native import Command, decode_records, dumps_lenient, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode

from .conftest import Encoding, Wire

RUNNING = {"consumerGroup": "g", "clientId": "c1"}


class Consumer:
    """A member of group g that answers the broker's requests on its own thread."""

    def __init__(self, wire: Wire, *, version: int = 407) -> None:
        self.wire = wire
        self.asked: list[Command] = []
        subscription = {"topic": "t", "subString": "*", "subVersion": 1}
        body = {
            "clientID": "c1",
            "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [subscription]}],
            "producerDataSet": [{"groupName": "p"}],
        }
        heartbeat = wire.post(RequestCode.HEART_BEAT, body=dumps_lenient(body), version=version)
        wire.answer(heartbeat)
        assert wire.next_push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    def answer_next(self, body: bytes = b"", code: int = 0, remark: str | None = None) -> Any:
        def serve() -> None:
            push = self.wire.next_push()
            self.asked.append(push)
            answer = Command(code, opaque=push.opaque, flag=1, remark=remark, body=body)
            self.wire.send_command(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        return thread


@pytest.fixture
def consumer(connect: Callable[[], Wire]) -> Consumer:
    return Consumer(connect())


@pytest.fixture
def old_consumer(connect: Callable[[], Wire]) -> Consumer:
    return Consumer(connect(), version=27)


def test_consumers_and_producers_are_listed(wire: Wire, consumer: Consumer) -> None:
    answer = wire.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    body = loads_lenient(answer.body)
    (connection,) = body["connectionSet"]
    assert (connection["clientId"], connection["language"], connection["version"]) == (
        "c1",
        "JAVA",
        407,
    )
    assert connection["clientAddr"].startswith("127.0.0.1:")
    assert body["subscriptionTable"]["t"]["subString"] == "*"
    assert body["messageModel"] == "CLUSTERING"
    answer = wire.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert loads_lenient(answer.body) == {"connectionSet": [connection]}
    answer = wire.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    (producer,) = loads_lenient(answer.body)["data"]["p"]
    assert producer["remoteIP"] == "/" + connection["clientAddr"]


def test_requests_for_groups_that_are_not_online_are_refused(wire: Wire) -> None:
    answer = wire.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert answer.remark == "the consumer group[g] not online"
    answer = wire.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "the producer group[p] not exist"
    for code in (RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY):
        offset_id = wire.send("t").get_ext("msgId") or ""
        answer = wire.ask(code, RUNNING | {"msgId": offset_id})
        assert answer.remark == "The Consumer <g> <c1> not online"
    ext = {"topic": "t", "group": "g"}
    answer = wire.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)
    assert answer.remark == "No Any Consumer online in the consumer group: [g]"


def test_a_consumers_running_info_is_relayed(wire: Wire, consumer: Consumer) -> None:
    serving = consumer.answer_next(b'{"jstack":"x"}', code=7, remark="as it came")
    answer = wire.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING | {"jstackEnable": "true"})
    serving.join()
    assert (answer.code, answer.remark, answer.body) == (7, "as it came", b'{"jstack":"x"}')
    (asked,) = consumer.asked
    assert asked.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert asked.get_ext("jstackEnable") == "true"


def test_a_message_is_consumed_directly_by_the_named_client(wire: Wire, consumer: Consumer) -> None:
    offset_id = wire.send("t", b"now").get_ext("msgId") or ""
    serving = consumer.answer_next(b'{"consumeResult":"CR_SUCCESS"}')
    answer = wire.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, RUNNING | {"msgId": offset_id})
    serving.join()
    assert loads_lenient(answer.body)["consumeResult"] == "CR_SUCCESS"
    (asked,) = consumer.asked
    assert asked.get_ext("brokerName") == "broker-a"
    (record,) = decode_records(asked.body)
    assert (record.body, record.offset_id) == (b"now", offset_id)
    for bad in ("", "zz", "7F" * 16):
        answer = wire.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, RUNNING | {"msgId": bad})
        assert answer.code == ResponseCode.SYSTEM_ERROR


def test_a_relayed_request_is_answered_when_the_consumer_disconnects(
    wire: Wire, consumer: Consumer
) -> None:
    opaque = wire.post(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    consumer.wire.next_push()
    consumer.wire.close()
    answer = wire.answer(opaque)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("invoke consumer <g> <c1> Exception: ")


def test_clients_too_old_for_a_request_are_not_sent_it(wire: Wire, old_consumer: Consumer) -> None:
    answer = wire.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert answer.remark == (
        "The Consumer <c1> Version <V3_0_6> too low to finish, please upgrade it to V3_1_8_SNAPSHOT"
    )
    ext = {"topic": "t", "group": "g"}
    answer = wire.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)
    assert answer.remark == "the client does not support this feature. version=V3_0_6"


def test_consumer_status_is_gathered(wire: Wire, consumer: Consumer) -> None:
    queue = '{"brokerName":"broker-a","queueId":0,"topic":"t"}'
    serving = consumer.answer_next(b'{"messageQueueTable":{%s:12}}' % queue.encode())
    ext = {"topic": "t", "group": "g", "clientAddr": "c1"}
    answer = wire.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)
    serving.join()
    assert answer.body == b'{"consumerTable":{"c1":{%s:12}},"messageQueueTable":{}}' % (
        queue.encode()
    )


def commit_all(wire: Wire, offset: int) -> None:
    for queue_id in range(4):
        ext = {"topic": "t", "consumerGroup": "g", "queueId": str(queue_id)}
        wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": str(offset)})


def reset(wire: Wire, **changes: str) -> Command:
    ext = {"topic": "t", "group": "g", "timestamp": "0", "isForce": "true"} | changes
    return wire.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)


def test_members_are_sent_their_new_offsets_when_a_group_is_reset(
    wire: Wire, consumer: Consumer
) -> None:
    for _ in range(3):
        wire.send("t")
    commit_all(wire, 2)
    answer = reset(wire, timestamp="-1")
    table = {dict(k)["queueId"]: v for k, v in loads_lenient(answer.body)["offsetTable"].items()}
    assert table == {0: 3, 1: 0, 2: 0, 3: 0}
    push = consumer.wire.next_push()
    assert push.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert push.is_oneway
    assert push.body == answer.body
    assert push.ext == {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "false"}
    ext = {"topic": "t", "consumerGroup": "g", "queueId": "0"}
    asked = wire.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)
    assert asked.get_ext("offset") == "2", "the broker's own table is the clients' to change"


def test_a_reset_without_force_never_moves_forward(wire: Wire, consumer: Consumer) -> None:
    for _ in range(3):
        wire.send("t")
    commit_all(wire, 1)
    answer = reset(wire, timestamp="-1", isForce="false")
    table = {dict(k)["queueId"]: v for k, v in loads_lenient(answer.body)["offsetTable"].items()}
    assert table == {0: 1, 1: 0, 2: 0, 3: 0}


def test_impossible_resets_are_refused(wire: Wire) -> None:
    answer = reset(wire, topic="none")
    assert answer.remark == (
        "[reset-offset] reset offset failed, no topic in this broker. topic=none"
    )
    wire.send("t")
    assert reset(wire).remark == "THe consumer group <g> not exist"
    commit_all(wire, 0)
    answer = reset(wire)
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert answer.remark == (
        "Consumer not online, so can not reset offset, Group: g Topic: t Timestamp: 0"
    )


def test_a_reset_by_a_cpp_client_sends_offsets_as_a_list(
    wire: Wire, consumer: Consumer, encoding: Encoding
) -> None:
    wire.send("t")
    commit_all(wire, 0)
    ext = {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "true"}
    wire.send_command(
        Command(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            opaque=9999,
            ext=ext,
            language="CPP",
            encoding=encoding,
        )
    )
    wire.answer(9999)
    pushed = loads_lenient(consumer.wire.next_push().body)["offsetTable"]
    assert {"brokerName": "broker-a", "offset": 1, "queueId": 0, "topic": "t"} in pushed
