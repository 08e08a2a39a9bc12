"""Consumer groups: members, offsets and locks."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire


def members(wire: Wire, group: str) -> list[str]:
    answer = wire.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    if answer.code != ResponseCode.SUCCESS:
        assert answer.remark == f"no consumer for this group, {group}"
        return []
    ids: list[str] = loads_lenient(answer.body)["consumerIdList"]
    return sorted(ids)


def test_members_are_notified_when_others_come_and_go(connect: Callable[[], Wire]) -> None:
    one, two, three = connect(), connect(), connect()
    assert members(one, "g") == []
    one.heartbeat("g", "t", client_id="one")
    assert one.next_push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    two.heartbeat("g", "t", client_id="two")
    three.heartbeat("g", "t", client_id="three")
    assert members(one, "g") == ["one", "three", "two"]
    assert [one.next_push().get_ext("consumerGroup") for _ in range(2)] == ["g", "g"]
    two.close()
    assert one.next_push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert members(one, "g") == ["one", "three"]
    three.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "three", "consumerGroup": "g"})
    assert members(one, "g") == ["one"]


def test_a_repeated_heartbeat_sends_no_notices(wire: Wire) -> None:
    wire.heartbeat("g", "t")
    wire.next_push()
    wire.heartbeat("g", "t")
    wire.heartbeat("g", "t", "another")
    assert len(wire.pushed) == 1, "only the new topic was news"


def test_a_consumer_group_gets_its_retry_topic(wire: Wire, cluster: LocalCluster) -> None:
    wire.heartbeat("g", "t")
    (broker,) = cluster.brokers.values()
    topic = broker.topics.find("%RETRY%g")
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, 6)


def test_offsets_are_stored_and_new_groups_start_at_the_beginning(wire: Wire) -> None:
    ext = {"consumerGroup": "g", "topic": "t", "queueId": "2"}
    wire.send("t")
    assert wire.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext).get_ext("offset") == "0"
    wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": "7"})
    assert wire.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext).get_ext("offset") == "7"
    wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": "3"})
    assert wire.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext).get_ext("offset") == "3"


def test_a_queue_belongs_to_one_client_at_a_time(wire: Wire) -> None:
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}

    def lock(client_id: str) -> list[object]:
        body = {"clientId": client_id, "consumerGroup": "g", "mqSet": [queue]}
        answer = wire.ask(RequestCode.LOCK_BATCH_MQ, body=dumps_lenient(body))
        held: list[object] = loads_lenient(answer.body)["lockOKMQSet"]
        return held

    assert lock("one") == [queue]
    assert lock("one") == [queue]
    assert lock("two") == []
    body = {"clientId": "one", "consumerGroup": "g", "mqSet": [queue]}
    wire.ask(RequestCode.UNLOCK_BATCH_MQ, body=dumps_lenient(body))
    assert lock("two") == [queue]
