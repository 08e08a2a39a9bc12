"""Rounds of the transaction check: no message stops one, and decisions during a round count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import (
    Command,
    NewMessage,
    decode_records,
    encode_offset_id,
    encode_record,
)
from orbitmq.broker.transactions.check import STEPS_PER_TURN
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address
from .test_transactions import (
    COMMIT,
    HALF,
    ROLLBACK,
    SETTINGS,
    Round,
    Stored,
    begin,
    bodies,
    check_round,
    end,
    hear_of_producer,
    stored,
)

__all__ = ["check_round", "stored"]

HOUR_MS = 3_600_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(settings=SETTINGS, data=tmp_path) as running:
        yield running


@pytest.fixture
def wire(cluster: LocalCluster) -> Iterator[Wire]:
    made = Wire(broker_address(cluster))
    hear_of_producer(made)
    yield made
    made.close()


Append = Callable[[dict[str, str] | str], None]


@pytest.fixture
def append(cluster: LocalCluster, on_broker: Callable[[Callable[[], Any]], Any]) -> Append:
    """Put a half message into the store unchanged."""
    (broker,) = cluster.brokers.values()

    def put(properties: dict[str, str] | str) -> None:
        now_ms = broker.clock()
        message = NewMessage(
            TRANS_HALF_TOPIC, b"stuck", properties=properties, born_timestamp=now_ms - 10
        )
        on_broker(lambda: broker.store.append(message, now_ms=now_ms))

    return put


def asked_about(wire: Wire) -> list[bytes]:
    """Return the bodies of all checks so far: they come before the answer to a later request."""
    wire.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "0"})
    found = [decode_records(asked.body)[0].body for asked in wire.pushed]
    wire.pushed.clear()
    return found


def test_a_half_message_with_separators_in_a_property_is_committed(
    wire: Wire, check_round: Round, stored: Stored
) -> None:
    half = begin(wire, b"odd", HALF + "\x02k\x01a\x01b")
    begin(wire, b"plain")
    check_round()
    assert asked_about(wire) == [b"odd", b"plain"]
    assert end(wire, half).code == 0
    (record,) = decode_records(wire.pull("t", queueId="2").body)
    assert (record.body, record.properties["k"]) == (b"odd", "a\x01b")


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": "t", "REAL_QID": "x", "PGROUP": "p"},
        "REAL_TOPIC\x01t\x02REAL_QID\x010\x02PGROUP\x01p\x02k\x01" + "v" * 32_725,
    ],
    ids=["no queue", "no room for a count"],
)
def test_a_half_message_that_cannot_be_checked_stops_no_round(
    wire: Wire,
    append: Append,
    check_round: Round,
    stored: Stored,
    properties: dict[str, str] | str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    append(properties)
    begin(wire, b"good")
    check_round()
    assert asked_about(wire) == [b"good"]
    (discarded,) = stored(TRANS_CHECK_MAX_TIME_TOPIC)
    assert discarded.body == b"stuck"
    assert f"topic {TRANS_HALF_TOPIC}, queue 0, offset 0, physical offset 0" in caplog.text
    check_round()
    assert asked_about(wire) == [b"good"]
    assert [record.body for record in stored(TRANS_HALF_TOPIC)] == [
        b"stuck",
        b"good",
        b"good",
        b"good",
    ]


def test_a_half_message_waits_while_the_store_is_not_writable(
    wire: Wire, cluster: LocalCluster, check_round: Round, stored: Stored
) -> None:
    (broker,) = cluster.brokers.values()
    begin(wire, b"good")
    broker.putting.is_writable = False
    check_round()
    broker.putting.is_writable = True
    assert asked_about(wire) == []
    assert stored(TRANS_CHECK_MAX_TIME_TOPIC) == []
    check_round()
    assert asked_about(wire) == [b"good"]


def test_an_error_in_the_middle_of_a_round_repeats_no_copy(
    wire: Wire,
    cluster: LocalCluster,
    check_round: Round,
    stored: Stored,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (broker,) = cluster.brokers.values()
    begin(wire, b"first")
    begin(wire, b"second")
    check = broker.transaction_check
    with monkeypatch.context() as broken:
        step = check._step

        def stops_at_the_second(offset: int, *args: Any) -> int | None:
            if offset == 1:
                raise OSError(5, "the disk is away")
            return step(offset, *args)

        broken.setattr(check, "_step", stops_at_the_second)
        with pytest.raises(OSError, match="away"):
            check_round()
    check_round()
    copies = [record.body for record in stored(TRANS_HALF_TOPIC)]
    assert copies.count(b"second") == 2
    assert copies.count(b"first") == 3, "once per round"


def test_a_check_that_cannot_be_sent_is_sent_in_the_next_round(
    wire: Wire, check_round: Round, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(wire, b"good")
    with monkeypatch.context() as broken:
        broken.setattr("orbitmq.broker.transactions.check.check_body", None)
        check_round()
    assert asked_about(wire) == []
    check_round()
    assert asked_about(wire) == [b"good"]
    assert len(stored(TRANS_HALF_TOPIC)) == 3


def test_damaged_op_messages_are_skipped(
    wire: Wire, cluster: LocalCluster, check_round: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = [begin(wire, b"%d" % number) for number in range(3)]
    assert [end(wire, half, ROLLBACK).code for half in halves] == [0, 0, 0]

    def decode(data: bytes, *, check_crc: bool) -> Any:
        records = decode_records(data, check_crc=check_crc)
        if any(one.topic == TRANS_OP_HALF_TOPIC and one.queue_offset == 1 for one in records):
            decode_records(data[:-1])  # Raises an error.
        return records

    monkeypatch.setattr("orbitmq.broker.transactions.check.decode_records", decode)
    check_round()
    assert asked_about(wire) == [b"1"]


# ---- Limits


def test_only_half_messages_can_be_revived(wire: Wire, stored: Stored) -> None:
    sent = wire.send("t", properties="REAL_TOPIC\x01t\x02REAL_QID\x01x\x02PGROUP\x01p")
    revived = wire.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": (sent.ext or {})["msgId"]})
    assert revived.code == ResponseCode.SYSTEM_ERROR
    assert "is no half message" in (revived.remark or "")
    assert stored(TRANS_HALF_TOPIC) == []


def test_bytes_inside_a_body_cannot_be_revived(
    wire: Wire, cluster: LocalCluster, stored: Stored
) -> None:
    begin(wire, b"real")
    (broker,) = cluster.brokers.values()
    at = broker.store.max_physical_offset
    fake = encode_record(TRANS_HALF_TOPIC, b"fake", physical_offset=at)
    wire.send("t", fake)
    body_at = broker.store.record_at(at).index(fake)  # type: ignore[union-attr]
    forged = encode_offset_id(("127.0.0.1", 1), at + body_at)
    revived = wire.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": forged})
    assert revived.code == ResponseCode.SYSTEM_ERROR
    assert [record.body for record in stored(TRANS_HALF_TOPIC)] == [b"real"]


def test_a_half_message_without_a_queue_cannot_be_revived(
    wire: Wire, append: Append, stored: Stored
) -> None:
    append({"REAL_TOPIC": "t", "REAL_QID": "x", "PGROUP": "p"})
    (half,) = stored(TRANS_HALF_TOPIC)
    revived = wire.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": half.offset_id})
    assert revived.code == ResponseCode.SYSTEM_ERROR
    assert len(stored(TRANS_HALF_TOPIC)) == 1


@pytest.mark.parametrize("age_hours", [37, 73])
def test_the_immunity_time_of_a_message_is_limited(
    wire: Wire, cluster: LocalCluster, check_round: Round, stored: Stored, age_hours: int
) -> None:
    """The limit is half of the 72 hours that the log keeps messages; then they are discarded."""
    immune = HALF + "\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01999999999999"
    born = time.time_ns() // 1_000_000 - age_hours * HOUR_MS
    sent = wire.send("t", b"x", sysFlag="4", properties=immune, bornTimestamp=str(born))
    assert sent.code == 0
    check_round()
    assert asked_about(wire) == [b"x"] * (age_hours < 72)
    assert len(stored(TRANS_CHECK_MAX_TIME_TOPIC)) == (age_hours > 72)


def test_a_negative_check_count_does_not_allow_more_checks(
    wire: Wire, check_round: Round, stored: Stored
) -> None:
    begin(wire, b"x", HALF + "\x02TRANSACTION_CHECK_TIMES\x01-1000000")
    for _ in range(4):
        check_round()
    assert asked_about(wire) == [b"x"] * int(SETTINGS["transactionCheckMax"])
    assert len(stored(TRANS_CHECK_MAX_TIME_TOPIC)) == 1


# ---- Decisions during a round


class _Nobody:
    """Stands for a connection: no answer waits for the disk here."""


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK], ids=["commit", "rollback"])
def test_a_decision_in_the_middle_of_a_round_counts(
    wire: Wire, cluster: LocalCluster, check_round: Round, stored: Stored, decision: str
) -> None:
    (broker,) = cluster.brokers.values()
    halves = [begin(wire, b"%d" % number) for number in range(2 * STEPS_PER_TURN)]
    last = halves[-1] | {"commitOrRollback": decision}

    async def decide_after_the_first_turn() -> int:
        going = asyncio.create_task(broker.transaction_check.round())
        await asyncio.sleep(0)  # The round is in its first pause now.
        request = Command(RequestCode.END_TRANSACTION, ext=last)
        answer: Any = broker.router.find(request.code)(request, _Nobody())  # type: ignore[arg-type]
        assert not going.done()
        await going
        return int(answer.code)

    before_ms = broker.clock()
    while broker.clock() == before_ms:  # Wait for the next millisecond.
        time.sleep(0.0005)
    assert cluster.run(decide_after_the_first_turn()) == 0
    asked = asked_about(wire)
    assert asked == [b"%d" % number for number in range(len(halves) - 1)]
    assert bodies(wire) == [b"%d" % (len(halves) - 1)] * (decision == COMMIT)
    check_round()
    assert b"%d" % (len(halves) - 1) not in asked_about(wire)
    assert broker.transaction_check._decided == set()


def test_decisions_about_two_copies_of_a_message_deliver_it_once(
    wire: Wire, cluster: LocalCluster, check_round: Round
) -> None:
    """The producer's own end and its answer to the check may cross."""
    (broker,) = cluster.brokers.values()
    half = begin(wire, b"pay")
    check_round()
    asked = (wire.next_push().ext or {}) | {"producerGroup": "p", "fromTransactionCheck": "true"}
    assert end(wire, half).code == 0
    assert end(wire, asked).code == 0
    assert bodies(wire) == [b"pay"]
    check_round()
    assert asked_about(wire) == []
    assert broker.transaction_check._decided == set()
