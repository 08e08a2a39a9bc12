"""Replies: pushed to the requester, stored, and refused with Java's codes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from orbitmq._native import Command, decode_properties, decode_records, dumps_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, send_ext

REPLIES = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = "MSG_TYPE\x01reply\x02CORRELATION_ID\x01c1\x02REPLY_TO_CLIENT\x01asker"
SHORT_NAMES = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
}

Connect = Callable[[], Wire]


def header(code: int, **changes: str) -> dict[str, str]:
    long = send_ext(REPLIES) | {"properties": PROPERTIES} | changes
    if code == RequestCode.SEND_REPLY_MESSAGE:
        return long
    return {SHORT_NAMES[name]: value for name, value in long.items()}


def asks(asker: Wire) -> None:
    producers = [{"groupName": "askers"}]
    body = {"clientID": "asker", "consumerDataSet": [], "producerDataSet": producers}
    assert asker.ask(RequestCode.HEART_BEAT, body=dumps_lenient(body)).code == 0


@pytest.mark.parametrize(
    "code", [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2]
)
def test_a_reply_is_pushed_and_stored(connect: Connect, code: int) -> None:
    asker, replier = connect(), connect()
    asks(asker)
    opaque = replier.post(code, header(code, flag="7"), b"1.20")
    pushed = asker.next_push()
    assert pushed.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert not pushed.is_oneway
    assert pushed.body == b"1.20"
    ext = pushed.ext or {}
    assert ext["topic"] == REPLIES
    assert ext["flag"] == "7"
    assert ext["bornTimestamp"] == "1700000000000"
    assert ext["bornHost"].startswith("127.0.0.1:")
    assert ext["storeHost"].startswith("127.0.0.1:")
    properties = decode_properties(ext["properties"])
    assert properties.pop("PUSH_REPLY_TIME").isdigit()
    assert properties == decode_properties(PROPERTIES)

    asker.send_command(Command(0, opaque=pushed.opaque, flag=1))
    answer = replier.answer(opaque)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert answer.get_ext("TRACE_ON") == "true"
    offset = int(answer.get_ext("queueOffset") or "-1")
    (stored,) = decode_records(replier.pull(REPLIES, offset).body)
    assert stored.body == b"1.20"
    assert stored.offset_id == answer.get_ext("msgId")
    assert stored.properties == decode_properties(PROPERTIES)


def test_a_reply_fails_but_is_stored_when_the_requester_is_offline(connect: Connect) -> None:
    replier = connect()
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    for properties, remark in (
        ("A\x01b", "reply message properties[REPLY_TO_CLIENT] is null"),
        (
            "REPLY_TO_CLIENT\x01stranger",
            "push reply message fail, channel of <stranger> not found.",
        ),
    ):
        answer = replier.ask(code, header(code, properties=properties), b"x")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == remark
        assert answer.get_ext("queueOffset") is not None


def test_a_reply_fails_when_the_requester_refuses_it(connect: Connect) -> None:
    asker, replier = connect(), connect()
    asks(asker)
    code = RequestCode.SEND_REPLY_MESSAGE_V2

    def refuse() -> None:
        asked = asker.next_push()
        asker.send_command(Command(1, opaque=asked.opaque, flag=1))

    refusing = threading.Thread(target=refuse)
    refusing.start()
    answer = replier.ask(code, header(code), b"x")
    refusing.join()
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "push reply message to askerfail."


def test_replies_are_not_stored_when_the_setting_is_off() -> None:
    with LocalCluster(settings={"storeReplyMessageEnable": "false"}) as cluster:
        address = next(iter(cluster.brokers.values())).config.address
        asker, replier = Wire(address), Wire(address)
        asks(asker)
        code = RequestCode.SEND_REPLY_MESSAGE_V2
        opaque = replier.post(code, header(code), b"x")
        asker.send_command(Command(0, opaque=asker.next_push().opaque, flag=1))
        answer = replier.answer(opaque)
        assert answer.code == ResponseCode.SUCCESS
        assert (answer.get_ext("msgId"), answer.get_ext("queueOffset")) == ("0", "0")
        asker.close()
        replier.close()


def test_a_reply_to_a_missing_topic_is_refused(connect: Connect) -> None:
    code = RequestCode.SEND_REPLY_MESSAGE
    answer = connect().ask(code, header(code, topic="SCHEDULE_TOPIC_XXXX"), b"x")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.get_ext("MSG_REGION") == "DefaultRegion"


def test_replies_that_wait_for_requesters_delay_no_other_request(connect: Connect) -> None:
    """A hundred replies go to a client that accepts them without answering."""
    asker, replier = connect(), connect()
    asks(asker)
    code = RequestCode.SEND_REPLY_MESSAGE
    replies = {replier.post(code, header(code), b"%d" % number) for number in range(100)}
    pushed = [asker.next_push() for _ in range(100)]
    assert {push.body for push in pushed} == {b"%d" % number for number in range(100)}
    assert replier.send("other").code == ResponseCode.SUCCESS
    assert replies.isdisjoint(replier._responses), "the next request was served before them"
    for push in pushed:
        asker.send_command(Command(0, opaque=push.opaque, flag=1))
    assert {replier.answer(reply).code for reply in replies} == {ResponseCode.SUCCESS}


def test_a_client_may_reply_to_itself_many_times(connect: Connect) -> None:
    """The client answers pushes behind its next replies, on the same connection."""
    client = connect()
    asks(client)
    code = RequestCode.SEND_REPLY_MESSAGE
    replies = [client.post(code, header(code), b"%d" % number) for number in range(100)]
    for _ in range(100):
        push = client.next_push()
        client.send_command(Command(0, opaque=push.opaque, flag=1))
    assert {client.answer(reply).code for reply in replies} == {ResponseCode.SUCCESS}
