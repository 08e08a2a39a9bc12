"""Awaited group members after a lost connection or restart, and queues that change owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from orbitmq._native import dumps_lenient, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address
from .test_consumers import members

QUEUE = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
PLACE = {"consumerGroup": "g", "topic": "t", "queueId": "0"}
LONG_MS = str(3_600_000)


@pytest.fixture
def patient() -> Iterator[LocalCluster]:
    """A broker that awaits members without a time limit."""
    settings = {"lostMemberGraceMillis": LONG_MS, "startMemberGraceMillis": LONG_MS}
    with LocalCluster(settings=settings) as running:
        yield running


def _lock(wire: Wire, client_id: str, *, unordered: bool = True) -> list[object]:
    body = {"clientId": client_id, "consumerGroup": "g", "mqSet": [QUEUE]}
    if unordered:
        body["orbitUnordered"] = [QUEUE]
    answer = wire.ask(RequestCode.LOCK_BATCH_MQ, body=dumps_lenient(body))
    held: list[object] = loads_lenient(answer.body)["lockOKMQSet"]
    return held


def _unlock(wire: Wire, client_id: str) -> None:
    body = {"clientId": client_id, "consumerGroup": "g", "mqSet": [QUEUE]}
    wire.ask(RequestCode.UNLOCK_BATCH_MQ, body=dumps_lenient(body))


def test_a_member_stays_without_notices_when_its_connection_is_lost(
    patient: LocalCluster,
) -> None:
    one, two = Wire(broker_address(patient)), Wire(broker_address(patient))
    one.heartbeat("g", "t", client_id="one")
    two.heartbeat("g", "t", client_id="two")
    one.next_push()
    one.next_push()
    two.close()
    assert members(one, "g") == ["one", "two"]
    again = Wire(broker_address(patient))
    again.heartbeat("g", "t", client_id="two")
    assert members(one, "g") == ["one", "two"]
    assert not one.pushed
    again.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "two", "consumerGroup": "g"})
    assert members(one, "g") == ["one"]
    one.close()
    again.close()


def test_other_members_are_notified_when_one_does_not_come_back(
    connect: Callable[[], Wire],
) -> None:
    one, two = connect(), connect()
    one.heartbeat("g", "t", client_id="one")
    two.heartbeat("g", "t", client_id="two")
    one.next_push()
    one.next_push()
    two.close()
    assert one.next_push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert members(one, "g") == ["one"]


def test_members_are_awaited_after_a_restart(patient: LocalCluster) -> None:
    wires = [Wire(broker_address(patient)) for _ in range(3)]
    for number, wire in enumerate(wires):
        wire.heartbeat("g", "t", client_id=f"c{number}")
    wires[2].ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "g"})
    patient.stop_broker("broker-a")
    patient.start_broker("broker-a")
    wire = Wire(broker_address(patient))
    assert members(wire, "g") == ["c0", "c1"]
    wire.heartbeat("g", "t", client_id="c1")
    assert members(wire, "g") == ["c0", "c1"]
    for each in (*wires, wire):
        each.close()


def test_members_are_not_awaited_after_a_restart_when_the_setting_is_zero() -> None:
    with LocalCluster(settings={"startMemberGraceMillis": "0"}) as cluster:
        wire = Wire(broker_address(cluster))
        wire.heartbeat("g", "t", client_id="one")
        cluster.stop_broker("broker-a")
        cluster.start_broker("broker-a")
        again = Wire(broker_address(cluster))
        assert members(again, "g") == []
        wire.close()
        again.close()


def test_offsets_are_on_disk_when_a_queue_was_unlocked(wire: Wire, cluster: LocalCluster) -> None:
    wire.send("t")
    _lock(wire, "one")
    wire.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": "1"})
    _unlock(wire, "one")
    (file,) = cluster.data.rglob("consumerOffset.json")
    assert loads_lenient(file.read_bytes())["offsetTable"]["t@g"] == {0: 1}


def test_only_locks_of_orderly_queues_outlive_their_member(
    wire: Wire,
) -> None:
    wire.heartbeat("g", "t", client_id="one")
    assert _lock(wire, "one") == [QUEUE]
    assert _lock(wire, "two") == []
    wire.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "one", "consumerGroup": "g"})
    assert _lock(wire, "two", unordered=False) == [QUEUE]
    assert _lock(wire, "three") == []


def test_an_offset_is_returned_once_the_previous_owner_unlocks_the_queue(
    connect: Callable[[], Wire],
) -> None:
    ours, java, tool = connect(), connect(), connect()
    ours.send("t")
    ours.heartbeat("g", "t", client_id="ours")
    java.heartbeat("g", "t", client_id="java")
    assert _lock(ours, "ours") == [QUEUE]
    asked = java.post(RequestCode.QUERY_CONSUMER_OFFSET, PLACE)
    assert tool.ask(RequestCode.QUERY_CONSUMER_OFFSET, PLACE).get_ext("offset") == "0"
    assert ours.ask(RequestCode.QUERY_CONSUMER_OFFSET, PLACE).get_ext("offset") == "0"
    ours.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": "1"})
    _unlock(ours, "ours")
    answer = java.answer(asked)
    assert (answer.code, answer.get_ext("offset")) == (ResponseCode.SUCCESS, "1")


def test_a_commit_of_a_former_owner_does_not_move_the_offset_back(
    connect: Callable[[], Wire],
) -> None:
    ours, java = connect(), connect()
    ours.send("t")
    ours.heartbeat("g", "t", client_id="ours")
    java.heartbeat("g", "t", client_id="java")

    def stored() -> str | None:
        return ours.ask(RequestCode.QUERY_CONSUMER_OFFSET, PLACE).get_ext("offset")

    _lock(ours, "ours")
    for is_lent in (True, False):
        if not is_lent:
            _unlock(ours, "ours")
        ours.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": "9"})
        java.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": "5"})
        java.pull("t", offset=0, sysFlag="5", commitOffset="6")
        assert stored() == "9"
        java.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": "12"})
        assert stored() == "12", "it may be ahead"
    ours.ask(RequestCode.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": "3"})
    assert stored() == "3", "the one that had it last may go back"
