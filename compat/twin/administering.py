"""Requests of operators, reading and writing, and requests with unknown codes."""

from __future__ import annotations

from compat.twin.sides import Request
from compat.twin.world import (
    ANCIENTS,
    BROKER,
    CLIENT_IDS,
    CLUSTER,
    CREATED,
    GROUPS,
    LANGUAGES,
    PASSING,
    World,
)
from orbitmq._native import dumps_lenient
from orbitmq.protocol.codes import RequestCode

NOT_SERVED = [13, 22, 23, 27, 99, 209, 213, 301, 302, 1234, 32_000]
STATS = [
    *("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS"),
    *("BROKER_PUT_NUMS", "BROKER_GET_NUMS", "QUEUE_PUT_NUMS", "NO_SUCH_NUMS"),
    *("QUEUE_GET_NUMS", "GROUP_GET_FROM_DISK_NUMS", "COMMERCIAL_SEND_TIMES"),
]


def create_topic(world: World, name: str) -> Request:
    read, write, perm, filter_type = CREATED.get(name, (4, 4, 6, "SINGLE_TAG"))
    ext = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(read),
        "writeQueueNums": str(write),
        "perm": str(perm),
        "topicFilterType": filter_type if world.chance(0.95) else "NO_TAG",
        "topicSysFlag": "0",
        "order": world.one(["false", "true"]),
    }
    return Request(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def change_topic(world: World) -> Request:
    name = world.topic(mostly_known=False) if world.chance(0.5) else world.one([*CREATED, *PASSING])
    return create_topic(world, name)


def delete_topic(world: World) -> Request:
    name = world.one(PASSING) if world.chance(0.7) else world.topic(mostly_known=False)
    return Request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})


def change_group(world: World) -> Request:
    if world.chance(0.4):
        ext = {"groupName": world.one([*GROUPS, "nobody"])}
        if world.chance(0.5):
            ext["removeOffset"] = world.one(["true", "false"])
        return Request(RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
    body = {
        "groupName": world.one(GROUPS),
        "consumeEnable": world.chance(0.9),
        "consumeBroadcastEnable": world.chance(0.7),
        "retryMaxTimes": world.one([0, 3, 16]),
        "retryQueueNums": world.one([1, 1, 1, 0]),
        "notifyConsumerIdsChangedEnable": world.chance(0.8),
        "whichBrokerWhenConsumeSlowly": world.number(0, 2),
    }
    content = dumps_lenient(body)
    if world.chance(0.1):
        content = world.one([b"", b"{}", b"null", b"{"])
    return Request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, content)


def change_settings(world: World) -> Request:
    text = world.one(
        [
            *("defaultQueryMaxNum=32\n", "noSuchSetting=1\n", "maxMsgsNumBatch=notANumber\n", ""),
            *("# comment\nflushDelayOffsetInterval : 10000\n", "traceOn=true\ntraceOn=TRUE\n"),
        ]
    )
    return Request(RequestCode.UPDATE_BROKER_CONFIG, None, text.encode())


def whole_table(world: World) -> Request:
    return Request(
        world.one(
            [
                *(RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET),
                *(RequestCode.GET_ALL_DELAY_OFFSET, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
                *(RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO),
                *(RequestCode.GET_ALL_PRODUCER_INFO,),
                RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            ]
        )
    )


def clean(world: World) -> Request:
    return Request(
        world.one(
            [
                RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
                RequestCode.CLEAN_UNUSED_TOPIC,
                RequestCode.DELETE_EXPIRED_COMMITLOG,
            ]
        )
    )


def look_at_progress(world: World) -> Request:
    topic, group = world.topic(), world.one([*GROUPS, "nobody"])
    kind = world.number(0, 5)
    if kind == 0:
        return Request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
    if kind == 1:
        ext = {"consumerGroup": group}
        if world.chance(0.6):
            ext["topic"] = topic
        return Request(RequestCode.GET_CONSUME_STATS, ext)
    if kind == 2:
        return Request(
            RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": world.one(["true", "false"])}
        )
    if kind == 3:
        return Request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    if kind == 4:
        return Request(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group})
    queue_id = world.queue(topic)
    ext = {
        "topic": topic,
        "queueId": str(queue_id),
        "index": str(world.offset(topic, queue_id)),
        "count": str(world.one([0, 1, 10, 100])),
    }
    if world.chance(0.5):
        ext["consumerGroup"] = group
    return Request(RequestCode.QUERY_CONSUME_QUEUE, ext)


def look_at_stats(world: World) -> Request:
    topic, group = world.topic(), world.one(GROUPS)
    key = world.one([topic, f"{topic}@{group}", CLUSTER, f"{topic}@0", "SCHEDULE_TOPIC_XXXX@2"])
    return Request(
        RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": world.one(STATS), "statsKey": key}
    )


def look_at_clients(world: World) -> Request:
    group = world.one([*GROUPS, ANCIENTS, "nobody"])
    kind = world.number(0, 3)
    if kind == 0:
        return Request(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    if kind == 1:
        return Request(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
    ext = {"consumerGroup": group, "clientId": world.one(CLIENT_IDS)}
    if kind == 2:
        ext["jstackEnable"] = world.one(["true", "false"])
        return Request(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
    ext["msgId"] = world.one(["", "zz", f"7F00000100002A9F{world.physical_offset() % 2**63:016X}"])
    return Request(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext)


def move_groups(world: World) -> Request:
    topic, group = (
        world.one(["Orders", "Single", "Auto1", "NoSuchTopic"]),
        world.one([*GROUPS, ANCIENTS]),
    )
    kind = world.number(0, 3)
    if kind == 0:
        # To the ends only: which message is nearest to a time can be a matter of a millisecond.
        ext = {"topic": topic, "group": group, "timestamp": str(world.one([-1, 0, 1, 10**13]))}
        ext["isForce"] = world.one(["true", "false"])
        return Request(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext, language=world.one(LANGUAGES)
        )
    if kind == 1:
        ext = {"topic": topic, "group": group}
        if world.chance(0.5):
            ext["clientAddr"] = world.one([*CLIENT_IDS, " "])
        return Request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ext)
    if kind == 2:
        return Request(RequestCode.QUERY_CORRECTION_OFFSET, {"topic": topic, "compareGroup": group})
    ext = {"srcGroup": group, "destGroup": world.one(GROUPS), "topic": topic}
    if world.chance(0.5):
        ext["offline"] = world.one(["true", "false"])
    return Request(RequestCode.CLONE_GROUP_OFFSET, ext)


def not_served(world: World) -> Request:
    return Request(world.one(NOT_SERVED), {"topic": BROKER}, b"whatever")
