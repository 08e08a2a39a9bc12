"""Asking brokers for offsets, committing them, and finding where a queue begins."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq._native import Command, loads_lenient
from orbitmq.client.flows.refusals import refusal
from orbitmq.client.flows.routes import fetch_route
from orbitmq.client.state.offsets import StartRule
from orbitmq.client.state.routes import RouteTable
from orbitmq.client.wishes import Call, Flow, Notify, Pause
from orbitmq.errors import BrokerRefused, ClientError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode

__all__ = [
    "begin_new_group",
    "broker_address",
    "commit_offset",
    "max_offset",
    "min_offset",
    "report_offset",
    "search_offset",
    "start_offset",
    "stored_offset",
]

OFFSET_TIMEOUT_MS = 5000
SETTLING_TRIES = 30
SETTLING_PAUSE_MS = 100
"""Three seconds for another member to say where a new group begins; milliseconds are usual."""


def broker_address(routes: RouteTable, queue: MessageQueue) -> Flow[str]:
    """Return the address of a queue's broker, the master's if there is one."""
    address = routes.address(queue.broker_name)
    if address is None:
        yield from fetch_route(routes, queue.topic)
        address = routes.address(queue.broker_name)
    if address is None:
        raise ClientError(
            f"broker {queue.broker_name} is not known to any nameserver: it is down, or topic "
            f"{queue.topic!r} has been moved away from it"
        )
    return address


def _of_queue(queue: MessageQueue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id), "bname": queue.broker_name}


def _ask_offset(
    routes: RouteTable, queue: MessageQueue, code: int, ext: dict[str, str]
) -> Flow[int]:
    address = yield from broker_address(routes, queue)
    response = yield Call(address, code, ext, None, OFFSET_TIMEOUT_MS)
    if response.code != ResponseCode.SUCCESS:
        raise refusal(response, address)
    return int(response.get_ext("offset") or 0)


def max_offset(routes: RouteTable, queue: MessageQueue) -> Flow[int]:
    """Return the offset behind a queue's last message."""
    return _ask_offset(routes, queue, RequestCode.GET_MAX_OFFSET, _of_queue(queue))


def min_offset(routes: RouteTable, queue: MessageQueue) -> Flow[int]:
    """Return the offset of the first message a queue still has."""
    return _ask_offset(routes, queue, RequestCode.GET_MIN_OFFSET, _of_queue(queue))


def search_offset(routes: RouteTable, queue: MessageQueue, time_ms: int) -> Flow[int]:
    """Return the offset of the message stored nearest to a time."""
    ext = _of_queue(queue) | {"timestamp": str(time_ms)}
    return _ask_offset(routes, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)


def stored_offset(routes: RouteTable, group: str, queue: MessageQueue) -> Flow[int]:
    """Return what a group has committed, -1 when it never has."""
    ext = _of_queue(queue) | {"consumerGroup": group}
    try:
        return (yield from _ask_offset(routes, queue, RequestCode.QUERY_CONSUMER_OFFSET, ext))
    except BrokerRefused as error:
        if error.code == ResponseCode.SYSTEM_BUSY:
            raise
        return -1


def start_offset(
    routes: RouteTable, queue: MessageQueue, rule: StartRule, stored: int
) -> Flow[int]:
    """Return where to begin with a queue; `stored` is what was committed, -1 for nothing."""
    start = rule.start(queue.topic, stored)
    if start.kind == "offset":
        return start.value
    if start.kind == "max":
        return (yield from max_offset(routes, queue))
    return (yield from search_offset(routes, queue, start.value))


def begin_new_group(
    routes: RouteTable, group: str, topic: str, time_ms: int | None = None
) -> Flow[bool]:
    """Commit the ends of all queues of a topic, or a time, for a group that is new to it.

    All of them, whoever has them, so that the members of the group agree. A group that a broker has
    offsets of for the topic is not new, and stays where it is. Return whether it was new.

    The request for a single offset cannot tell a new group from one that has committed 0; the one
    for the group's lag names the topics that it has offsets of, and no others.
    """
    route = routes.route(topic)
    if route is None:
        return False
    queues = route.subscribe_queues
    known = yield from _committed(routes, group, queues)
    if known:
        # Another member may be at it this moment, with queues that it has yet to come to.
        for _ in range(SETTLING_TRIES):
            places = [known.get(queue, (0, 1)) for queue in queues]
            if all(offset > 0 or end == 0 for offset, end in places):
                break
            yield Pause(SETTLING_PAUSE_MS)
            known = yield from _committed(routes, group, queues)
        return False
    offsets = {}
    for queue in queues:
        if time_ms is None:
            offsets[queue] = yield from max_offset(routes, queue)
        else:
            offsets[queue] = yield from search_offset(routes, queue, time_ms)
    for queue, offset in offsets.items():
        yield from commit_offset(routes, group, queue, offset)
    return True


def _committed(
    routes: RouteTable, group: str, queues: Sequence[MessageQueue]
) -> Flow[dict[MessageQueue, tuple[int, int]]]:
    """Return committed offset and end of a topic's queues; empty if the group is new to it.

    Where a broker has an offset of one queue, it has 0 for those that it has none of.
    """
    found: dict[MessageQueue, tuple[int, int]] = {}
    for queue in {one.broker_name: one for one in queues}.values():
        address = yield from broker_address(routes, queue)
        ext = {"consumerGroup": group, "bname": queue.broker_name}
        response: Command = yield Call(
            address, RequestCode.GET_CONSUME_STATS, ext, None, OFFSET_TIMEOUT_MS
        )
        if response.code != ResponseCode.SUCCESS:
            raise refusal(response, address)
        value = loads_lenient(response.body) if response.body else None
        table = (value.get("offsetTable") if isinstance(value, dict) else None) or {}
        for key, one in table.items():
            of = MessageQueue.from_json(key)
            if of.topic == queue.topic:
                found[of] = (int(one["consumerOffset"]), int(one["brokerOffset"]))
    return found


def _commit_ext(group: str, queue: MessageQueue, offset: int) -> dict[str, str]:
    return _of_queue(queue) | {"consumerGroup": group, "commitOffset": str(offset)}


def report_offset(routes: RouteTable, group: str, queue: MessageQueue, offset: int) -> Flow[None]:
    """Tell the broker how far a group has come, without waiting for its word."""
    address = yield from broker_address(routes, queue)
    yield Notify(address, RequestCode.UPDATE_CONSUMER_OFFSET, _commit_ext(group, queue, offset))


def commit_offset(routes: RouteTable, group: str, queue: MessageQueue, offset: int) -> Flow[None]:
    """Tell the broker how far a group has come, and wait until it has taken note."""
    address = yield from broker_address(routes, queue)
    response = yield Call(
        address,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        _commit_ext(group, queue, offset),
        None,
        OFFSET_TIMEOUT_MS,
    )
    if response.code != ResponseCode.SUCCESS:
        raise refusal(response, address)
