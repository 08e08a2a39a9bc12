"""A seeded session: its requests, their order, and their mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from compat.twin import administering, consuming, sending
from compat.twin.sides import Request
from compat.twin.world import CREATED, World
from orbitmq._native import dumps_lenient
from orbitmq.protocol.codes import RequestCode

Kind = Callable[[World], Request]

KINDS: list[tuple[int, Kind]] = [
    (300, sending.send),
    (60, sending.batch),
    (50, sending.send_back),
    (10, sending.forbidden_send),
    (180, consuming.pull),
    (60, consuming.offset_request),
    (60, consuming.queue_ends),
    (60, consuming.query),
    (40, consuming.heartbeat),
    (60, consuming.client_request),
    (10, administering.change_topic),
    (5, administering.delete_topic),
    (10, administering.change_group),
    (4, administering.change_settings),
    (20, administering.whole_table),
    (3, administering.clean),
    (50, administering.look_at_progress),
    (20, administering.look_at_stats),
    (30, administering.look_at_clients),
    (30, administering.move_groups),
    (10, administering.not_served),
]

TOOLS = "TOOLS_CONSUMER"

NEEDED_BY_US_ALONE = {
    # Java's broker goes on with a text of "null", or with 0, in the place of these fields. An empty
    # text is none in the binary encoding.
    RequestCode.QUERY_CONSUMER_OFFSET: {"consumerGroup", "topic"},
    RequestCode.UPDATE_CONSUMER_OFFSET: {"consumerGroup", "topic"},
    RequestCode.QUERY_MESSAGE: {"topic", "key"},
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: {"group", "timestamp"},
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: {"topic"},
    RequestCode.GET_CONSUME_STATS: {"consumerGroup"},
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"topic"},
    RequestCode.QUERY_CONSUME_TIME_SPAN: {"group"},
    RequestCode.QUERY_CORRECTION_OFFSET: {"topic"},
    RequestCode.CLONE_GROUP_OFFSET: {"srcGroup", "destGroup", "topic"},
    RequestCode.VIEW_BROKER_STATS_DATA: {"statsName", "statsKey"},
    RequestCode.GET_CONSUMER_RUNNING_INFO: {"clientId"},
    # This one it needs to forget a producer, and we do not.
    RequestCode.UNREGISTER_CLIENT: {"clientID"},
    # These it misses when it has made a group or put an event; an empty type means TAG to us.
    RequestCode.PULL_MESSAGE: {"consumerGroup", "topic", "commitOffset", "expressionType"},
    RequestCode.CONSUME_MESSAGE_DIRECTLY: {"clientId"},
}

NOT_SPOILED = {
    # A request that Java's broker refuses half-way: it has made the topic, then misses a field.
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
}


def opening(world: World) -> Iterator[Request]:
    """Requests that make the common topics, and a group that always exists."""
    body = {
        "clientID": "tools",
        "consumerDataSet": [{"groupName": TOOLS, "subscriptionDataSet": []}],
    }
    yield Request(RequestCode.HEART_BEAT, None, dumps_lenient(body))
    for name in CREATED:
        request = administering.create_topic(world, name)
        yield replace(request, ext={**(request.ext or {}), "topicFilterType": CREATED[name][3]})


def next_request(world: World) -> Request:
    weights, kinds = zip(*KINDS, strict=True)
    (kind,) = world.rng.choices(kinds, weights)
    request: Request = kind(world)
    kept = NEEDED_BY_US_ALONE.get(request.code, set())  # type: ignore[call-overload]
    ext = request.ext or {}
    if empty := {name: " " for name in sorted(kept) if ext.get(name) == ""}:
        request = replace(request, ext=ext | empty)
    if world.chance(0.04):
        request = spoiled(world, request)
    if world.chance(0.01):
        request = replace(request, flag=request.flag | world.one([4, 8, 1 << 20]))
    return request


def spoiled(world: World, request: Request) -> Request:
    """Leave a field out, replace a number by letters, or add an unknown field."""
    ext = dict(request.ext or {})
    topic = ext.get("topic") or ext.get("b") or ""
    if not ext or (request.code in NOT_SPOILED and topic not in CREATED):
        return replace(request, ext=ext | {"nobodyKnows": "this"})
    kept = NEEDED_BY_US_ALONE.get(request.code, set())  # type: ignore[call-overload]
    # Java's broker makes groups and retry topics before it misses a field.
    ext |= {name: TOOLS for name in ("group", "consumerGroup") if name in ext and request.writes}
    if request.code == RequestCode.PULL_MESSAGE:
        ext["consumerGroup"] = TOOLS
    name = world.one([name for name in sorted(ext) if name not in kept] or ["nobodyKnows"])
    kind = world.number(0, 2)
    if kind == 0:
        ext.pop(name, None)
    elif kind == 1:
        ext[name] = world.one(["x", "12x", "", "1.5"])
    else:
        ext |= {"nobodyKnows": "this", "ReqT": "0"}
    return replace(request, ext=ext)
