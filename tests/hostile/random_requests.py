"""Random requests from a seed: JSON bodies with mistakes, any code with any fields."""

from __future__ import annotations

import random
import struct
from typing import Any

from orbitmq._native import compress, dumps_lenient
from orbitmq.protocol.codes import RequestCode

QUEUE = {"brokerName": "broker-a", "queueId": 0, "topic": "t"}
SUBSCRIPTION = {
    "topic": "t",
    "subString": "a||b",
    "tagsSet": ["a", "b"],
    "codeSet": [97, 98],
    "subVersion": 5,
    "expressionType": "TAG",
    "classFilterMode": False,
}
TOPIC = {
    "topicName": "t",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": False,
}
VERSION = {"counter": 3, "timestamp": 1_700_000_000_000}
BODIES: dict[int, Any] = {
    RequestCode.HEART_BEAT: {
        "clientID": "c",
        "consumerDataSet": [
            {
                "groupName": "fuzzed",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [SUBSCRIPTION],
                "unitMode": False,
            }
        ],
        "producerDataSet": [{"groupName": "fuzzed"}],
    },
    RequestCode.CHECK_CLIENT_CONFIG: {
        "clientId": "c",
        "group": "fuzzed",
        "subscriptionData": SUBSCRIPTION,
    },
    RequestCode.LOCK_BATCH_MQ: {"clientId": "c", "consumerGroup": "fuzzed", "mqSet": [QUEUE]},
    RequestCode.UNLOCK_BATCH_MQ: {"clientId": "c", "consumerGroup": "fuzzed", "mqSet": [QUEUE]},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {
        "groupName": "fuzzed",
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "retryQueueNums": 1,
        "retryMaxTimes": 16,
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": True,
    },
    RequestCode.REGISTER_BROKER: {
        "filterServerList": ["f"],
        "topicConfigSerializeWrapper": {"dataVersion": VERSION, "topicConfigTable": {"t": TOPIC}},
    },
    RequestCode.QUERY_DATA_VERSION: VERSION,
}
"""A valid body for each request that has a JSON body."""

ROUTE = {
    "brokerDatas": [{"brokerAddrs": {"0": "a:1"}, "brokerName": "a", "cluster": "c"}],
    "queueDatas": [{"brokerName": "a", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}],
    "orderTopicConf": "a:4",
}
"""A valid route, as nameservers return it."""

REGISTER = {
    "brokerName": "fuzzed",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "fuzzed",
    "brokerId": "0",
    "compressed": "false",
    "bodyCrc32": "0",
}
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 2**31 - 1, 2**31, -(2**63), 2**63, 2**200, 1.5, 1e300),
    *("", "7", "t", "x" * 300, "true", "é\u2028", "%RETRY%", "a@b", "9" * 400),
    *([], {}, [[]], [None], {"": None}, {"t": 7}, [7], ["x"], {"groupName": 7}, [{}], {7: 7}),
]
"""Values of every type, to replace any other."""

_WORDS = """
    topic=t consumerGroup=fuzzed producerGroup=p group=fuzzed groupName=fuzzed queueId=0 offset=0
    commitOffset=1 queueOffset=0 maxMsgNums=32 sysFlag=0 subscription=* subVersion=1
    expressionType=TAG suspendTimeoutMillis=100 defaultTopic=TBW102 defaultTopicQueueNums=4
    readQueueNums=4 writeQueueNums=4 perm=6 topicFilterType=SINGLE_TAG topicSysFlag=0 order=false
    flag=0 batch=false bornTimestamp=1700000000000 reconsumeTimes=0 unitMode=false delayLevel=0
    originTopic=t maxReconsumeTimes=16 clientId=c originMsgId=7F00000100002A9F0000000000000000
    clientID=c timestamp=-1 msgId=7F00000100002A9F0000000000000000 isForce=true clientAddr=c
    srcGroup=fuzzed destGroup=other offline=true filterGroups=g statsName=TOPIC_PUT_NUMS
    statsKey=t key=k maxNum=32 index=0 beginTimestamp=0 endTimestamp=9999999999999 count=5
    isOrder=false removeOffset=true tranStateTableOffset=0 commitLogOffset=0 commitOrRollback=8
    transactionId=x fromTransactionCheck=false scope=s/1 namespace=n value=v brokerName=fuzzed
    brokerId=0 brokerAddr=127.0.0.1:1 clusterName=fuzzed cluster=fuzzed orbitMaxBytes=0
    maxBytes=1000 a=p b=t c=TBW102 d=4 e=0 f=0 g=1700000000000 h=0 j=0 k=false l=16 m=false
    bname=broker-a
"""
PLAUSIBLE = dict(word.split("=") for word in _WORDS.split()) | {
    "properties": "KEYS\x01k\x02TAGS\x01a\x02",
    "i": "",
}
"""A valid value for every field of any request."""
TEXTS = [
    *("", " ", "0", "1", "-1", "3", "7", "16", "2147483647", "-2147483648", "9223372036854775807"),
    *(
        "99999999999999999999",
        "x",
        "1.5",
        "true",
        "false",
        "TBW102",
        "t",
        "fuzzed",
        "%RETRY%fuzzed",
    ),
    *("SCHEDULE_TOPIC_XXXX", "a/b", "..", "SINGLE_TAG", "TAG", "SQL92", "a > 1", "broker-a", "*"),
    *("KEYS\x01k\x02TAGS\x01a\x02", "DELAY\x012\x02", "TRAN_MSG\x01true\x02PGROUP\x01p\x02"),
    *("7F00000100002A9F0000000000000000", "x" * 300, "é", "s/1", "TOPIC_PUT_NUMS"),
]
CHANGES_SETTINGS = {RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG}
"""Requests that could disable what the well-behaved client needs: they carry no settings here."""


class Chance:
    """All random choices of a run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def spoiled(self, value: Any) -> Any:
        """Return a copy with one value replaced, removed or repeated, at any depth."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.9:
            name = rng.choice(sorted(value))
            if rng.random() < 0.1:
                return {key: member for key, member in value.items() if key != name}
            return {**value, name: self.spoiled(value[name])}
        if isinstance(value, list) and value and rng.random() < 0.7:
            place = rng.randrange(len(value))
            return [*value[:place], self.spoiled(value[place]), *value[place:]]
        return rng.choice(VALUES)

    def json_body(self, code: int) -> bytes:
        """Return the body of a request with up to three mistakes."""
        value = BODIES.get(code, {"topic": "t", "groupName": "fuzzed"})
        for _ in range(self.rng.randint(1, 3)):
            value = self.spoiled(value)
        body = dumps_lenient(value)
        if self.rng.random() < 0.05:
            body = body[: self.rng.randrange(len(body) + 1)]
        return body

    def compressed_registration(self) -> bytes:
        """Return the compressed form of a registration, with mistakes in its parts."""
        rng = self.rng
        wrong = rng.randrange(10)
        words = ["t", "4", "4", "6", "SINGLE_TAG"]
        if wrong == 0:
            words[rng.randrange(len(words))] = rng.choice(TEXTS)
        if wrong == 1:
            del words[rng.randrange(len(words))]
        line = b"t \xff 4 6 x" if wrong == 2 else " ".join(words).encode()
        parts = [
            dumps_lenient(self.spoiled(VERSION) if rng.random() < 0.5 else VERSION),
            *[line] * rng.randrange(4),
            dumps_lenient(self.spoiled(["f"]) if rng.random() < 0.5 else []),
        ]
        numbers = [len(part) for part in parts]
        numbers.insert(1, len(parts) - 2)
        if wrong == 3:
            numbers[rng.randrange(len(numbers))] = rng.choice([-1, 0, 5, 300, 2**31 - 1, -(2**31)])
        stream = [struct.pack(">i", number) for number in numbers]
        places = [0, *range(2, len(stream))]
        for place, part in zip(places, parts, strict=True):
            stream[place] += part
        body = compress(b"".join(stream), "zlib", level=rng.choice([0, 1, 9]))
        if wrong == 4:
            body = body[: rng.randrange(len(body) + 1)]
        elif wrong == 5:
            place = rng.randrange(len(body))
            body = body[:place] + rng.randbytes(1) + body[place + 1 :]
        return body

    def ext(self) -> dict[str, str]:
        """Return all known fields, some with other values, sometimes some left out."""
        rng = self.rng
        ext = dict(PLAUSIBLE)
        for name in rng.sample(sorted(ext), rng.choice([0, 1, 2, 3, 20])):
            if rng.random() < 0.3:
                del ext[name]
            else:
                ext[name] = rng.choice(TEXTS)
        return ext

    def body(self, code: int) -> bytes:
        """Return a body of a random kind."""
        kind = self.rng.randrange(4)
        if code in CHANGES_SETTINGS or kind == 0:
            return b""
        if kind == 1:
            return self.rng.randbytes(self.rng.randrange(1, 300))
        return self.json_body(code)
