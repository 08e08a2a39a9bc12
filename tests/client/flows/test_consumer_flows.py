"""Every request a consumer sends to brokers, and how it handles the answers; no sockets."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq._native import (
    Command,
    ReceivedMessage,
    decode_messages,
    decode_properties,
    dumps_lenient,
    encode_record,
    loads_lenient,
)
from orbitmq.client.consumer.assignment import Averagely, ByConfig, changes, share_of_topic
from orbitmq.client.consumer.membership import (
    check_filter,
    group_members,
    lock_queues,
    unlock_queues,
)
from orbitmq.client.consumer.offsets import (
    StartRule,
    commit_offset,
    report_offset,
    start_offset,
    stored_offset,
)
from orbitmq.client.consumer.pull_flow import PullRequest, messages_of, pull
from orbitmq.client.consumer.retry import send_back, send_copy
from orbitmq.client.consumer.subscription import subscribe
from orbitmq.errors import (
    BrokerBusy,
    BrokerRefused,
    ClientError,
    ConfigError,
    ConnectionLost,
    RequestTimeout,
)
from orbitmq.message import PullStatus
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.rpc.route_table import RouteTable
from tests.client.playing import Play, answer

QUEUE = MessageQueue("T", "a", 1)
MASTER, SLAVE, OTHER = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def _routes(*topics: str) -> RouteTable:
    table = RouteTable(("10.9.9.9:9876",))
    for topic in topics or ("T", "%RETRY%g"):
        body = dumps_lenient(
            {
                "brokerDatas": [
                    {"brokerName": "a", "cluster": "c", "brokerAddrs": {0: MASTER, 1: SLAVE}},
                    {"brokerName": "b", "cluster": "c", "brokerAddrs": {0: OTHER}},
                ],
                "queueDatas": [
                    {"brokerName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
                    for name in "ab"
                ],
            }
        )
        table.apply(topic, body)
    return table


def _message(reconsume_times: int = 0, **properties: str) -> ReceivedMessage:
    data = encode_record(
        "T",
        b"body",
        queue_id=1,
        queue_offset=5,
        physical_offset=77,
        store_host=("10.0.0.9", 10911),
        reconsume_times=reconsume_times,
        properties={"UNIQ_KEY": "ID"} | properties,
    )
    (message,) = decode_messages(data, QUEUE)
    return message


# ---- Offsets


def test_a_committed_offset_is_read_from_the_master() -> None:
    play = Play([answer(ext={"offset": "12"})])
    assert play.run(stored_offset(_routes(), "g", QUEUE)) == 12
    (call,) = play.calls
    assert (call.address, call.code) == (MASTER, RequestCode.QUERY_CONSUMER_OFFSET)
    assert call.ext == {"consumerGroup": "g", "topic": "T", "queueId": "1", "bname": "a"}


def test_a_missing_offset_is_minus_one_and_a_missing_answer_an_error() -> None:
    refused = answer(ResponseCode.QUERY_NOT_FOUND)
    assert Play([refused]).run(stored_offset(_routes(), "g", QUEUE)) == -1
    for failure in (ConnectionLost("x"), RequestTimeout("x")):
        with pytest.raises(type(failure)):
            Play([failure]).run(stored_offset(_routes(), "g", QUEUE))
    with pytest.raises(BrokerRefused):
        # A busy broker must not make a group begin anew.
        Play([answer(ResponseCode.SYSTEM_BUSY)]).run(stored_offset(_routes(), "g", QUEUE))


@pytest.mark.parametrize(
    ("rule", "stored", "code", "offset"),
    [
        ("first", -1, None, 0),
        ("last", 5, None, 5),
        ("last", -1, RequestCode.GET_MAX_OFFSET, 99),
        (1234, -1, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 99),
    ],
)
def test_the_start_offset_follows_the_start_rule(
    rule: Any, stored: int, code: int | None, offset: int
) -> None:
    play = Play([answer(ext={"offset": "99"})])
    flow = start_offset(_routes(), QUEUE, StartRule.of(rule), stored)
    assert play.run(flow) == offset
    assert [call.code for call in play.calls] == ([] if code is None else [code])
    if code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
        assert (play.calls[0].ext or {})["timestamp"] == "1234"


def test_the_route_is_fetched_for_an_unknown_broker() -> None:
    lost = MessageQueue("T", "gone", 0)
    play = Play([answer(ResponseCode.TOPIC_NOT_EXIST)])
    with pytest.raises(ClientError, match="gone"):
        play.run(stored_offset(_routes(), "g", lost))
    assert [call.code for call in play.calls] == [RequestCode.GET_ROUTEINFO_BY_TOPIC]


def test_reporting_an_offset_is_oneway_and_committing_waits() -> None:
    play = Play()
    play.run(report_offset(_routes(), "g", QUEUE, 7))
    (notice,) = play.notices
    assert (notice.ext or {})["commitOffset"] == "7"
    play = Play([answer()])
    play.run(commit_offset(_routes(), "g", QUEUE, 7))
    assert play.calls[0].ext == notice.ext
    with pytest.raises(BrokerRefused):
        Play([answer(1)]).run(commit_offset(_routes(), "g", QUEUE, 7))


# ---- Pulls


def _pull(*reactions: Any, **more: Any) -> tuple[Any, Play]:
    play = Play(reactions)
    subscription = subscribe("T", more.pop("tags", None), None, 33)
    request = PullRequest("g", QUEUE, subscription, 10, 32, **more)
    return play.run(pull(_routes(), request)), play


def _pulled(code: int = 0, **ext: int) -> Command:
    fields = {"nextBeginOffset": 11, "minOffset": 0, "maxOffset": 20, "suggestWhichBrokerId": 0}
    return answer(code, ext={name: str(value) for name, value in (fields | ext).items()})


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, PullStatus.FOUND),
        (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW_MESSAGE),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED_MESSAGE),
        (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_a_pull_result_has_the_status_and_offsets_of_the_answer(
    code: int, status: PullStatus
) -> None:
    pulled, _ = _pull(_pulled(code, nextBeginOffset=10, suggestWhichBrokerId=1))
    assert (pulled.status, pulled.next_offset, pulled.broker_id) == (status, 10, 1)
    assert (pulled.min_offset, pulled.max_offset) == (0, 20)


def test_a_pull_in_a_hole_of_a_queue_finds_no_match() -> None:
    pulled, _ = _pull(_pulled(ResponseCode.PULL_NOT_FOUND, nextBeginOffset=15))
    assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 15)


def test_a_pull_request_has_all_fields() -> None:
    flags = PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET
    _, play = _pull(
        _pulled(), flags=flags, commit_offset=9, suspend_ms=15000, timeout_ms=30000, tags="a||b"
    )
    (call,) = play.calls
    assert (call.address, call.timeout_ms) == (MASTER, 30000)
    assert call.ext == {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "1",
        "queueOffset": "10",
        "maxMsgNums": "32",
        "sysFlag": "3",
        "commitOffset": "9",
        "suspendTimeoutMillis": "15000",
        "subVersion": "33",
        "expressionType": "TAG",
        "bname": "a",
        "orbitMaxBytes": str(1 << 20),
    }
    _, play = _pull(_pulled(), flags=PullFlag.SUBSCRIPTION, tags="a||b", sub_version=0)
    ext = play.calls[0].ext or {}
    assert (ext["subscription"], ext["subVersion"]) == ("a||b", "0")


def test_a_pull_from_a_slave_commits_no_offset() -> None:
    flags = PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET
    _, play = _pull(_pulled(), flags=flags, commit_offset=9, broker_id=1)
    (call,) = play.calls
    assert (call.address, (call.ext or {})["sysFlag"]) == (SLAVE, "2")


def test_a_refused_pull_raises_the_error_of_its_code() -> None:
    with pytest.raises(BrokerBusy):
        _pull(answer(ResponseCode.SYSTEM_BUSY))
    with pytest.raises(BrokerBusy):
        _pull(answer(215))
    with pytest.raises(BrokerRefused) as caught:
        _pull(answer(ResponseCode.SUBSCRIPTION_NOT_EXIST))
    assert caught.value.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert not isinstance(caught.value, BrokerBusy)


def test_tags_are_compared_again_by_the_client() -> None:
    pulled, _ = _pull(_pulled())
    pulled.body = b"".join(
        encode_record("T", b"x", queue_offset=n, properties={"TAGS": tag})
        for n, tag in enumerate(["a", "c", "b"])
    )
    subscription = subscribe("T", "a||b", None, 1)
    kept = messages_of(pulled, QUEUE, subscription, topic="T")
    assert [(m.queue_offset, m.max_offset) for m in kept] == [(0, 20), (2, 20)]


# ---- Members, shares and locks


def _members(*ids: str) -> Command:
    return answer(body=dumps_lenient({"consumerIdList": list(ids)}))


def test_group_members_are_the_union_over_all_brokers() -> None:
    play = Play([_members("c1", "c2"), _members("c2", "c3")])
    assert play.run(group_members(_routes(), "T", "g")) == ["c1", "c2", "c3"]
    assert [call.address for call in play.calls] == [MASTER, OTHER]
    play = Play([_members("c1", "c1"), _members("c1")])
    assert play.run(group_members(_routes(), "T", "g")) == ["c1", "c1"], "as Java counts it"
    refusal = answer(ResponseCode.SYSTEM_ERROR)
    for other in (refusal, ConnectionLost("x")):
        assert Play([other, _members("c1")]).run(group_members(_routes(), "T", "g")) == ["c1"]
    assert Play([refusal, refusal]).run(group_members(_routes(), "T", "g")) is None
    both_gone = [ConnectionLost("x"), RequestTimeout("x")]
    assert Play(both_gone).run(group_members(_routes(), "T", "g")) is None


def test_a_broker_that_just_came_back_does_not_decide_membership_alone() -> None:
    def settled(address: str) -> bool:
        return address != MASTER

    both = [_members("c1"), _members("c1", "c2")]
    assert Play(both).run(group_members(_routes(), "T", "g", settled)) == ["c1", "c2"]
    alone = Play([_members("c1"), ConnectionLost("x")])
    assert alone.run(group_members(_routes(), "T", "g", settled)) is None


def test_a_share_is_allocated_among_sorted_members() -> None:
    play = Play([_members("c2", "c1"), _members("c2", "c1")])
    share = play.run(share_of_topic(_routes(), "T", "g", "c1", Averagely()))
    assert share == [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)]
    assert Play().run(share_of_topic(_routes(), "T", "g", "c1", None)) == sorted(
        _routes().subscribe_queues("T")
    )


def test_queues_of_an_absent_broker_are_allocated_with_the_others() -> None:
    play = Play([_members("c2", "c1"), _members("c2", "c1")])
    lost = [MessageQueue("T", "away", number) for number in range(2)]
    share = play.run(share_of_topic(_routes(), "T", "g", "c1", Averagely(), lost=lost))
    assert share == [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), lost[0]]


def test_a_share_is_unknown_when_no_broker_lists_members() -> None:
    def share(*reactions: Any, topic: str = "T", strategy: Any = None) -> Any:
        flow = share_of_topic(_routes(), topic, "g", "c1", strategy or Averagely())
        return Play(reactions).run(flow)

    class Broken(ByConfig):
        def share(self, *_: Any) -> list[MessageQueue]:
            raise RuntimeError("no")

    assert share(topic="unknown") is None
    assert share(answer(1), answer(1)) is None
    assert share(_members(), _members()) is None
    assert share(_members("c1"), _members("c1"), strategy=Broken([])) is None
    assert share(_members("others"), _members("others")) == []


def test_changes_are_the_dropped_and_added_queues() -> None:
    a, b, c = (MessageQueue("T", "a", n) for n in range(3))
    steps = changes([a, b], [b, c], stale=set())
    assert (steps.dropped, steps.added) == ([a], [c])
    steps = changes([a, b], [a, b], stale={b})
    assert (steps.dropped, steps.added) == ([b], [b])
    steps = changes([a, b], [a, b], stale=set())
    assert (steps.dropped, steps.added) == ([], [])


def test_locks_are_requested_from_each_broker() -> None:
    queues = [MessageQueue("T", "a", 0), QUEUE, MessageQueue("T", "b", 0)]
    play = Play(
        [answer(body=dumps_lenient({"lockOKMQSet": [QUEUE.as_json()]})), RequestTimeout("x")]
    )
    locks = play.run(lock_queues(_routes(), "g", "c1", queues))
    assert (locks.granted, locks.refused, locks.not_lent) == ({QUEUE}, {queues[0]}, set())
    first, second = play.calls
    assert (first.address, second.address) == (MASTER, OTHER)
    body = loads_lenient(first.body or b"")
    assert (body["clientId"], body["consumerGroup"], len(body["mqSet"])) == ("c1", "g", 2)


def test_a_failed_lock_request_is_not_a_refusal() -> None:
    locks = Play([answer(1)]).run(lock_queues(_routes(), "g", "c1", [QUEUE]))
    assert (locks.granted, locks.refused, locks.not_lent) == (set(), set(), {QUEUE})


def test_locks_are_released_at_each_broker() -> None:
    play = Play()
    play.run(unlock_queues(_routes(), "g", "c1", [QUEUE]))
    assert [notice.code for notice in play.notices] == [RequestCode.UNLOCK_BATCH_MQ]
    play = Play([ConnectionLost("x"), answer()])
    both = [QUEUE, MessageQueue("T", "b", 0)]
    play.run(unlock_queues(_routes(), "g", "c1", both, wait=True))
    assert len(play.calls) == 2


def test_filters_are_checked_before_they_are_used() -> None:
    sql = subscribe("T", None, "a > 1", 1)
    Play([answer()]).run(check_filter(_routes(), "g", "c1", sql))
    Play().run(check_filter(_routes(), "g", "c1", subscribe("T", "a", None, 1)))
    with pytest.raises(ConfigError, match="a > 1"):
        Play([answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED)]).run(
            check_filter(_routes(), "g", "c1", sql)
        )
    with pytest.raises(BrokerRefused, match="enablePropertyFilter"):
        Play([answer(ResponseCode.SYSTEM_ERROR)]).run(check_filter(_routes(), "g", "c1", sql))


# ---- Failed messages


def test_a_failed_message_goes_back_to_its_broker() -> None:
    play = Play([answer()])
    play.run(send_back(_routes(), "g", _message(2), "a", delay_level=3, max_reconsume_times=9))
    (call,) = play.calls
    assert (call.address, call.code) == (MASTER, RequestCode.CONSUMER_SEND_MSG_BACK)
    assert call.ext == {
        "offset": "77",
        "group": "g",
        "delayLevel": "3",
        "originMsgId": "ID",
        "originTopic": "T",
        "unitMode": "false",
        "maxReconsumeTimes": "9",
        "bname": "a",
    }


def test_a_message_goes_back_to_its_store_host_when_the_broker_is_unknown() -> None:
    play = Play([answer()])
    play.run(send_back(_routes(), "g", _message(), "unknown"))
    assert play.calls[0].address == "10.0.0.9:10911"


@pytest.mark.parametrize("failure", [ConnectionLost("x"), RequestTimeout("x"), answer(1)])
def test_a_copy_is_sent_when_it_cannot_go_back(failure: Any) -> None:
    play = Play([failure, answer()])
    message = _message(2, TRAN_MSG="true", TAGS="t", DELAY="1")
    play.run(send_back(_routes(), "g", message, "a", max_reconsume_times=9))
    _, copy = play.calls
    ext = copy.ext or {}
    assert (copy.code, ext["topic"], copy.body) == (RequestCode.SEND_MESSAGE, "%RETRY%g", b"body")
    assert (ext["reconsumeTimes"], ext["maxReconsumeTimes"]) == ("3", "9")
    assert decode_properties(ext["properties"]) == {
        "UNIQ_KEY": "ID",
        "TAGS": "t",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": "ID",
        "DELAY": "5",
    }


def test_a_copy_goes_to_any_broker() -> None:
    play = Play([ConnectionLost("x"), ConnectionLost("x"), answer(ResponseCode.FLUSH_DISK_TIMEOUT)])
    play.run(send_back(_routes(), "g", _message(), "a"))
    assert [call.address for call in play.calls] == [MASTER, MASTER, OTHER]


def test_send_back_fails_when_no_broker_accepts_the_message() -> None:
    with pytest.raises(BrokerRefused) as caught:
        Play([answer(1), answer(2), answer(16)]).run(send_back(_routes(), "g", _message(), "a"))
    assert caught.value.code == 16


def test_a_copy_keeps_the_first_topic_and_message_id() -> None:
    play = Play([answer()])
    message = _message(3, RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="FIRST")
    play.run(send_copy(_routes(), "g", message, reconsume_times=3, max_reconsume_times=3))
    properties = decode_properties((play.calls[0].ext or {})["properties"])
    assert properties["RETRY_TOPIC"] == "first"
    assert properties["ORIGIN_MESSAGE_ID"] == "FIRST"
    assert "DELAY" not in properties
