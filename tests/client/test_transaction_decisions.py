"""Transactions, replies and traces without sockets: contents and receivers of requests."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, ClassVar

import pytest

from orbitmq._native import (
    Command,
    ReceivedMessage,
    decode_messages,
    encode_offset_id,
    encode_record,
)
from orbitmq.client import trace as trace_records
from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer.base import ProducerSettings
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.request_reply import PendingReply, reply_to
from orbitmq.client.producer.transaction import (
    AsyncTransactionProducer,
    TransactionProducer,
    TransactionState,
)
from orbitmq.client.settings import ClientSettings
from orbitmq.client.trace import Tracer
from orbitmq.errors import BadMessage, NoReply
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus
from orbitmq.protocol.codes import RequestCode
from orbitmq.rpc.route_table import RouteTable
from tests.client.playing import Play
from tests.client.test_routes import route_body


class Instance:
    """The part of a client instance that decisions use."""

    def __init__(self) -> None:
        self.routes = RouteTable()
        self.routes.apply("T", route_body("a"))
        self.client_id = "me"
        self.sent: list[Message] = []

    def every(self, *_args: object, **_named: object) -> None:
        return None


def running(producer: Any) -> Any:
    producer._instance = Instance()
    return producer


def sent(status: SendStatus = SendStatus.SEND_OK, broker: str = "a") -> SendResult:
    offset_id = encode_offset_id(("10.0.0.1", 10911), 777)
    return SendResult(status, "ID", offset_id, MessageQueue("T", broker, 1), 5)


def received(**properties: str) -> ReceivedMessage:
    data = encode_record("T", b"body", properties=properties)
    return decode_messages(data, MessageQueue("T", "a", 0))[0]


def transaction_producer(check: Any = lambda _message: None) -> TransactionProducer:
    producer = TransactionProducer("127.0.0.1:1", group="g", check=check, namespace="ns")
    return running(producer)  # type: ignore[no-any-return]


def test_a_half_message_has_transaction_properties_and_no_delay() -> None:
    message = Message("T", b"x", tags="t", delay_level=3, properties={"a": "b"})
    half = transaction_producer()._half(message)
    assert half.ext["f"] == "4"
    text = half.ext["i"]
    assert "TRAN_MSG\1true" in text
    assert "PGROUP\1ns%g" in text
    assert "a\1b" in text
    assert "DELAY" not in text
    assert message.system is None


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (TransactionState.COMMIT, "8"),
        (TransactionState.ROLLBACK, "12"),
        (TransactionState.UNKNOWN, "0"),
    ],
)
def test_the_end_of_a_transaction_is_sent_to_the_master(state: TransactionState, code: str) -> None:
    play = Play()
    play.run(transaction_producer()._end_flow(Message("T", b"x"), sent(), state))
    [notice] = play.notices
    assert notice.address == "a0:10911"
    assert notice.code == RequestCode.END_TRANSACTION
    assert notice.ext == {
        "producerGroup": "ns%g",
        "tranStateTableOffset": "5",
        "commitLogOffset": "777",
        "commitOrRollback": code,
        "fromTransactionCheck": "false",
        "msgId": "ID",
        "bname": "a",
    }


def test_the_end_of_a_transaction_carries_the_error() -> None:
    play = Play()
    error = ValueError("no such account")
    producer = transaction_producer()
    play.run(producer._end_flow(Message("T", b"x"), sent(), TransactionState.UNKNOWN, error))
    assert play.notices[0].remark == (
        "executeLocalTransactionBranch exception: ValueError: no such account"
    )


def test_the_answer_to_a_check_carries_the_error() -> None:
    class Asker:
        """The connection of a broker that sends a check."""

        notices: ClassVar[list[dict[str, Any]]] = []
        remote_text = "b:1"

        def notify(self, code: int, **fields: Any) -> None:
            self.notices.append({"code": code, **fields})

    async def check(_message: ReceivedMessage) -> TransactionState:
        raise ValueError("the database is away")

    async def run() -> None:
        settings = ClientSettings.of("127.0.0.1:1")
        producer = AsyncTransactionProducer(settings, group="g", check=check)
        instance = ClientInstance(settings)
        half = encode_record("T", b"x", properties={"UNIQ_KEY": "U"})
        request = Command(RequestCode.CHECK_TRANSACTION_STATE, body=half)
        await producer._answer_check(request, Asker(), instance)  # type: ignore[arg-type]
        await instance.network.close()

    asyncio.run(run())
    [notice] = Asker.notices
    assert notice["code"] == RequestCode.END_TRANSACTION
    assert notice["ext"]["commitOrRollback"] == "0"
    assert notice["remark"] == (
        "checkLocalTransactionState Exception: ValueError: the database is away"
    )


def test_an_end_that_cannot_be_sent_is_left_to_the_check() -> None:
    play = Play()
    flow = transaction_producer()._end_flow(
        Message("T", b"x"), sent(broker="gone"), TransactionState.COMMIT
    )
    play.run(flow)
    assert not play.notices


@pytest.mark.parametrize("status", [s for s in SendStatus if s is not SendStatus.SEND_OK])
def test_the_local_work_is_skipped_when_the_half_message_is_unsafe(
    status: SendStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = transaction_producer()
    ended: list[TransactionState] = []
    results = iter([sent(status), None])

    def perform(_flow: object) -> Any:
        return next(results)

    def end_flow(_message: Message, _sent: SendResult, state: TransactionState, _: Any) -> Any:
        ended.append(state)

    monkeypatch.setattr(producer, "_perform", perform)
    monkeypatch.setattr(producer, "_send_flow", lambda *args: None)
    monkeypatch.setattr(producer, "_end_flow", end_flow)

    def work(_message: Message, _sent: SendResult) -> TransactionState:
        raise AssertionError("must not be called")

    result = producer.send_in_transaction(Message("T", b"x"), work)
    assert result.state is TransactionState.ROLLBACK
    assert ended == [TransactionState.ROLLBACK]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (TransactionState.COMMIT, TransactionState.COMMIT),
        (None, TransactionState.UNKNOWN),
        (ZeroDivisionError(), TransactionState.UNKNOWN),
    ],
)
def test_a_check_result_becomes_a_transaction_state(outcome: Any, state: TransactionState) -> None:
    def check(_message: ReceivedMessage) -> TransactionState | None:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    async def check_later(message: ReceivedMessage) -> TransactionState | None:
        return check(message)

    async def run() -> None:
        for given in (check, check_later):
            producer = AsyncTransactionProducer("127.0.0.1:1", group="g", check=given)
            error = outcome if isinstance(outcome, Exception) else None
            assert await producer._run_check(received()) == (state, error)

    asyncio.run(run())


def test_transaction_producers_have_the_settings_of_producers() -> None:
    given = inspect.signature(Producer).parameters
    assert set(ProducerSettings.__annotations__) == set(given) - {"nameservers", "group"}


# ---- Replies


def test_a_reply_carries_the_reply_fields_of_its_request() -> None:
    request = received(CLUSTER="C", CORRELATION_ID="1", REPLY_TO_CLIENT="asker", TTL="3000")
    reply = reply_to(request, b"yes", tags="t")
    assert reply.topic == "C_REPLY_TOPIC"
    assert reply.system == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "1",
        "REPLY_TO_CLIENT": "asker",
        "TTL": "3000",
    }
    for missing in ({"CLUSTER": "C"}, {"CORRELATION_ID": "1", "REPLY_TO_CLIENT": "x"}):
        with pytest.raises(BadMessage, match="asks for no reply"):
            reply_to(received(**missing), b"no")


def push(correlation_id: str) -> Command:
    ext = {"topic": "C_REPLY_TOPIC", "queueId": "0", "sysFlag": "0"}
    ext["properties"] = f"CORRELATION_ID\1{correlation_id}\2TAGS\1t"
    ext["bornHost"], ext["storeHost"] = "10.0.0.1:5", "/10.0.0.2:10911"
    return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, opaque=3, ext=ext, body=b"reply")


def asking() -> tuple[Any, PendingReply, float]:
    producer = running(Producer("127.0.0.1:1", group="g"))
    producer._asked = {}
    asked, deadline = producer._ask(Message("T", b"?", keys=["k"]), 50)
    return producer, asked, deadline


def test_a_pushed_reply_completes_its_request() -> None:
    producer, asked, deadline = asking()
    assert asked.message.system == {
        "CORRELATION_ID": asked.correlation_id,
        "REPLY_TO_CLIENT": "me",
        "TTL": "50",
    }
    answer = producer._reply_came(push(asked.correlation_id), None)
    assert (answer.code, answer.opaque) == (0, 3)
    reply = producer._await_reply(asked, deadline)
    assert reply.body == b"reply"
    assert reply.tags == "t"
    assert reply.get_property("ARRIVE_TIME")
    assert reply.store_host == ("10.0.0.2", 10911)


def test_late_and_unreadable_replies_are_answered() -> None:
    producer, asked, deadline = asking()
    with pytest.raises(NoReply, match="no reply came within 50 ms"):
        producer._await_reply(asked, deadline)
    producer._forget(asked)
    assert producer._reply_came(push(asked.correlation_id), None).code == 0
    broken = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext={"queueId": "none"})
    assert producer._reply_came(broken, None).code == 1


# ---- Traces


def test_trace_records_equal_javas() -> None:
    message = Message("T", b"abc", keys=["k1", "k2"])
    common: dict[str, Any] = {"timestamp_ms": 1000, "region": "DefaultRegion", "group": "P1"}
    texts = [
        trace_records.produced(
            **common,
            message=message,
            message_id="ID",
            store_host="1.1.1.1:10911",
            body_length=3,
            cost_ms=5,
            offset_id="OFF",
            success=True,
        ),
        trace_records.consuming(
            **common, request_id="REQ", message_id="ID", retry_times=0, keys="k1 k2"
        ),
        trace_records.consumed(
            request_id="REQ",
            message_id="ID",
            cost_ms=5,
            success=True,
            keys="k1 k2",
            context_code=0,
            timestamp_ms=1000,
            group="P1",
        ),
        trace_records.transaction_ended(
            **common,
            message=message,
            message_id="ID",
            store_host="1.1.1.1:10911",
            transaction_id="TX",
            state="COMMIT_MESSAGE",
            from_check=False,
        ),
    ]
    commit = "COMMIT_MESSAGE"
    assert [text.replace("\1", "|").replace("\2", "#") for text in texts] == [
        "Pub|1000|DefaultRegion|P1|T|ID|null|k1 k2|1.1.1.1:10911|3|5|0|OFF|true#",
        "SubBefore|1000|DefaultRegion|P1|REQ|ID|0|k1 k2#",
        "SubAfter|REQ|ID|5|true|k1 k2|0|1000|P1#",
        f"EndTransaction|1000|DefaultRegion|P1|T|ID|null|k1 k2|1.1.1.1:10911|2|TX|{commit}|false#",
    ]


def test_trace_records_have_javas_message_types() -> None:
    half = Message("T", b"x")
    half.system = {"TRAN_MSG": "true"}
    assert trace_records.message_type(Message("T", b"x")) == 0
    assert trace_records.message_type(half) == 1
    assert trace_records.message_type(Message("T", b"x", delay_level=1)) == 3
    timed = Message("T", b"x", properties={"__STARTDELIVERTIME": "1"})
    assert trace_records.message_type(timed) == 3


def test_trace_records_are_sent_together_within_the_message_size() -> None:
    sent: list[tuple[str, tuple[str, ...]]] = []

    class Quiet(Tracer):
        async def _send(self, text: str, keys: tuple[str, ...]) -> None:
            sent.append((text, keys))

    instance: ClientInstance = Instance()  # type: ignore[assignment]
    tracer = Quiet(instance, "g", "PRODUCE")
    assert not tracer.traces("RMQ_SYS_TRACE_TOPIC")
    assert tracer.traces("T")
    for number in range(3):
        tracer.add(f"record{number}\2", (f"id{number}", "shared"))
    asyncio.run(tracer.flush())
    assert sent == [("record0\2record1\2record2\2", ("id0", "shared", "id1", "id2"))]
    sent.clear()
    for number in range(3):
        tracer.add("x" * 60_000, (str(number),))
    asyncio.run(tracer.flush())
    assert [len(text) for text, _ in sent] == [60_000, 60_000, 60_000]
    sent.clear()
    asyncio.run(tracer.flush())
    assert not sent
