"""Queues of a reader, with its first and last offset in each.

Options give positions as words, numbers or times; brokers use numbers only. This module returns the
requested offsets that exist at this moment. Requested offsets that no longer exist are a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NoReturn

from orbitmq.errors import ConfigError, NoRoute
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.features import BULK_READ
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.offsets import EARLIEST, LATEST, OffsetBounds, Offsets, with_brokers
from orbitmq.spark.source.data_loss import DataLoss, place
from orbitmq.spark.source.options import Position, SourceOptions, Topics
from orbitmq.spark.source.range_reader import REMOVING

__all__ = [
    "find_on_any_broker",
    "find_queues",
    "resolve_ending",
    "resolve_starting",
    "settled",
    "skip_expired",
]


def find_queues(
    cluster: SourceCluster, topics: Topics, *, required: bool = True
) -> list[MessageQueue]:
    """Return the existing queues that `topics` selects, sorted.

    With `required`, a topic that does not exist is an error. A running stream does not require
    topics, because they may have been deleted since. The error is `retriable` while no broker is
    registered, because nameservers drop the topics of a broker that is away.
    """
    if topics.pattern is not None:
        names: Iterable[str] = cluster.topics_like(topics.pattern)
        required = False
    else:
        names = topics.names or dict.fromkeys(queue.topic for queue in topics.queues)
    found: list[MessageQueue] = []
    for name in names:
        route = cluster.route(name)
        if route is not None:
            found += route.subscribe_queues
        elif required:
            _raise_missing(cluster, name, "assign" if topics.queues else "subscribe")
    if topics.queues:
        assigned = with_brokers("assign", topics.queues, found)
        wanted = set(assigned.values())
        missing = sorted(wanted - set(found))
        if missing and required:
            raise ConfigError(f"option assign: there is no {place(missing[0])}")
        found = [queue for queue in found if queue in wanted]
    return sorted(found)


def _raise_missing(cluster: SourceCluster, topic: str, option: str) -> NoReturn:
    if not cluster.registered_brokers():
        raise NoRoute(
            f"no broker is registered, so there is no route to topic {topic!r}: start the brokers",
            topic=topic,
            cause="no_broker",
        )
    raise ConfigError(
        f"topic {topic!r} does not exist; create it, or check options {option} and namespace. "
        "Nameservers know no topic whose brokers are all away"
    )


def find_on_any_broker(cluster: SourceCluster, topics: Topics) -> list[MessageQueue]:
    """Return the queues that `topics` may select, before `settled` has added broker names.

    Queues of unavailable brokers are missing from the result, and none is required.
    """
    names = dict.fromkeys(queue.topic for queue in topics.queues)
    wanted = Topics(names=tuple(names)) if names else topics
    found = find_queues(cluster, wanted, required=False)
    return [queue for queue in found if topics.has(queue)]


def settled(topics: Topics, begun: Iterable[MessageQueue]) -> Topics:
    """Return the topics with each queue of `assign` on the broker on which it was begun.

    A user may omit the broker of a topic on one broker. The queue then stays on that broker,
    whatever brokers the topic has later.
    """
    if all(queue.broker_name for queue in topics.queues):
        return topics
    return replace(topics, queues=tuple(with_brokers("assign", topics.queues, begun).values()))


def resolve_starting(
    cluster: SourceCluster,
    options: SourceOptions,
    ends: Mapping[MessageQueue, OffsetBounds],
    losses: DataLoss,
) -> Offsets:
    """Return the first offset to read in each queue."""
    position = options.starting
    strategy = options.when_no_message_is_later
    offsets = _resolve(cluster, position, ends, strategy)
    for queue, offset in offsets.items():
        first, last = ends[queue].min_offset, ends[queue].max_offset
        if offset < first:
            losses.report("expired", f"offsets {offset} to {first - 1} of {place(queue)}")
            offsets[queue] = first
        elif offset > last:
            _report_too_late(losses, position, queue, offset, last)
            offsets[queue] = last
    return offsets


def resolve_ending(
    cluster: SourceCluster,
    options: SourceOptions,
    ends: Mapping[MessageQueue, OffsetBounds],
    losses: DataLoss,
) -> Offsets:
    """Return the end of a batch in each queue."""
    offsets = _resolve(cluster, options.ending, ends, "latest")
    for queue, offset in offsets.items():
        last = ends[queue].max_offset
        if offset > last:
            _report_too_late(losses, options.ending, queue, offset, last)
            offsets[queue] = last
    return offsets


def _report_too_late(
    losses: DataLoss, position: Position, queue: MessageQueue, offset: int, last: int
) -> None:
    where = f"offset {offset} of {place(queue)}, which ends at {last} (option {position.option})"
    losses.report("queue shrunk", where)


def _resolve(
    cluster: SourceCluster,
    position: Position,
    ends: Mapping[MessageQueue, OffsetBounds],
    strategy: str,
) -> Offsets:
    named = position.timestamps_ms if position.timestamps_ms is not None else position.offsets
    known = {} if named is None else with_brokers(position.option, named, ends)
    given = {known[queue]: value for queue, value in (named or {}).items()}
    for queue in given:
        if queue not in ends:
            raise ConfigError(f"option {position.option}: there is no {place(queue)} to read")
    resolved: Offsets = {}
    for queue, reach in ends.items():
        time_ms = position.timestamp_ms
        if position.timestamps_ms is not None:
            time_ms = given.get(queue)
        if time_ms is not None:
            resolved[queue] = _since(cluster, position, queue, time_ms, reach, strategy)
            continue
        offset = position.default
        if position.offsets is not None:
            offset = given.get(queue, position.default)
        if offset == EARLIEST:
            offset = reach.min_offset
        elif offset == LATEST:
            offset = reach.max_offset
        resolved[queue] = offset
    return resolved


def _since(
    cluster: SourceCluster,
    position: Position,
    queue: MessageQueue,
    time_ms: int,
    reach: OffsetBounds,
    strategy: str,
) -> int:
    found = cluster.first_since(queue, time_ms, reach)
    if found is not None:
        return found
    if strategy == "error" and reach.max_offset > reach.min_offset:
        raise ConfigError(
            f"option {position.option}: {place(queue)} has no message stored at {time_ms} or "
            "later; startingOffsetsByTimestampStrategy=latest begins at its end instead"
        )
    return reach.max_offset


# ---- Queues whose messages have all expired
#
# A Java broker moves the first offset of a queue to the oldest message that is left. When no
# message is left, the broker does not move it and keeps returning the old first offset. A reader
# that starts there would read nothing and would report every message of the queue as lost.
# OrbitMQ's brokers return the right offset, so they get no further request.

_NOTHING = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def skip_expired(
    cluster: SourceCluster, starts: Offsets, ends: Mapping[MessageQueue, OffsetBounds]
) -> Offsets:
    """Return the starts, moved to the end of queues whose messages have all expired."""
    return {
        queue: ends[queue].max_offset if _is_all_gone(cluster, queue, start, ends[queue]) else start
        for queue, start in starts.items()
    }


def _is_all_gone(
    cluster: SourceCluster, queue: MessageQueue, start: int, reach: OffsetBounds
) -> bool:
    if start != reach.min_offset or start == reach.max_offset:
        return False
    endpoint = cluster.endpoint(queue.topic, queue.broker_name)
    if BULK_READ in endpoint.features:
        return False
    # Files are deleted from the oldest on: when the last message is deleted, all are. During the
    # deletion the first message may be gone and the last one not, so both are checked.
    for at in (start, reach.max_offset - 1):
        fields = cluster.pull_fields(queue, at, 1)
        answer = cluster.ask(endpoint.address, RequestCode.PULL_MESSAGE, fields, also=_NOTHING)
        if answer.remark != REMOVING:
            return False
    return True
