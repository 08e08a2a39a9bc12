"""Observation of a group in a cluster. Missing answers are part of the observation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from orbitmq._native import Record, decode_records
from orbitmq.admin.clients import RunningInfo
from orbitmq.admin.clusters import cluster_info
from orbitmq.admin.explain.observations import BrokerSeen, Copy, GroupSeen, QueueSeen, TopicSeen
from orbitmq.admin.groups import Member
from orbitmq.admin.offsets import QueueLag
from orbitmq.admin.requests import ask, read
from orbitmq.admin.topics import find_route
from orbitmq.errors import BrokerRefused, RemotingError
from orbitmq.protocol.bodies import MessageQueue, Subscription, SubscriptionGroup
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.protocol.names import Property, dlq_topic
from orbitmq.rpc.flow import Flow, Pause

__all__ = ["copy_of", "observe_group", "queue_ends", "reachable_brokers", "read_copies"]

CONSUMER_TIMEOUT_MS = 6000
NEWEST = 16
"""Number of a topic's last messages to read, per queue."""
WATCH_MS = 1000


def observe_group(
    nameservers: Sequence[str], group: str, *, watch_ms: float = WATCH_MS
) -> Flow[GroupSeen]:
    """Return all observations of a group; watch it for `watch_ms` to see if it moves."""
    brokers = yield from reachable_brokers(nameservers)
    up = {one.name: one.address for one in brokers if one.error is None}
    configs: dict[str, SubscriptionGroup] = {}
    for name, address in up.items():
        response = yield from ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = read(response).get("subscriptionGroupTable") or {}
        if group in table:
            configs[name] = SubscriptionGroup.from_json(table[group], group)
    members, model, subscriptions = yield from _members(up.values(), group)
    running, silent = yield from _running(up.values(), group, members)
    before = yield from _lags(up, group, running)
    progress = {queue: one.consumer_offset for queue, one in before.items()}
    progress |= _told(running)
    waits = any(one.lag > 0 for one in before.values())
    if waits and members:
        yield Pause(watch_ms)
        again, _ = yield from _running(up.values(), group, members)
        running = again or running
    lags = yield from _lags(up, group, running)
    now = {queue: one.consumer_offset for queue, one in lags.items()} | _told(running)
    moved = frozenset(queue for queue, offset in now.items() if progress.get(queue) != offset)
    queues = {}
    for queue, lag in lags.items():
        queues[queue] = yield from _queue(up, queue, lag, now.get(queue, lag.consumer_offset))
    names = {one.topic for one in subscriptions.values()} or {queue.topic for queue in lags}
    topics = {}
    for name in sorted(names):
        topics[name] = yield from _topic(nameservers, up, name)
    if running:
        # A queue that no member has ever had has no committed offset and is missing in `lags`.
        for queue in (queue for topic in topics.values() for queue in topic.queues):
            if queue not in queues and queue.broker_name in up:
                queues[queue] = yield from _never_begun(up[queue.broker_name], queue)
    dead_letters, newest_ms = yield from _dead_letters(up, group)
    return GroupSeen(
        group=group,
        now_ms=time.time_ns() // 1_000_000,
        brokers=brokers,
        configs=configs,
        members=members,
        message_model=model,
        subscriptions=subscriptions,
        running=running,
        silent=silent,
        topics=topics,
        queues=queues,
        moved=moved,
        dead_letters=dead_letters,
        newest_dead_letter_ms=newest_ms,
    )


def reachable_brokers(nameservers: Sequence[str]) -> Flow[tuple[BrokerSeen, ...]]:
    """Return all registered brokers, with the error of each broker that does not answer."""
    info = yield from cluster_info(nameservers)
    brokers = []
    for name, places in info.brokers.items():
        address = places.any_address
        if address is None:
            continue
        error = None
        try:
            yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=3000)
        except (RemotingError, BrokerRefused) as failure:
            error = str(failure)
        brokers.append(BrokerSeen(name, address, error))
    return tuple(brokers)


def _members(
    addresses: Iterable[str], group: str
) -> Flow[tuple[tuple[Member, ...], str, dict[str, Subscription]]]:
    members: dict[str, Member] = {}
    model, subscriptions = "CLUSTERING", dict[str, Subscription]()
    for address in addresses:
        response = yield from ask(
            address,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            {"consumerGroup": group},
            also=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        if response.code == ResponseCode.CONSUMER_NOT_ONLINE:
            continue
        value = read(response)
        model = value.get("messageModel") or model
        for one in value.get("connectionSet") or ():
            member = Member.from_json(one)
            members.setdefault(member.client_id, member)
        for topic, one in (value.get("subscriptionTable") or {}).items():
            subscriptions[str(topic)] = Subscription.from_json(one)
    return tuple(members[name] for name in sorted(members)), model, subscriptions


def _running(
    addresses: Iterable[str], group: str, members: Iterable[Member]
) -> Flow[tuple[dict[str, RunningInfo], tuple[str, ...]]]:
    """Request the state of each member through any broker that it is connected to."""
    running: dict[str, RunningInfo] = {}
    silent = []
    places = list(addresses)
    for member in members:
        ext = {"consumerGroup": group, "clientId": member.client_id, "jstackEnable": "false"}
        for address in places:
            try:
                response = yield from ask(
                    address,
                    RequestCode.GET_CONSUMER_RUNNING_INFO,
                    ext,
                    timeout_ms=CONSUMER_TIMEOUT_MS,
                )
            except RemotingError:
                silent.append(member.client_id)
                break
            except BrokerRefused as error:
                if error.code == ResponseCode.CONSUME_MSG_TIMEOUT:
                    silent.append(member.client_id)
                    break
                continue  # not connected to this broker, or a client that reports no state
            running[member.client_id] = RunningInfo.from_json(member.client_id, read(response))
            break
    return running, tuple(silent)


def _told(running: dict[str, RunningInfo]) -> dict[MessageQueue, int]:
    """Return the offsets that members report, which they commit only every few seconds."""
    return {
        queue: state.commit_offset
        for info in running.values()
        for queue, state in info.queues.items()
        if not state.is_dropped
    }


def _lags(
    up: dict[str, str], group: str, running: dict[str, RunningInfo]
) -> Flow[dict[MessageQueue, QueueLag]]:
    """Return the lag of a group, also in queues without a committed offset."""
    lags: dict[MessageQueue, QueueLag] = {}
    for address in up.values():
        response = yield from ask(address, RequestCode.GET_CONSUME_STATS, {"consumerGroup": group})
        for key, one in (read(response).get("offsetTable") or {}).items():
            lags[MessageQueue.from_json(key)] = QueueLag.from_json(one)
    for queue, offset in _told(running).items():
        if queue not in lags and queue.broker_name in up:
            end = yield from _end(up[queue.broker_name], queue)
            lags[queue] = QueueLag(max(offset, 0), end, 0)
    return dict(sorted(lags.items()))


def _end(address: str, queue: MessageQueue) -> Flow[int]:
    ext = {"topic": queue.topic, "queueId": str(queue.queue_id)}
    response = yield from ask(address, RequestCode.GET_MAX_OFFSET, ext)
    return max(int(response.get_ext("offset") or 0), 0)


def _queue(up: dict[str, str], queue: MessageQueue, lag: QueueLag, offset: int) -> Flow[QueueSeen]:
    offset = max(offset, lag.consumer_offset)
    address = up[queue.broker_name]
    low = yield from queue_ends(address, queue)
    head: tuple[Copy, ...] = ()
    if low <= offset < lag.max_offset:
        head = yield from read_copies(address, queue, offset, 1)
    return QueueSeen(offset, low, lag.max_offset, head[0] if head else None)


def _never_begun(address: str, queue: MessageQueue) -> Flow[QueueSeen]:
    low = yield from queue_ends(address, queue)
    end = yield from _end(address, queue)
    head = (yield from read_copies(address, queue, low, 1)) if low < end else ()
    return QueueSeen(low, low, max(low, end), head[0] if head else None)


def queue_ends(address: str, queue: MessageQueue) -> Flow[int]:
    """Return the first offset that a queue still has."""
    ext = {"topic": queue.topic, "queueId": str(queue.queue_id)}
    response = yield from ask(address, RequestCode.GET_MIN_OFFSET, ext)
    return max(int(response.get_ext("offset") or 0), 0)


def _topic(nameservers: Sequence[str], up: dict[str, str], name: str) -> Flow[TopicSeen]:
    route = yield from find_route(nameservers, name)
    if route is None:
        return TopicSeen(name, {}, ())
    newest: list[Copy] = []
    for queue in route.subscribe_queues:
        address = up.get(queue.broker_name)
        if address is None:
            continue
        end = yield from _end(address, queue)
        if end > 0:
            newest += yield from read_copies(address, queue, max(end - NEWEST, 0), NEWEST)
    perms = {data.broker_name: data.perm for data in route.queues}
    return TopicSeen(name, perms, route.subscribe_queues, tuple(newest))


def read_copies(
    address: str, queue: MessageQueue, offset: int, count: int
) -> Flow[tuple[Copy, ...]]:
    """Return messages of a queue, as they are stored."""
    records = yield from read_records(address, queue, offset, count)
    return tuple(copy_of(record, queue.broker_name) for record in records)


def read_records(address: str, queue: MessageQueue, offset: int, count: int) -> Flow[list[Record]]:
    """Return messages of a queue, or an empty list if the broker refuses the pull."""
    ext = {
        "consumerGroup": "TOOLS_CONSUMER",
        "topic": queue.topic,
        "queueId": str(queue.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(PullFlag.SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    nothing = (
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
    try:
        response = yield from ask(address, RequestCode.PULL_MESSAGE, ext, also=nothing)
    except BrokerRefused:
        return []
    return decode_records(response.body) if response.code == ResponseCode.SUCCESS else []


def copy_of(record: Record, broker_name: str) -> Copy:
    """Return the `Copy` of a record."""
    queue = MessageQueue(record.topic, broker_name, record.queue_id)
    return Copy(
        record.topic,
        queue,
        record.queue_offset,
        record.get_property(Property.UNIQUE_KEY) or record.offset_id,
        record.offset_id,
        record.store_timestamp,
        record.born_timestamp,
        record.tags,
        record.keys,
        record.properties_text,
        record.properties,
        record.reconsume_times,
    )


def _dead_letters(up: dict[str, str], group: str) -> Flow[tuple[int, int]]:
    """Return the number of a group's dead letters, and the time the newest was stored."""
    topic, count, newest_ms = dlq_topic(group), 0, 0
    for address in up.values():
        try:
            response = yield from ask(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        except BrokerRefused:
            continue  # the broker has no such topic
        for one in (read(response).get("offsetTable") or {}).values():
            count += int(one["maxOffset"]) - int(one["minOffset"])
            newest_ms = max(newest_ms, int(one["lastUpdateTimestamp"]))
    return count, newest_ms
