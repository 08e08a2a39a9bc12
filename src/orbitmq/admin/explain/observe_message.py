"""Observation of a message in a cluster: every place where a copy of it may be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from orbitmq._native import Record, decode_offset_id, decode_records
from orbitmq.admin.explain.observations import Copy, GroupView, MessageSeen
from orbitmq.admin.explain.observe_group import (
    copy_of,
    observe_group,
    queue_ends,
    reachable_brokers,
    read_records,
)
from orbitmq.admin.messages import END_OF_TIME_MS
from orbitmq.admin.queues import queue_entries
from orbitmq.admin.requests import QUERY_TIMEOUT_MS, ask, read
from orbitmq.config import decode, parse_properties
from orbitmq.errors import BrokerRefused, ConfigError, MalformedId
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    Property,
    dlq_topic,
    retry_topic,
)
from orbitmq.rpc.flow import Flow

__all__ = ["look_at_message"]

WHEEL_TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Topic in which brokers of 5.x hold messages with a delivery time."""
MAX_PORT = 65_535
OPS_LOOKED_AT = 500
"""Number of the last op messages, the ends of transactions, to search."""
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def look_at_message(
    nameservers: Sequence[str],
    message_id: str,
    topic: str | None,
    group: str | None,
    *,
    watch_ms: float,
) -> Flow[MessageSeen]:
    """Return all observations of a message, for one group or for all that consume it."""
    place, offset = _place_in(message_id)
    if place is None and topic is None:
        raise ConfigError(
            f"{message_id} is no id that a broker gives: with the id of a producer, name the "
            "message's topic, too (--topic)"
        )
    brokers = yield from reachable_brokers(nameservers)
    up = {one.name: one.address for one in brokers if one.error is None}
    found: Copy | None = None
    begins: int | None = None
    if place in up.values():
        name = next(name for name, address in up.items() if address == place)
        found = yield from _at(str(place), name, offset or 0)
        begins = yield from _log_begin(str(place))
    if topic is None and found is not None:
        topic = found.topic
    unique = found.message_id if found is not None else message_id
    if found is None and topic is not None:
        copies = yield from _copies(up, topic, unique)
        found = min(copies, key=lambda copy: copy.stored_ms, default=None)
    settings = yield from _settings(up)
    halves = yield from _copies(up, TRANS_HALF_TOPIC, unique)
    scheduled = yield from _copies(up, SCHEDULE_TOPIC, unique)
    timers = (yield from _copies(up, TIMER_TOPIC, unique)) or (
        yield from _copies(up, WHEEL_TIMER_TOPIC, unique)
    )
    discarded = yield from _copies(up, TRANS_CHECK_MAX_TIME_TOPIC, unique)
    groups = {}
    if found is not None:
        names = [group] if group is not None else (yield from _groups(up, found))
        for one in names:
            groups[one] = yield from _view(nameservers, up, found, one, scheduled, watch_ms)
    return MessageSeen(
        message_id=message_id,
        now_ms=time.time_ns() // 1_000_000,
        topic=topic,
        found=found,
        scheduled=scheduled,
        timers=timers,
        halves=halves if found is None else (),
        discarded=discarded if found is None else (),
        ended_halves=(yield from _ended(up, halves)) if found is None else frozenset(),
        broker_of_id=place,
        brokers=brokers,
        log_begins_at=begins,
        offset_of_id=offset,
        delay_levels_ms=_levels(settings.get("messageDelayLevel", "")),
        check_max=int(settings.get("transactionCheckMax") or 15),
        check_interval_ms=int(settings.get("transactionCheckInterval") or 60_000),
        groups=groups,
        group_asked=group,
    )


def _place_in(message_id: str) -> tuple[str | None, int | None]:
    try:
        (host, port), offset = decode_offset_id(message_id)
    except MalformedId:
        return None, None
    if not 0 < port <= MAX_PORT:
        return None, None  # a producer's id has its process number where a port would be
    return f"{host}:{port}", offset


def _at(address: str, broker: str, offset: int) -> Flow[Copy | None]:
    try:
        response = yield from ask(address, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
    except BrokerRefused:
        return None
    records = decode_records(response.body)
    return copy_of(records[0], broker) if records else None


def _log_begin(address: str) -> Flow[int]:
    response = yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    table = read(response).get("table") or {}
    return int(table.get("commitLogMinOffset") or 0)


def _copies(up: Mapping[str, str], topic: str, unique_id: str) -> Flow[tuple[Copy, ...]]:
    """Return the copies that brokers have under an id in a topic, oldest first."""
    ext = {
        "topic": topic,
        "key": unique_id,
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(END_OF_TIME_MS),
        "_UNIQUE_KEY_QUERY": "true",
    }
    copies = []
    for broker, address in up.items():
        response = yield from ask(
            address,
            RequestCode.QUERY_MESSAGE,
            ext,
            also=(ResponseCode.QUERY_NOT_FOUND,),
            timeout_ms=QUERY_TIMEOUT_MS,
        )
        if response.code == ResponseCode.SUCCESS:
            copies += [
                copy_of(record, broker)
                for record in decode_records(response.body)
                if record.topic == topic and record.get_property(Property.UNIQUE_KEY) == unique_id
            ]
    return tuple(sorted(copies, key=lambda copy: (copy.stored_ms, copy.offset)))


def _settings(up: Mapping[str, str]) -> Flow[dict[str, str]]:
    for address in up.values():
        response = yield from ask(address, RequestCode.GET_BROKER_CONFIG)
        return parse_properties(decode(response.body))
    return {}


def _levels(text: str) -> tuple[int, ...]:
    """Return the delays of a broker's levels: ``1s 5s 10s 30s 1m``."""
    levels = text or "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    return tuple(int(one[:-1]) * _UNIT_MS.get(one[-1], 1000) for one in levels.split())


def _groups(up: Mapping[str, str], found: Copy) -> Flow[list[str]]:
    response = yield from ask(
        up[found.queue.broker_name], RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": found.topic}
    )
    return sorted(str(name) for name in read(response).get("groupList") or ())


def _view(
    nameservers: Sequence[str],
    up: Mapping[str, str],
    found: Copy,
    group: str,
    scheduled: Sequence[Copy],
    watch_ms: float,
) -> Flow[GroupView]:
    seen = yield from observe_group(nameservers, group, watch_ms=watch_ms)
    own = retry_topic(group)
    retried = yield from _copies(up, own, found.message_id)
    waiting = [copy for copy in scheduled if copy.properties.get(Property.REAL_TOPIC) == own]
    state = seen.queues.get(found.queue)
    committed = state.consumer_offset if state is not None else None
    if committed is None:
        committed = yield from _committed(up, group, found.queue)
    return GroupView(
        seen=seen,
        committed=committed,
        retries=(*retried, *waiting),
        retry_offsets={
            queue: one.consumer_offset for queue, one in seen.queues.items() if queue.topic == own
        },
        dead_letters=(yield from _copies(up, dlq_topic(group), found.message_id)),
    )


def _committed(up: Mapping[str, str], group: str, queue: MessageQueue) -> Flow[int | None]:
    response = yield from ask(
        up[queue.broker_name],
        RequestCode.QUERY_CONSUMER_OFFSET,
        {"consumerGroup": group, "topic": queue.topic, "queueId": str(queue.queue_id)},
        also=(ResponseCode.QUERY_NOT_FOUND,),
    )
    if response.code != ResponseCode.SUCCESS:
        return None
    return int(response.get_ext("offset") or 0)


def _ended(up: Mapping[str, str], halves: Sequence[Copy]) -> Flow[frozenset[int]]:
    """Return offsets of half messages in op messages: these are committed or rolled back."""
    ended: set[int] = set()
    for broker in {copy.queue.broker_name for copy in halves}:
        queue = MessageQueue(TRANS_OP_HALF_TOPIC, broker, 0)
        low = yield from queue_ends(up[broker], queue)
        response = yield from ask(
            up[broker], RequestCode.GET_MAX_OFFSET, {"topic": queue.topic, "queueId": "0"}
        )
        high = int(response.get_ext("offset") or 0)
        offset = max(low, high - OPS_LOOKED_AT)
        while offset < high:
            ops = yield from read_records(up[broker], queue, offset, 32)
            if not ops:
                ops = yield from _by_entries(up[broker], queue, offset, 32)
            if not ops:
                break
            offset += len(ops)
            for op in ops:
                # The body is one number in 4.x, a list of numbers in 5.x.
                parts = op.body.decode("ascii", "replace").split(",")
                ended.update(int(part) for part in parts if part.isdigit())
    return frozenset(ended)


def _by_entries(address: str, queue: MessageQueue, offset: int, count: int) -> Flow[list[Record]]:
    """Return messages of a queue by its entries, because its topic cannot be pulled yet.

    Brokers list the topic of op messages only when they send their first transaction check.
    """
    try:
        found = yield from queue_entries((), queue, offset, count, address=address)
    except BrokerRefused:
        return []
    records: list[Record] = []
    for entry in found.entries:
        ext = {"offset": str(entry.physical_offset)}
        response = yield from ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ext)
        records += decode_records(response.body)
    return records
