"""Offsets of groups: read, lag, set, reset and copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from orbitmq.admin.clusters import chosen_masters
from orbitmq.admin.requests import Json, ask, read
from orbitmq.admin.topics import address_of, brokers_of, topic_route
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.route_table import TopicRoute

__all__ = [
    "GroupLag",
    "Moment",
    "QueueLag",
    "clone_offsets",
    "committed_offsets",
    "group_lag",
    "offsets_at",
    "reset_offsets",
    "set_offsets",
]

Moment = int | datetime | Literal["earliest", "latest"]
"""Epoch milliseconds, a time, or an end of the queues."""

LATEST = -1


@dataclass(frozen=True, slots=True)
class QueueLag:
    """Offset of a group in a queue, and the end of the queue.

    >>> QueueLag(consumer_offset=7, max_offset=10, last_consumed_ms=0).lag
    3
    """

    consumer_offset: int
    max_offset: int
    last_consumed_ms: int
    """Time at which the last consumed message was stored; 0 without one."""

    @classmethod
    def from_json(cls, value: Json) -> QueueLag:
        """Return the entry of a broker's table."""
        return cls(
            int(value["consumerOffset"]), int(value["brokerOffset"]), int(value["lastTimestamp"])
        )

    @property
    def lag(self) -> int:
        """Number of messages that the group has yet to consume."""
        return self.max_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Offsets of a group in all its queues, including those of its retries."""

    group: str
    queues: Mapping[MessageQueue, QueueLag]
    consumed_per_second: float

    @property
    def total(self) -> int:
        """Number of messages that the group has yet to consume."""
        return sum(queue.lag for queue in self.queues.values())

    def of_topic(self, topic: str) -> int:
        """Return the number of messages of one topic that the group has yet to consume."""
        return sum(lag.lag for queue, lag in self.queues.items() if queue.topic == topic)


def group_lag(nameservers: Sequence[str], group: str, topic: str | None = None) -> Flow[GroupLag]:
    """Return the lag of a group, in one topic or in all topics with offsets of the group."""
    masters = yield from chosen_masters(nameservers)
    ext = {"consumerGroup": group} if topic is None else {"consumerGroup": group, "topic": topic}
    queues, per_second = {}, 0.0
    for address in masters.values():
        value = read((yield from ask(address, RequestCode.GET_CONSUME_STATS, ext)))
        per_second += float(value.get("consumeTps") or 0)
        for key, one in (value.get("offsetTable") or {}).items():
            queues[MessageQueue.from_json(key)] = QueueLag.from_json(one)
    return GroupLag(group, dict(sorted(queues.items())), per_second)


def committed_offsets(
    nameservers: Sequence[str], group: str, topic: str
) -> Flow[dict[MessageQueue, int]]:
    """Return the offsets a group has committed in a topic; queues without one are left out."""
    route = yield from topic_route(nameservers, topic)
    offsets = {}
    for queue in route.subscribe_queues:
        response = yield from ask(
            address_of(route, queue.broker_name),
            RequestCode.QUERY_CONSUMER_OFFSET,
            {"consumerGroup": group, **_place(queue)},
            also=(ResponseCode.QUERY_NOT_FOUND,),
        )
        if response.code == ResponseCode.SUCCESS:
            offsets[queue] = int(response.get_ext("offset") or 0)
    return offsets


def set_offsets(
    nameservers: Sequence[str], group: str, offsets: Mapping[MessageQueue, int]
) -> Flow[None]:
    """Commit offsets for a group; running members would overwrite them with their own."""
    routes: dict[str, TopicRoute] = {}
    for queue, offset in offsets.items():
        if queue.topic not in routes:
            routes[queue.topic] = yield from topic_route(nameservers, queue.topic)
        yield from ask(
            address_of(routes[queue.topic], queue.broker_name),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": group, "commitOffset": str(offset), **_place(queue)},
        )


def offsets_at(
    nameservers: Sequence[str], topic: str, moment: Moment
) -> Flow[dict[MessageQueue, int]]:
    """Return, for each queue of a topic, the offset of its first message from a moment on."""
    route = yield from topic_route(nameservers, topic)
    return (yield from _offsets_at(route, route.subscribe_queues, moment))


def _offsets_at(
    route: TopicRoute, queues: Iterable[MessageQueue], moment: Moment
) -> Flow[dict[MessageQueue, int]]:
    offsets = {}
    for queue in queues:
        ext = _place(queue)
        if moment == "earliest":
            code = RequestCode.GET_MIN_OFFSET
        elif moment == "latest":
            code = RequestCode.GET_MAX_OFFSET
        else:
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            ext["timestamp"] = str(_epoch_ms(moment))
        response = yield from ask(address_of(route, queue.broker_name), code, ext)
        offsets[queue] = max(int(response.get_ext("offset") or 0), 0)
    return offsets


def reset_offsets(
    nameservers: Sequence[str], group: str, topic: str, moment: Moment, *, only_back: bool = False
) -> Flow[dict[MessageQueue, int]]:
    """Reset the offsets of a group to a moment; return the new offsets.

    With `only_back`, a queue in which the group has not reached the moment stays unchanged. If
    members of the group are connected to a broker, it notifies them, and they restart from the new
    offsets after ten seconds. On other brokers this function commits the offsets.
    """
    route = yield from topic_route(nameservers, topic)
    done: dict[MessageQueue, int] = {}
    for broker in brokers_of(route):
        address = address_of(route, broker)
        queues = [queue for queue in route.subscribe_queues if queue.broker_name == broker]
        online = yield from ask(
            address,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            {"consumerGroup": group},
            also=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        if online.code == ResponseCode.CONSUMER_NOT_ONLINE:
            offsets = yield from _offsets_at(route, queues, moment)
            if only_back:
                known = yield from committed_offsets(nameservers, group, topic)
                offsets = {
                    queue: min(offset, known.get(queue, offset))
                    for queue, offset in offsets.items()
                }
            yield from set_offsets(nameservers, group, offsets)
        else:
            offsets = yield from _tell_members(address, group, topic, moment, only_back)
        done |= offsets
    return dict(sorted(done.items()))


def _tell_members(
    address: str, group: str, topic: str, moment: Moment, only_back: bool
) -> Flow[dict[MessageQueue, int]]:
    response = yield from ask(
        address,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {
            "topic": topic,
            "group": group,
            "timestamp": str(_epoch_ms(moment)),
            "isForce": "false" if only_back else "true",
        },
    )
    table = read(response).get("offsetTable") or {}
    return {MessageQueue.from_json(key): int(offset) for key, offset in table.items()}


def clone_offsets(
    nameservers: Sequence[str], source: str, target: str, topic: str, *, offline: bool = False
) -> Flow[None]:
    """Copy the offsets of one group in a topic to another group.

    If the source is connected, a broker clones only topics it subscribes to, unless `offline`.
    """
    route = yield from topic_route(nameservers, topic)
    ext = {
        "srcGroup": source,
        "destGroup": target,
        "topic": topic,
        "offline": "true" if offline else "false",
    }
    for broker in brokers_of(route):
        yield from ask(address_of(route, broker), RequestCode.CLONE_GROUP_OFFSET, ext)


def _epoch_ms(moment: Moment) -> int:
    if moment == "earliest":
        return 0
    if moment == "latest":
        return LATEST
    return round(moment.timestamp() * 1000) if isinstance(moment, datetime) else int(moment)


def _place(queue: MessageQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id)}
