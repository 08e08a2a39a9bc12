"""How far a group has come, as one member knows it, and where a queue without a past begins."""

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
    """Offsets by queue; what is committed next time."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset known here, None for none."""
        return self._offsets.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Move forward; an offset before the one known is ignored, and so is -1."""
        if offset >= 0 and offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def put(self, queue: MessageQueue, offset: int) -> None:
        """Move to an offset, also back."""
        self._offsets[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """Know nothing of a queue any more."""
        self._offsets.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return what is known of a topic's queues; of all queues for an empty name."""
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if not topic or queue.topic == topic
        }


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where a queue begins: an offset, one of its ends, or a time."""

    kind: Literal["offset", "max", "time"]
    value: int = 0


@dataclass(frozen=True, slots=True)
class StartRule:
    """Where a group begins in queues it has never committed an offset for.

    RocketMQ's own quirks, kept because mixed groups must agree: retry topics begin at 0, but at
    their end when the rule is a time; and a broker that is asked for the offset of a new group
    answers 0, as if that had been committed, while the first message of the queue is still there
    and in memory. So ``last`` reads young queues from their first message on. ``end`` and a time do
    not: see `orbitmq.client.consumer.offsets.begin_new_group`. Where that finds the group known,
    ``end`` is ``last``.
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
        """Whether young queues, too, begin where the rule says, and not at their first message."""
        return self.where in ("end", "time")

    @property
    def java_name(self) -> str:
        """What heartbeats call it."""
        names = {
            "first": "CONSUME_FROM_FIRST_OFFSET",
            "last": "CONSUME_FROM_LAST_OFFSET",
            "end": "CONSUME_FROM_LAST_OFFSET",
            "time": "CONSUME_FROM_TIMESTAMP",
        }
        return names[self.where]

    def start(self, topic: str, stored: int) -> StartAt:
        """Return where to begin; `stored` is what the group has committed, -1 for nothing."""
        if stored >= 0:
            return StartAt("offset", stored)
        is_retry = topic.startswith(RETRY_PREFIX)
        if self.where == "first" or (self.where in ("last", "end") and is_retry):
            return StartAt("offset", 0)
        if self.where in ("last", "end") or is_retry:
            return StartAt("max")
        return StartAt("time", self.time_ms)


# ---- Asking brokers for offsets, committing them, and finding where a queue begins

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


# ---- Where a group's offsets are kept: with the brokers, or in a file when everybody gets everyth
#
# The file is Java's, so that a consumer written there can be followed by one written here:
# ``<directory>/<client id>/<group>/offsets.json`` with ``{"offsetTable":{{queue}:offset, …}}``;
# the version before the last is in ``offsets.json.bak``. Nobody else knows these offsets: one of a
# queue that is away for a while, because its broker is, stays in the file.

_log = logging.getLogger(__name__)

OVERTAKEN_S = 0.2
"""Time for which a pull may still be on its way to the thread of a broker that carries it out."""


class OffsetStore(Protocol):
    """Keeps offsets beyond the life of a consumer."""

    table: OffsetTable

    async def load(self) -> None:
        """Read what can be read at once."""

    async def read(self, queue: MessageQueue) -> int:
        """Return what is stored for a queue, -1 for nothing; raises when nobody can tell."""

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Store the offsets of these queues, surely when it `wait`s."""

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Store the offset of a queue that is given up, for its next owner to begin at.

        Returns False while the broker that keeps it cannot be reached. `sent_s` is how long ago the
        latest pull was sent.
        """

    def released(self, queue: MessageQueue) -> None:
        """Note that a queue is not ours any more."""


class RemoteOffsets:
    """Offsets of a group, kept by the brokers of its queues."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self.table = OffsetTable()
        self._instance = instance
        self._group = group

    async def load(self) -> None:
        """Nothing is read before it is needed."""

    async def read(self, queue: MessageQueue) -> int:
        """Ask the broker."""
        return await self._instance.run(stored_offset(self._instance.routes, self._group, queue))

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Tell the brokers; one that does not hear it is told again next time.

        Each broker is told of one queue after the other: Java's loses the first offsets of a group
        when two of them come at the same time.
        """
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            if self.table.get(queue) is not None:
                by_broker.setdefault(queue.broker_name, []).append(queue)
        await asyncio.gather(*(self._persist_all(known, wait) for known in by_broker.values()))

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Commit, and look whether it counts.

        Java's brokers carry out a pull beside other requests: the older offset that one brings
        along may take the place of a newer one.
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
            _log.debug("offset %d of %s waits for its broker: %s", offset, queue, error)
            return False
        return True

    def released(self, queue: MessageQueue) -> None:
        """Forget it: from now on another member moves its offset."""
        self.table.forget(queue)

    async def _persist_all(self, queues: list[MessageQueue], wait: bool) -> None:
        for queue in queues:
            # Of now: one that was given up meanwhile is another member's.
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
    """Return where Java keeps the files, too."""
    return Path.home() / ".rocketmq_offsets"


class LocalOffsets:
    """Offsets of one consumer, kept in a file."""

    def __init__(self, directory: Path, client_id: str, group: str) -> None:
        self.table = OffsetTable()
        self.path = directory / client_id / group / "offsets.json"
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the file, or the one before it when it is missing or broken."""
        for queue, offset in (await asyncio.to_thread(load, self.path, _parse) or {}).items():
            self.table.put(queue, offset)

    async def read(self, queue: MessageQueue) -> int:
        """Return what was in the file."""
        offset = self.table.get(queue)
        return -1 if offset is None else offset

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Write the file anew, with all queues that are known."""
        async with self._writing:
            offsets = {queue.as_key(): offset for queue, offset in self.table.of_topic("").items()}
            if offsets:
                await asyncio.to_thread(save, self.path, dumps_lenient({"offsetTable": offsets}))

    async def settle(self, queue: MessageQueue, sent_s: float) -> bool:
        """Write the file anew."""
        await self.persist([queue])
        return True

    def released(self, queue: MessageQueue) -> None:
        """Keep its offset for when it comes back."""


def _parse(content: bytes) -> dict[MessageQueue, int]:
    offsets = Members.read(content).table("offsetTable")
    return {
        MessageQueue.from_json(key): as_number(value, "offsetTable")
        for key, value in offsets.items()
    }
