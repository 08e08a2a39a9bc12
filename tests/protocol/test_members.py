"""Types of JSON members: lenient as fastjson, and strict about everything else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.errors import BodyFault
from orbitmq.protocol.bodies import (
    DataVersion,
    MessageQueue,
    Subscription,
    SubscriptionGroup,
    TopicConfig,
)
from orbitmq.protocol.heartbeat import Heartbeat
from orbitmq.protocol.limits import MAX_QUEUES
from orbitmq.protocol.members import LONG, Members


def test_missing_and_null_members_take_their_defaults() -> None:
    body = Members({"a": None})
    for name in ("a", "b"):
        assert body.text(name, "x") == "x"
        assert body.number(name, 5) == 5
        assert body.flag(name, True) is True
        assert body.objects(name) == []
        assert body.texts(name) == []
        assert dict(body.table(name)) == {}


def test_numbers_and_booleans_may_be_text() -> None:
    body = Members({"number": "-12", "whole": 3.0, "flag": "TRUE"})
    assert (body.number("number"), body.number("whole"), body.flag("flag", False)) == (-12, 3, True)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda body: body.text("seven"), "field seven is 7, must be text"),
        (lambda body: body.number("text"), "field text is 'x', must be a whole number"),
        (lambda body: body.number("flag"), "field flag is True, must be a whole number"),
        (lambda body: body.number("huge"), "field huge is 4294967296, must be between"),
        (lambda body: body.number("huge", 0, within=(0, 9)), "must be between 0 and 9"),
        (lambda body: body.flag("seven", True), "field seven is 7, must be true or false"),
        (lambda body: body.objects("seven"), "field seven is 7, must be an array"),
        (lambda body: body.objects("list"), r"field list\[0\] is 1, must be an object"),
        (lambda body: body.texts("list"), r"field list\[0\] is 1, must be text"),
        (lambda body: body.member("inner").text("a"), r"field inner.a is \[\], must be text"),
        (lambda body: body.text("long"), r"field long is \['xxx.*…, must be text"),
    ],
)
def test_a_wrong_type_is_named(read: Callable[[Members], object], message: str) -> None:
    body = Members(
        {
            "seven": 7,
            "text": "x",
            "flag": True,
            "huge": 2**32,
            "list": [1],
            "inner": {"a": []},
            "long": ["x" * 1000],
        }
    )
    assert body.number("huge", within=LONG) == 2**32
    with pytest.raises(BodyFault, match=message):
        read(body)


@pytest.mark.parametrize("value", [None, [], "x", 7])
def test_a_body_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(BodyFault, match=r"the body is .*, must be an object"):
        Members(value)


@pytest.mark.parametrize(
    "read",
    [
        lambda: TopicConfig.from_json({"topicName": 7}),
        lambda: TopicConfig.from_json({"readQueueNums": MAX_QUEUES + 1}),
        lambda: TopicConfig.from_json({"writeQueueNums": -1}),
        lambda: TopicConfig.from_json({"order": "perhaps"}),
        lambda: SubscriptionGroup.from_json({"groupName": 7}),
        lambda: SubscriptionGroup.from_json({"retryQueueNums": 2**31 - 1}),
        lambda: Subscription.from_json({"tagsSet": [7]}),
        lambda: Subscription.from_json({"codeSet": "97"}),
        lambda: MessageQueue.from_json({"queueId": {}}),
        lambda: DataVersion.from_json([]),
        lambda: Heartbeat.decode(b'{"clientID":7}'),
        lambda: Heartbeat.decode(b'{"producerDataSet":[{"groupName":[]}]}'),
        lambda: Heartbeat.decode(b'{"consumerDataSet":[{"groupName":"%s"}]}' % (b"x" * 256)),
        lambda: Heartbeat.decode(b'{"producerDataSet":[{"groupName":"a\\u0001b"}]}'),
        lambda: Heartbeat.decode(b'{"consumerDataSet":[{"subscriptionDataSet":[1]}]}'),
    ],
)
def test_values_of_the_wrong_type_enter_nowhere(read: Callable[[], object]) -> None:
    with pytest.raises(BodyFault, match="field "):
        read()


def test_enumerations_may_be_numbers_in_a_heartbeat() -> None:
    body = (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":0,"messageModel":0}]}'
    )
    (consumer,) = Heartbeat.decode(body).consumers
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_ACTIVELY", "BROADCASTING")
    assert consumer.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
