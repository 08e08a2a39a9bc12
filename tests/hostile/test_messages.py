"""Messages with malformed properties: the messages behind them are handled all the same.

The broker works through delayed messages, timers, retries and half messages in order. None of the
messages here may stop one of these loops for others.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq._native import decode_records
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address, pull_ext
from tests.broker.test_transactions import HALF, begin, bodies, end, hear_of_producer

SETTINGS = {
    "messageDelayLevel": "1s 2s",
    "transactionCheckInterval": "200",
    "transactionTimeOut": "0",
}
ODD = (
    "k\1a\1b",
    "k\1\1",
    "\1v\2\2\1\2x",
    "k\1" + "v" * 32_000,
    "REAL_QID\1x",
    "REAL_QID\1-1",
    "REAL_QID\199999999999999999999",
    "REAL_TOPIC\1a/b\2REAL_QID\1\1",
    "TIMER_OUT_MS\1x",
    "TRANSACTION_CHECK_TIMES\1x",
    "TRANSACTION_CHECK_TIMES\1-99999999999",
    "CHECK_IMMUNITY_TIME_IN_SECONDS\1" + "9" * 5000,
    "CHECK_IMMUNITY_TIME_IN_SECONDS\1999999999999",
    "TRAN_PREPARED_QUEUE_OFFSET\1x",
    "RETRY_TOPIC\1a/b\2ORIGIN_MESSAGE_ID\1\1",
    "UNIQ_KEY\1\1",
)
WAYS = ("DELAY\0011", "TIMER_DELAY_MS\00150", HALF, "")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def attacked(cluster: LocalCluster) -> Iterator[Wire]:
    """A broker that has received every malformed message in every way."""
    hostile = Wire(broker_address(cluster))
    hear_of_producer(hostile)
    names = ("g", "a/b", "a\0b", "..", "g" * 300)
    for group in names:
        hostile.heartbeat(group, "odd")
    for odd in ODD:
        for way in WAYS:
            # Before and after: of two entries with one name the later one counts.
            for properties in (f"{odd}\2{way}", f"{way}\2{odd}"):
                sent = hostile.send("odd", b"odd", properties=properties)
                if sent.code != ResponseCode.SUCCESS:
                    continue
                message_id = (sent.ext or {})["msgId"]
                offset = str(int(message_id[-16:], 16))
                for group in names:
                    ext = {"offset": offset, "group": group, "delayLevel": "1"}
                    hostile.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext)
                hostile.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message_id})
    yield hostile
    hostile.close()


def arrives(wire: Wire, topic: str, body: bytes, queue_id: str = "0") -> None:
    ext = pull_ext(topic, 0, sysFlag="6", suspendTimeoutMillis="30000", queueId=queue_id)
    answer = wire.ask(RequestCode.PULL_MESSAGE, ext)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert decode_records(answer.body)[0].body == body


@pytest.mark.parametrize("way", WAYS[:2], ids=["delayed", "timed"])
def test_delayed_messages_of_others_arrive(cluster: LocalCluster, attacked: Wire, way: str) -> None:
    wire = Wire(broker_address(cluster))
    topic = f"later-{len(way)}"
    assert wire.send(topic, b"polite", properties=way).code == 0
    arrives(wire, topic, b"polite")
    wire.close()


def test_messages_of_others_are_retried(cluster: LocalCluster, attacked: Wire) -> None:
    wire = Wire(broker_address(cluster))
    wire.heartbeat("polite", "failing")
    sent = wire.send("failing", b"polite")
    offset = str(int((sent.ext or {})["msgId"][-16:], 16))
    ext = {"offset": offset, "group": "polite", "delayLevel": "1"}
    assert wire.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code == 0
    arrives(wire, "%RETRY%polite", b"polite")
    wire.close()


def test_transactions_of_others_are_checked(cluster: LocalCluster, attacked: Wire) -> None:
    wire = Wire(broker_address(cluster))
    hear_of_producer(wire, "q")
    begin(wire, b"polite", HALF.replace("PGROUP\1p", "PGROUP\1q"))
    asked = wire.next_push()
    assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
    (record,) = decode_records(asked.body)
    assert record.body == b"polite"
    assert end(wire, (asked.ext or {}) | {"producerGroup": "q"}).code == 0
    assert bodies(wire) == [b"polite"]
    wire.close()
