"""Offsets of a group: the member's table, the stores behind it, and the start of new queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from orbitmq._native import Command, dumps_lenient, loads_lenient
from orbitmq.client.instance import ClientInstance
from orbitmq.errors import BrokerBusy, BrokerRefused, ClientError, ConfigError, OrbitError
from orbitmq.persist import load, save
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.members import Members, as_number
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.rpc.flow import Call, Flow, Notify, Pause
from orbitmq.rpc.refusals import refusal
from orbitmq.rpc.route_table import RouteTable
from orbitmq.rpc.routes import fetch_route

__all__ = [
    "LocalOffsets",
    "OffsetStore",
    "OffsetTable",
    "RemoteOffsets",
    "StartAt",
    "StartRule",
    "begin_new_group",
    "broker_address",
    "commit_offset",
    "default_directory",
    "max_offset",
    "min_offset",
    "report_offset",
    "search_offset",
    "start_offset",
    "stored_offset",
]


class OffsetTable:
    """Table of the offsets by queue that the next commit stores."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset of a queue, None if the table has none."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Move the offset of a queue forward; a lower offset and -1 are ignored."""
        if offset >= 0 and offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def put(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset of a queue; it may be lower than before."""
        self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """Remove the offset of a queue."""
        self._offsets.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets of a topic's queues, or of all queues if `topic` is empty."""
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if not topic or queue.topic == topic
        }


@dataclass(frozen=True, slots=True)
class StartAt:
    """Start of a queue: an offset, the end of the queue, or a time."""

    kind: Literal["offset", "max", "time"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class StartRule:
    """Rule for the start of queues for which a group has never committed an offset.

    Two quirks of RocketMQ are kept, because mixed groups must agree:

    - Retry topics begin at 0, but at their end if the rule is a time.
    - For a new group, a broker returns offset 0 as if it had been committed, while the queue's
      first message still exists and is in memory.

    So ``last`` reads young queues from their first message on. ``end`` and a time do not, see
    `orbitmq.client.consumer.offsets.begin_new_group`. If that function finds that the group is not
    new, ``end`` means the same as ``last``.
    """

    where: Literal["first", "last", "end", "time"] = "last"
    time_ms: int = 0

    @classmethod
    def of(cls, consume_from: str | int | datetime) -> StartRule:
        """Parse ``"earliest"``, ``"latest"``, ``"last"``, a `datetime` or epoch milliseconds."""
        if isinstance(consume_from, datetime):
            return cls("time", int(consume_from.timestamp() * 1000))
        if isinstance(consume_from, int):
            return cls("time", consume_from)
        if consume_from in ("earliest", "first"):
            return cls("first")
        if consume_from == "last":
            return cls("last")
        if consume_from in ("latest", "end"):
            return cls("end")
        raise ConfigError(
            "consume_from is 'earliest', 'latest', 'last' (RocketMQ's rule), a datetime or epoch "
            f"milliseconds, not {consume_from!r}"
        )

    @property
    def is_exact(self) -> bool:
        """True if the rule also applies to young queues, instead of their first message."""
        return self.where in ("end", "time")

    @property
    def java_name(self) -> str:
        """Name of the rule in heartbeats."""
        names = {
            "first": "CONSUME_FROM_FIRST_OFFSET",
            "last": "CONSUME_FROM_LAST_OFFSET",
            "end": "CONSUME_FROM_LAST_OFFSET",
            "time": "CONSUME_FROM_TIMESTAMP",
        }
        return names[self.where]

    def start(self, topic: str, stored: int) -> StartAt:
        """Return the start of a queue; `stored` is the group's committed offset, -1 for none."""
        if stored >= 0:
            return StartAt("offset", stored)
        is_retry = topic.startswith(RETRY_PREFIX)
        if self.where == "first" or (self.where in ("last", "end") and is_retry):
            return StartAt("offset", 0)
        if self.where in ("last", "end") or is_retry:
            return StartAt("max")
        return StartAt("time", self.time_ms)


# ---- Offset requests: queries, commits, and the start of a queue

OFFSET_TIMEOUT_MS = 5000
SETTLING_TRIES = 30
SETTLING_PAUSE_MS = 100
"""Three seconds in which another member can commit the start of a new group; milliseconds are
usual."""


def broker_address(routes: RouteTable, queue: MessageQueue) -> Flow[str]:
    """Return the address of a queue's broker, preferably the master's."""
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
    """Return the offset of the first message that a queue still has."""
    return _ask_offset(routes, queue, RequestCode.GET_MIN_OFFSET, _of_queue(queue))


def search_offset(routes: RouteTable, queue: MessageQueue, time_ms: int) -> Flow[int]:
    """Return the offset of the message stored nearest to a time."""
    ext = _of_queue(queue) | {"timestamp": str(time_ms)}
    return _ask_offset(routes, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)


def stored_offset(routes: RouteTable, group: str, queue: MessageQueue) -> Flow[int]:
    """Return the group's committed offset of a queue, -1 before the first commit."""
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
    """Return the start offset of a queue; `stored` is the committed offset, -1 for none."""
    start = rule.start(queue.topic, stored)
    if start.kind == "offset":
        return start.value
    if start.kind == "max":
        return (yield from max_offset(routes, queue))
    return (yield from search_offset(routes, queue, start.value))


def begin_new_group(
    routes: RouteTable, group: str, topic: str, time_ms: int | None = None
) -> Flow[bool]:
    """Commit the start of all queues of a topic for a group that is new to the topic.

    The start is the end of each queue, or the offset at `time_ms`. The offsets of all queues are
    committed, including queues of other members, so that the members of the group agree. A group
    for which a broker has offsets of the topic is not new, and keeps its offsets. Returns True if
    the group was new.

    The request for a single offset cannot distinguish a new group from a group that has committed
    0. So this function requests the group's lag: the response has only topics with offsets of the
    group.
    """
    route = routes.route(topic)
    if route is None:
        return False
    queues = route.subscribe_queues
    known = yield from _committed(routes, group, queues)
    if known:
        # Another member may be committing the start right now and may have queues left.
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
    """Return the committed offset and the end of a topic's queues; empty for a new group.

    If a broker has an offset for one of the queues, it returns 0 for queues without an offset.
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
    """Send a group's offset to the broker one-way, without waiting for a response."""
    address = yield from broker_address(routes, queue)
    yield Notify(address, RequestCode.UPDATE_CONSUMER_OFFSET, _commit_ext(group, queue, offset))


def commit_offset(routes: RouteTable, group: str, queue: MessageQueue, offset: int) -> Flow[None]:
    """Send a group's offset to the broker and wait for the broker's response."""
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


# ---- Offset stores: the brokers (clustering), or a local file (broadcasting)
#
# The file has Java's format, so that a Python consumer can replace a Java consumer:
# ``<directory>/<client id>/<group>/offsets.json`` with ``{"offsetTable":{{queue}:offset, …}}``;
# the previous version is in ``offsets.json.bak``. The file is the only place of these offsets.
# Therefore the offset of a queue stays in the file while the queue's broker is unreachable.

_log = logging.getLogger(__name__)

OVERTAKEN_S = 0.2
"""Time for which a sent pull may still wait for the broker's thread that carries it out."""


class OffsetStore(Protocol):
    """Store that keeps offsets after the end of a consumer."""

    table: OffsetTable

    async def load(self) -> None:
        """Read the offsets that the store can read in advance."""

    async def read(self, queue: MessageQueue) -> int:
        """Return the stored offset of a queue, -1 for none; raises if the store is unreachable."""

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Store the offsets of these queues; with `wait`, wait until they are stored."""

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Store the offset of a queue that is given up; the next owner begins there.

        Returns False while the queue's broker is unreachable. `sent_s` is the time in seconds since
        the latest pull was sent.
        """

    def released(self, queue: MessageQueue) -> None:
        """Note that this member has released a queue."""


class RemoteOffsets:
    """Store of a group's offsets at the brokers of the queues."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self.table = OffsetTable()
        self._instance = instance
        self._group = group

    async def load(self) -> None:
        """Do nothing: offsets are read from the brokers when they are needed."""

    async def read(self, queue: MessageQueue) -> int:
        """Return the committed offset from the queue's broker."""
        return await self._instance.run(stored_offset(self._instance.routes, self._group, queue))

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Send the offsets to the brokers; the next commit repeats offsets that did not arrive.

        Each broker receives one offset after the other. Java's broker loses the first offsets of a
        group if two of them arrive at the same time.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            if self.table.get(queue) is not None:
                by_broker.setdefault(queue.broker_name, []).append(queue)
        await asyncio.gather(*(self._persist_all(known, wait) for known in by_broker.values()))

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Commit the offset, and check that the broker has kept it.

        Java's brokers carry out pulls in parallel with other requests. So the older offset in a
        pull can overwrite a newer committed offset.
        """
        offset = self.table.get(queue)
        if offset is None:
            return True
        routes = self._instance.routes
        try:
            for pause_s in (max(OVERTAKEN_S - sent_s, 0), 0, 0):
                await self._instance.run(commit_offset(routes, self._group, queue, offset))
                await asyncio.sleep(pause_s)
                if await self.read(queue) >= offset:
                    break
        except OrbitError as error:
            if isinstance(error, BrokerRefused) and not isinstance(error, BrokerBusy):
                _log.warning("offset %d of %s could not be committed: %s", offset, queue, error)
                return True
            _log.debug(
                "offset %d of %s could not be committed, next try when its broker is back: %s",
                offset,
                queue,
                error,
            )
            return False
        return True

    def released(self, queue: MessageQueue) -> None:
        """Remove the offset, because from now on another member commits it."""
        self.table.forget(queue)

    async def _persist_all(self, queues: list[MessageQueue], wait: bool) -> None:
        for queue in queues:
            # The current value: a queue that was released meanwhile belongs to another member.
            offset = self.table.get(queue)
            if offset is not None:
                await self._persist(queue, offset, wait)

    async def _persist(self, queue: MessageQueue, offset: int, wait: bool) -> None:
        routes = self._instance.routes
        tell = commit_offset if wait else report_offset
        try:
            await self._instance.run(tell(routes, self._group, queue, offset))
        except OrbitError as error:
            _log.warning("offset %d of %s could not be committed: %s", offset, queue, error)


def default_directory() -> Path:
    """Return the default directory of offset files, which is also Java's."""
    return Path.home() / ".rocketmq_offsets"


class LocalOffsets:
    """Store of one broadcast consumer's offsets in a file."""

    def __init__(self, directory: Path, client_id: str, group: str) -> None:
        self.table = OffsetTable()
        self.path = directory / client_id / group / "offsets.json"
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the file; if it is missing or invalid, read the previous version."""
        for queue, offset in (await asyncio.to_thread(load, self.path, _parse) or {}).items():
            self.table.put(queue, offset)

    async def read(self, queue: MessageQueue) -> int:
        """Return the known offset of a queue, -1 for none."""
        offset = self.table.get(queue)
        return -1 if offset is None else offset

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Rewrite the file with the offsets of all known queues."""
        async with self._writing:
            offsets = {queue.as_key(): offset for queue, offset in self.table.of_topic("").items()}
            if offsets:
                await asyncio.to_thread(save, self.path, dumps_lenient({"offsetTable": offsets}))

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Rewrite the file and return True, because no broker is involved."""
        await self.persist([queue])
        return True

    def released(self, queue: MessageQueue) -> None:
        """Keep the offset of the queue, because the queue may come back."""


def _parse(content: bytes) -> dict[MessageQueue, int]:
    offsets = Members.read(content).table("offsetTable")
    return {
        MessageQueue.from_json(key): as_number(value, "offsetTable")
        for key, value in offsets.items()
    }
