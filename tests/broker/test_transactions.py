"""Transactions: half messages, their end, checks, and restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq._native import Command, Record, decode_records, dumps_lenient
from orbitmq.broker.transactions.check import GROUP
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address

HALF = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01id"
COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"

SETTINGS = {
    # Tests run the rounds.
    "transactionCheckInterval": "3600000",
    "transactionTimeOut": "0",
    "transactionCheckMax": "2",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def cluster(data: Path) -> Iterator[LocalCluster]:
    with LocalCluster(settings=SETTINGS, data=data) as running:
        yield running


Stored = Callable[[str], list[Record]]


@pytest.fixture
def stored(cluster: LocalCluster) -> Stored:
    """Read all of queue 0 of a topic from the broker's store."""

    def read(topic: str) -> list[Record]:
        (broker,) = cluster.brokers.values()
        return broker.store.read(topic, 0, 0, max_messages=1000).records()

    return read


Round = Callable[[], None]


@pytest.fixture
def check_round(cluster: LocalCluster) -> Round:
    """Run a round of the check service; messages stored before are old enough for it."""

    def run() -> None:
        (broker,) = cluster.brokers.values()
        last = broker.clock()
        while broker.clock() == last:  # Wait for the next millisecond.
            time.sleep(0.0005)
        cluster.run(broker.transaction_check.round())

    return run


def begin(wire: Wire, body: bytes = b"x", properties: str = HALF, **changes: str) -> dict[str, str]:
    now = str(time.time_ns() // 1_000_000 - 10)
    sent = wire.send(
        "t", body, sysFlag="4", properties=properties, bornTimestamp=now, queueId="2", **changes
    )
    assert sent.code == 0, sent.remark
    ext = sent.ext or {}
    return {
        "producerGroup": "p",
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": str(int(ext["msgId"][-16:], 16)),
        "msgId": "id",
    }


def end(wire: Wire, half: dict[str, str], decision: str = COMMIT, **changes: str) -> Command:
    ext = half | {"commitOrRollback": decision} | changes
    return wire.ask(RequestCode.END_TRANSACTION, ext)


def bodies(wire: Wire, topic: str = "t", queue: str = "2") -> list[bytes]:
    found = wire.pull(topic, queueId=queue)
    return [record.body for record in decode_records(found.body)]


def hear_of_producer(wire: Wire, group: str = "p") -> None:
    body = {"clientID": "c1", "producerDataSet": [{"groupName": group}]}
    assert wire.ask(RequestCode.HEART_BEAT, body=dumps_lenient(body)).code == 0


def test_a_half_message_is_seen_when_it_is_committed(wire: Wire, stored: Stored) -> None:
    half = begin(wire, b"pay")
    assert bodies(wire) == []
    (record,) = stored(TRANS_HALF_TOPIC)
    assert record.get_property("REAL_TOPIC") == "t"
    assert record.get_property("REAL_QID") == "2"
    assert record.sys_flag & 0xC == 0
    assert end(wire, half).code == 0
    (final,) = decode_records(wire.pull("t", queueId="2").body)
    assert final.body == b"pay"
    assert final.sys_flag & 0xC == 8
    assert final.prepared_transaction_offset == record.physical_offset
    assert final.properties_text == record.properties_text
    (op,) = stored(TRANS_OP_HALF_TOPIC)
    assert (op.body, op.properties) == (b"0", {"TAGS": "d", "WAIT": "true"})


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_a_sync_flushed_decision_is_on_disk_when_it_is_acknowledged(decision: str) -> None:
    with LocalCluster(settings=SETTINGS | {"flushDiskType": "SYNC_FLUSH"}) as cluster:
        (broker,) = cluster.brokers.values()
        wire = Wire(broker_address(cluster))
        assert end(wire, begin(wire), decision).code == 0
        # Nothing else writes, so all decisions are there.
        assert broker.store.flushed_offset == broker.store.max_physical_offset
        wire.close()


def test_a_rolled_back_message_is_never_delivered(wire: Wire, stored: Stored) -> None:
    assert end(wire, begin(wire), ROLLBACK).code == 0
    assert bodies(wire) == []
    assert [op.body for op in stored(TRANS_OP_HALF_TOPIC)] == [b"0"]


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"commitLogOffset": "999999"}, "Find prepared transaction message failed"),
        ({"producerGroup": "other"}, "The producer group wrong"),
        ({"tranStateTableOffset": "7"}, "The transaction state table offset wrong"),
    ],
)
def test_an_end_that_does_not_match_its_half_message_is_refused(
    wire: Wire, stored: Stored, changes: dict[str, str], remark: str
) -> None:
    answer = end(wire, begin(wire), **changes)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert stored(TRANS_OP_HALF_TOPIC) == []


def test_an_ordinary_message_cannot_be_committed(wire: Wire, stored: Stored) -> None:
    half = begin(wire)
    assert end(wire, half).code == 0
    (final,) = stored_final = decode_records(wire.pull("t", queueId="2").body)
    forged = half | {
        "commitLogOffset": str(final.physical_offset),
        "tranStateTableOffset": str(final.queue_offset),
    }
    assert end(wire, forged).remark == "Find prepared transaction message failed"
    assert len(stored_final) == 1


def test_an_unknown_decision_is_refused(wire: Wire) -> None:
    half = begin(wire)
    answer = end(wire, half, "5")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    unknown = wire.post(RequestCode.END_TRANSACTION, half | {"commitOrRollback": UNKNOWN})
    assert end(wire, half).code == 0, "an unknown outcome changes nothing, and has no answer"
    assert unknown not in wire._responses


def test_transactions_are_refused_when_the_setting_forbids_them(
    cluster: LocalCluster, wire: Wire
) -> None:
    (broker,) = cluster.brokers.values()
    broker.config.reject_transaction_message = True
    answer = wire.send("t", properties=HALF)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert (answer.remark or "").endswith("sending transaction message is forbidden")


# ---- Checks


def test_a_check_names_the_offset_of_the_copy(wire: Wire, check_round: Round) -> None:
    begin(wire, b"pay")
    hear_of_producer(wire)
    check_round()
    asked = wire.next_push()
    assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
    assert asked.is_oneway
    ext = asked.ext or {}
    assert (ext["msgId"], ext["transactionId"], ext["tranStateTableOffset"]) == ("id", "id", "1")
    (record,) = decode_records(asked.body)
    assert (record.topic, record.queue_id, record.body) == ("t", 2, b"pay")
    assert record.get_property("TRANSACTION_CHECK_TIMES") == "1"
    half = ext | {"producerGroup": "p", "fromTransactionCheck": "true"}
    assert end(wire, half).code == 0
    assert bodies(wire) == [b"pay"]
    check_round()
    check_round()
    assert wire.pushed == []


def test_decided_transactions_are_not_checked(
    wire: Wire, check_round: Round, stored: Stored, cluster: LocalCluster
) -> None:
    hear_of_producer(wire)
    halves = [begin(wire, b"%d" % number) for number in range(600)]
    for number, half in enumerate(reversed(halves)):
        assert end(wire, half, COMMIT if number % 3 else ROLLBACK).code == 0
    check_round()
    assert len(stored(TRANS_HALF_TOPIC)) == 600, "none was put again"
    (broker,) = cluster.brokers.values()
    assert broker.offsets.get(TRANS_HALF_TOPIC, "CID_RMQ_SYS_TRANS", 0) == 600
    assert broker.offsets.get(TRANS_OP_HALF_TOPIC, "CID_RMQ_SYS_TRANS", 0) == 600


@pytest.mark.parametrize("topic", [TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC])
def test_check_rounds_follow_a_queue_that_begins_anew(
    wire: Wire, check_round: Round, stored: Stored, cluster: LocalCluster, topic: str
) -> None:
    (broker,) = cluster.brokers.values()
    for _ in range(3):
        end(wire, begin(wire))
    begin(wire)  # One undecided message, so that the round reads op messages at all.
    check_round()
    assert broker.offsets.get(TRANS_OP_HALF_TOPIC, GROUP, 0) == 3
    broker.store.remove_topic(topic)  # As when all of it has expired.
    decided = begin(wire, b"decided")
    end(wire, decided)
    begin(wire, b"left")
    copies = len(stored(TRANS_HALF_TOPIC))
    check_round()
    asked_about = [record.body for record in stored(TRANS_HALF_TOPIC)[copies:]]
    assert b"decided" not in asked_about
    assert b"left" in asked_about


def test_offsets_beyond_the_end_of_the_log_are_corrected(data: Path) -> None:
    with LocalCluster(settings=SETTINGS, data=data) as cluster:
        wire = Wire(broker_address(cluster))
        end(wire, begin(wire))
        wire.close()
        (broker,) = cluster.brokers.values()
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC):
            broker.offsets.commit(topic, GROUP, 0, 3)
    with LocalCluster(settings=SETTINGS, data=data) as cluster:
        (broker,) = cluster.brokers.values()
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC):
            assert broker.offsets.get(topic, GROUP, 0) == 1


def test_a_late_decision_about_the_first_copy_counts(
    wire: Wire, check_round: Round, stored: Stored
) -> None:
    hear_of_producer(wire)
    half = begin(wire)
    check_round()
    assert wire.next_push().code == RequestCode.CHECK_TRANSACTION_STATE
    assert end(wire, half).code == 0, "of the first copy, while the second one is there"
    check_round()
    assert len(stored(TRANS_HALF_TOPIC)) == 2
    assert bodies(wire) == [b"x"]


def test_a_message_is_discarded_after_the_last_check_and_can_be_revived(
    wire: Wire, check_round: Round, stored: Stored
) -> None:
    begin(wire, b"lost")
    for _ in range(3):
        check_round()
    times = [record.get_property("TRANSACTION_CHECK_TIMES") for record in stored(TRANS_HALF_TOPIC)]
    assert times == [None, "1", "2"]
    (discarded,) = stored(TRANS_CHECK_MAX_TIME_TOPIC)
    assert discarded.body == b"lost"
    check_round()
    assert len(stored(TRANS_HALF_TOPIC)) == 3
    revived = wire.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": discarded.offset_id})
    assert revived.code == 0
    hear_of_producer(wire)
    check_round()
    asked = wire.next_push()
    assert decode_records(asked.body)[0].get_property("TRANSACTION_CHECK_TIMES") == "1"
    missing = wire.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": "0" * 24 + "7" * 8})
    assert missing.code == ResponseCode.SYSTEM_ERROR


def test_a_message_may_request_a_longer_immunity_time(
    wire: Wire, check_round: Round, stored: Stored
) -> None:
    hear_of_producer(wire)
    half = begin(wire, b"slow", HALF + "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x013600")
    begin(wire, b"quick")
    check_round()
    asked = wire.next_push()
    assert decode_records(asked.body)[0].body == b"quick"
    assert wire.pushed == [], "the slow one is not asked about"
    copies = [r for r in stored(TRANS_HALF_TOPIC) if r.body == b"slow"]
    assert [r.get_property("TRAN_PREPARED_QUEUE_OFFSET") for r in copies] == [None, "0"]
    check_round()
    assert end(wire, half).code == 0
    before = len(stored(TRANS_HALF_TOPIC))
    check_round()
    slow = [r for r in stored(TRANS_HALF_TOPIC)[before:] if r.body == b"slow"]
    assert slow == [], "decided by its first place, it is not put again"


def test_young_half_messages_are_not_checked(
    wire: Wire, check_round: Round, stored: Stored, cluster: LocalCluster
) -> None:
    (broker,) = cluster.brokers.values()
    broker.config.transaction_time_out = 60_000
    begin(wire)
    check_round()
    assert len(stored(TRANS_HALF_TOPIC)) == 1


def test_decided_and_open_transactions_survive_a_restart(data: Path, encoding: str) -> None:
    with LocalCluster(settings=SETTINGS, data=data) as cluster:
        wire = Wire(broker_address(cluster))
        committed, open_one = begin(wire, b"done"), begin(wire, b"open")
        assert end(wire, committed).code == 0
        wire.close()
    with LocalCluster(settings=SETTINGS, data=data) as cluster:
        wire = Wire(broker_address(cluster))
        hear_of_producer(wire)
        (broker,) = cluster.brokers.values()
        cluster.run(broker.transaction_check.round())
        asked = wire.next_push()
        assert decode_records(asked.body)[0].body == b"open"
        assert end(wire, open_one).code == 0, "its first place is still good, too"
        assert sorted(bodies(wire)) == [b"done", b"open"]
        cluster.run(broker.transaction_check.round())
        assert wire.pushed == []
        wire.close()
