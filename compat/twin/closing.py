"""The end of a session: dependent requests, each made from the answers before it.

Transactions and replies. They come last, in a fixed order: what they leave in the store is not
looked at by anything random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compat.twin.sending import SHORT
from compat.twin.sides import ONEWAY, Request
from compat.twin.world import CLUSTER, World
from orbitmq._native import dumps_lenient
from orbitmq.protocol.codes import RequestCode

Ask = Callable[[Request], str | None]
"""Sends a request to both; returns the differences."""

COMMIT, ROLLBACK, UNKNOWN = "8", "12", "0"
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
REPLY_TO = "the-asker"


def closing(world: World, ask: Ask) -> Iterator[str | None]:
    """Play all of it; yield the differences of each answer."""
    yield from _transactions(world, ask)
    yield from _replies(ask)


def _send(code: int, topic: str, body: bytes, properties: str, sys_flag: str = "0") -> Request:
    ext = {
        "producerGroup": "deciders",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": sys_flag,
        "bornTimestamp": "1700000000000",
        "flag": "3",
        "properties": properties,
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    if code not in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE):
        ext = {SHORT[name]: value for name, value in ext.items()}
    return Request(code, ext, body, writes=True)


def _transactions(world: World, ask: Ask) -> Iterator[str | None]:
    for number, decision in enumerate((COMMIT, ROLLBACK, COMMIT)):
        properties = (
            f"TRAN_MSG\x01true\x02PGROUP\x01deciders\x02UNIQ_KEY\x01tx{number}\x02KEYS\x01tx"
        )
        half = _send(RequestCode.SEND_MESSAGE_V2, "Orders", b"half", properties, sys_flag="4")
        yield ask(half)
        place = world.sent[-1]
        right = {
            "producerGroup": "deciders",
            "tranStateTableOffset": str(place.queue_offset),
            "commitLogOffset": str(place.physical_offset),
            "commitOrRollback": decision,
            "fromTransactionCheck": "false",
            "msgId": f"tx{number}",
            "transactionId": f"tx{number}",
        }
        for wrong in (
            {"producerGroup": "strangers"},
            {"tranStateTableOffset": str(place.queue_offset + 1)},
            {"commitLogOffset": str(2**40)},
        ):
            yield ask(Request(RequestCode.END_TRANSACTION, right | wrong))
        undecided = right | {"commitOrRollback": UNKNOWN}
        yield ask(Request(RequestCode.END_TRANSACTION, undecided, flag=ONEWAY))
        yield ask(Request(RequestCode.END_TRANSACTION, right, writes=True))
        for topic in ("Orders", HALF_TOPIC, OP_TOPIC):
            yield ask(Request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0"}))
    half_id = f"7F00000100002A9F{world.sent[-1].physical_offset:016X}"
    yield ask(Request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": half_id}, writes=True))
    yield ask(Request(RequestCode.GET_MAX_OFFSET, {"topic": HALF_TOPIC, "queueId": "0"}))
    yield ask(Request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": f"{0:016X}{2**40:016X}"}))


def _replies(ask: Ask) -> Iterator[str | None]:
    producers = [{"groupName": "askers"}]
    online = {"clientID": REPLY_TO, "consumerDataSet": [], "producerDataSet": producers}
    yield ask(Request(RequestCode.HEART_BEAT, None, dumps_lenient(online), connection=1))
    topic = f"{CLUSTER}_REPLY_TOPIC"
    for code in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
        for asker in (f"REPLY_TO_CLIENT\x01{REPLY_TO}", "REPLY_TO_CLIENT\x01nobody", "A\x01b"):
            properties = f"MSG_TYPE\x01reply\x02CORRELATION_ID\x01c\x02{asker}"
            yield ask(_send(code, topic, b"reply", properties))
        yield ask(_send(code, "SCHEDULE_TOPIC_XXXX", b"reply", "A\x01b"))
