"""Requests of consumers: pulls, offsets, heartbeats, locks, look-ups."""

from __future__ import annotations

from typing import Any

from compat.twin.sides import Request
from compat.twin.world import (
    ANCIENTS,
    BROKER,
    CLIENT_IDS,
    GROUPS,
    LANGUAGES,
    OLD_VERSIONS,
    VERSIONS,
    World,
)
from orbitmq._native import dumps_lenient
from orbitmq.protocol.codes import RequestCode

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4
EXPRESSIONS = [
    "*",
    "*",
    "a",
    "a||b",
    "a || b || c",
    " a ",
    "",
    "nothing-has-this",
    "||",
    "tag with blanks",
]


def pull(world: World) -> Request:
    topic = world.topic()
    queue_id = world.queue(topic)
    offset = world.offset(topic, queue_id)
    sys_flag = world.one([SUBSCRIPTION, SUBSCRIPTION, SUBSCRIPTION, 0, 16 | SUBSCRIPTION])
    if world.chance(0.3) and world.keeps_offsets(topic):
        sys_flag |= COMMIT
    expression = world.one(EXPRESSIONS)
    is_there = 0 <= offset < world.ends.get((topic, queue_id), 0)
    if is_there and sys_flag & SUBSCRIPTION and expression == "*" and world.chance(0.5):
        sys_flag |= SUSPEND  # never held: there is a message to read
    ext = {
        "consumerGroup": world.one(GROUPS),
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(world.one([1, 5, 32, 32, 100, 0, -1])),
        "sysFlag": str(sys_flag),
        "commitOffset": str(world.offset(topic, queue_id)),
        "suspendTimeoutMillis": "15000",
        "subVersion": str(world.one([0, 1, 5, 10**13])),
    }
    if world.chance(0.95):
        ext["subscription"] = expression
    if world.chance(0.8):
        ext["expressionType"] = world.one(["TAG", "TAG", "TAG", "SQL92", "tag", "XYZ"])
    return Request(RequestCode.PULL_MESSAGE, ext, connection=world.connection(), writes=False)


def offset_request(world: World) -> Request:
    topic = world.topic()
    queue_id = world.queue(topic)
    ext = {"consumerGroup": world.one(GROUPS), "topic": topic, "queueId": str(queue_id)}
    if world.chance(0.5) or not world.keeps_offsets(topic):
        return Request(RequestCode.QUERY_CONSUMER_OFFSET, ext)
    ext["commitOffset"] = str(world.offset(topic, queue_id))
    flag = 2 if world.chance(0.05) else 0
    return Request(RequestCode.UPDATE_CONSUMER_OFFSET, ext, flag=flag)


def queue_ends(world: World) -> Request:
    topic = world.topic()
    ext = {"topic": topic, "queueId": str(world.queue(topic))}
    code = world.one(
        [
            RequestCode.GET_MAX_OFFSET,
            RequestCode.GET_MIN_OFFSET,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        ]
    )
    if code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
        ext["timestamp"] = str(world.moment())
    return Request(code, ext)


def query(world: World) -> Request:
    if world.chance(0.5):
        return Request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(world.physical_offset())})
    begin, end = world.quiet_moment(), world.quiet_moment()
    ext = {
        "topic": world.topic(),
        "key": world.one([world.key(), world.key(), f"u{world.number(0, 500)}", "", "never"]),
        "maxNum": str(world.one([0, 1, 5, 64, 1000, -1])),
        "beginTimestamp": str(begin if world.chance(0.5) else 0),
        "endTimestamp": str(end if world.chance(0.5) else 2**63 - 1),
    }
    if world.chance(0.3):
        ext["_UNIQUE_KEY_QUERY"] = world.one(["true", "false"])
    return Request(RequestCode.QUERY_MESSAGE, ext)


def heartbeat(world: World) -> Request:
    number = world.connection()
    body: dict[str, Any]
    if world.chance(0.1):
        body = {"clientID": CLIENT_IDS[2], "consumerDataSet": [consumer(world, ANCIENTS)]}
        version = world.one(OLD_VERSIONS)
        content = dumps_lenient(body)
        return Request(RequestCode.HEART_BEAT, None, content, connection=2, version=version)
    consumers = [consumer(world, name) for name in world.rng.sample(GROUPS, world.number(0, 2))]
    body = {
        "clientID": CLIENT_IDS[number] if world.chance(0.95) else "changed-id",
        "consumerDataSet": consumers,
        "producerDataSet": [{"groupName": world.one(GROUPS)} for _ in range(world.number(0, 2))],
    }
    return Request(
        RequestCode.HEART_BEAT,
        None,
        dumps_lenient(body),
        connection=number,
        version=world.one(VERSIONS) if world.chance(0.4) else 407,
        language=world.one(LANGUAGES),
    )


def consumer(world: World, group: str) -> dict[str, Any]:
    subscriptions = []
    for topic in world.rng.sample(["Orders", "Single", "Auto1", "NoSuchTopic"], world.number(0, 3)):
        tags = world.one([[], ["a"], ["a", "b"]])
        subscriptions.append(
            {
                "topic": topic,
                "subString": "||".join(tags) or "*",
                "tagsSet": tags,
                "codeSet": [{"a": 97, "b": 98}[tag] for tag in tags],
                "subVersion": world.number(0, 6),
                "expressionType": "TAG",
                "classFilterMode": False,
            }
        )
    return {
        "groupName": group,
        "consumeType": world.one(["CONSUME_PASSIVELY", "CONSUME_ACTIVELY"]),
        "messageModel": world.one(["CLUSTERING", "CLUSTERING", "BROADCASTING"]),
        "consumeFromWhere": world.one(
            ["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]
        ),
        "subscriptionDataSet": subscriptions,
        "unitMode": world.chance(0.1),
    }


def client_request(world: World) -> Request:
    number = world.connection()
    group = world.one([*GROUPS, ANCIENTS])
    kind = world.number(0, 3)
    if kind == 0:
        ext = {"clientID": CLIENT_IDS[number]}
        ext |= world.one([{"consumerGroup": group}, {"producerGroup": group}, {}])
        return Request(RequestCode.UNREGISTER_CLIENT, ext, connection=number)
    if kind == 1:
        return Request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    if kind == 2:
        subscription = {
            "topic": "Orders",
            "subString": "a",
            "expressionType": world.one(["TAG", "SQL92", "XYZ", None]),
        }
        body: dict[str, Any] = {
            "clientId": "c",
            "group": group,
            "subscriptionData": subscription,
        }
        if world.chance(0.1):
            body.pop("subscriptionData")
        return Request(RequestCode.CHECK_CLIENT_CONFIG, None, dumps_lenient(body))
    queues = [
        {"brokerName": world.one([BROKER, "b"]), "queueId": world.number(0, 3), "topic": "Orders"}
        for _ in range(world.number(0, 4))
    ]
    body = {"clientId": world.one(CLIENT_IDS), "consumerGroup": group, "mqSet": queues}
    code = world.one(
        [RequestCode.LOCK_BATCH_MQ, RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ]
    )
    return Request(code, None, dumps_lenient(body))
