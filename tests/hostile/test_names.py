"""Names, counts and types invented by a client."""

from __future__ import annotations

from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.limits import MAX_QUEUES
from tests.broker.conftest import Wire
from tests.hostile.conftest import Victim

TOPIC = {
    "defaultTopic": "TBW102",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


def create_topic(wire: Wire, topic: str, read: int, write: int) -> tuple[int, str]:
    counts = {"readQueueNums": str(read), "writeQueueNums": str(write)}
    answer = wire.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC | {"topic": topic} | counts)
    return answer.code, answer.remark or ""


def create_group(wire: Wire, **members: object) -> tuple[int, str]:
    answer = wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=dumps_lenient(members))
    return answer.code, answer.remark or ""


def test_a_heartbeat_with_a_number_as_group_is_refused(victim: Victim) -> None:
    wire = Wire(victim.broker)
    good = {"groupName": "listed-before-a-bad-one", "subscriptionDataSet": []}
    body = {"clientID": "c", "consumerDataSet": [good, {"groupName": 7}]}
    answer = wire.ask(RequestCode.HEART_BEAT, body=dumps_lenient(body))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "consumerDataSet[1].groupName is 7" in (answer.remark or "")
    assert create_group(wire, groupName="still-saved") == (ResponseCode.SUCCESS, "")
    groups = loads_lenient(wire.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert good["groupName"] not in groups["subscriptionGroupTable"], "all of it is refused"
    victim.serves_others()
    wire.close()


def test_topics_and_groups_with_two_billion_queues_are_refused(victim: Victim) -> None:
    wire = Wire(victim.broker)
    for read, write in ((2**31 - 1, 4), (4, 2**31 - 1), (-1, 4), (MAX_QUEUES + 1, 1)):
        code, remark = create_topic(wire, "huge", read, write)
        assert code == ResponseCode.SYSTEM_ERROR
        assert "topic[huge]" in remark
        assert str(MAX_QUEUES) in remark
    sent = wire.send("made-huge", defaultTopicQueueNums=str(2**31 - 1))
    assert sent.code == ResponseCode.SUCCESS
    topics = loads_lenient(wire.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
    assert topics["made-huge"]["writeQueueNums"] == 8
    assert "huge" not in topics
    code, remark = create_group(wire, groupName="huge", retryQueueNums=2**31 - 1)
    assert code == ResponseCode.SYSTEM_ERROR
    assert "retryQueueNums" in remark
    assert create_topic(wire, "largest", MAX_QUEUES, MAX_QUEUES)[0] == ResponseCode.SUCCESS
    stats = wire.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "largest"})
    assert len(loads_lenient(stats.body)["offsetTable"]) == MAX_QUEUES
    wire.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "largest"})
    victim.serves_others()
    wire.close()


def test_a_registered_topic_with_two_billion_queues_is_ignored(victim: Victim) -> None:
    topic = {"readQueueNums": 2**31 - 1, "writeQueueNums": 4, "perm": 6}
    table = {"huge-route": topic, "small-route": topic | {"readQueueNums": 4}}
    body = {"filterServerList": [], "topicConfigSerializeWrapper": {"topicConfigTable": table}}
    ext = {
        "brokerName": "stranger",
        "brokerAddr": "127.0.0.1:1",
        "clusterName": "strangers",
        "brokerId": "0",
    }
    wire = Wire(victim.nameserver)
    assert wire.ask(RequestCode.REGISTER_BROKER, ext, dumps_lenient(body)).code == 0
    routes = {
        name: wire.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name}).code for name in table
    }
    assert routes == {
        "huge-route": ResponseCode.TOPIC_NOT_EXIST,
        "small-route": ResponseCode.SUCCESS,
    }
    wire.ask(RequestCode.UNREGISTER_BROKER, ext)
    wire.close()


def test_made_up_groups_topics_offsets_and_locks_do_not_fill_memory(victim: Victim) -> None:
    wire = Wire(victim.broker)
    commit = {"queueId": "0", "commitOffset": "5"}
    with victim.keeps(within_mib=100):
        for number in range(1500):
            wire.heartbeat(f"made-up-{number}")
            if number % 500 == 0:
                victim.serves_others()
        for number in range(50):
            wire.send(f"made-up-{number}")
        # Each once, for topics that do not exist.
        for first in range(0, 30_000, 1000):
            posted = [
                wire.post(
                    RequestCode.UPDATE_CONSUMER_OFFSET,
                    commit | {"topic": f"nowhere-{number}", "consumerGroup": "nobody"},
                )
                for number in range(first, first + 1000)
            ]
            assert {wire.answer(opaque).code for opaque in posted} == {ResponseCode.SUCCESS}
        queues = [
            {"brokerName": "nowhere", "topic": "nothing", "queueId": number}
            for number in range(20_000)
        ]
        body = dumps_lenient({"clientId": "c", "consumerGroup": "nobody", "mqSet": queues})
        locked = loads_lenient(wire.ask(RequestCode.LOCK_BATCH_MQ, body=body).body)["lockOKMQSet"]
        assert len(locked) <= 10_000
        offsets = loads_lenient(wire.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)["offsetTable"]
        assert len([key for key in offsets if key.startswith("nowhere-")]) <= 10_000
        assert "nowhere-29999@nobody" in offsets, "the newest stay"
        wire.close()
