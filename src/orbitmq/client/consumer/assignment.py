"""Who in a group gets which queues of a topic.

Every member computes the shares of all from the same two sorted lists (queues, client ids) and
takes its own, so no one has to be asked and mixed groups (ours, Java's, Go's) agree as long as all
use the same strategy. That makes every rule here exact, down to the text that is hashed.
"""

from __future__ import annotations

import bisect
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orbitmq.client.consumer.membership import group_members
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.route_table import RouteTable

__all__ = [
    "AllocateStrategy",
    "Averagely",
    "AveragelyByCircle",
    "ByConfig",
    "Changes",
    "ConsistentHash",
    "MachineRoom",
    "MachineRoomNearby",
    "allocate",
    "changes",
    "share_of_topic",
]

Queues = Sequence[MessageQueue]


class AllocateStrategy(Protocol):
    """A rule that gives each member of a group its share."""

    @property
    def name(self) -> str:
        """What the rule is called in the tools."""

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member; both lists are sorted and the member is in its list."""


def allocate(
    strategy: AllocateStrategy,
    client_id: str,
    queues: Iterable[MessageQueue],
    client_ids: Iterable[str],
) -> list[MessageQueue]:
    """Return a member's share; empty when the group does not know it yet.

    Raises `ValueError` when there is nothing to share or nobody to share it with: then one keeps
    what one has.
    """
    ordered, members = sorted(queues), sorted(client_ids, key=_utf16)
    if not client_id or not ordered or not members:
        raise ValueError("no queues, no members or no client id: nothing can be allocated")
    if client_id not in members:
        return []
    return strategy.share(client_id, ordered, members)


def _utf16(text: str) -> bytes:
    """Return a key that sorts as Java compares strings."""
    return text.encode("utf-16-be", "surrogatepass")


class Averagely:
    """Neighbouring queues, shares that differ by one at most; the usual rule."""

    name = "AVG"

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member."""
        index, members, count = client_ids.index(client_id), len(client_ids), len(queues)
        rest = count % members
        size = 1 if count <= members else count // members + (index < rest)
        start = index * size if index < rest else index * size + rest
        return list(queues[start : start + size])


class AveragelyByCircle:
    """Queues dealt out one by one."""

    name = "AVG_BY_CIRCLE"

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member."""
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ByConfig:
    """Queues that somebody chose by hand."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self.queues = list(queues)

    def share(
        self, _client_id: str, _queues: Queues, _client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues chosen, whether they exist or not."""
        return list(self.queues)


class ConsistentHash:
    """Each queue to the member next to it on a ring, so that few move when a member comes or goes.

    `hash_of` takes a text to its place on the ring.
    """

    name = "CONSISTENT_HASH"

    def __init__(
        self, virtual_nodes: int = 10, hash_of: Callable[[str], int] | None = None
    ) -> None:
        if virtual_nodes < 0:
            raise ValueError(f"illegal number of virtual nodes: {virtual_nodes}")
        self.virtual_nodes = virtual_nodes
        self._hash_of = hash_of or _md5_hash

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member."""
        ring: dict[int, str] = {}
        for member in client_ids:
            for number in range(self.virtual_nodes):
                ring[self._hash_of(f"{member}-{number}")] = member
        if not ring:
            return []
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            at = bisect.bisect_left(places, self._hash_of(_queue_text(queue)))
            return ring[places[at % len(places)]]

        return [queue for queue in queues if owner(queue) == client_id]


def _queue_text(queue: MessageQueue) -> str:
    """Return a queue as Java prints it, which is what is hashed."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _md5_hash(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class MachineRoom:
    """Only queues of brokers named ``room@name`` whose room was asked for, shared evenly."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self.rooms = frozenset(rooms)

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member."""
        index, members = client_ids.index(client_id), len(client_ids)
        near = [queue for queue in queues if self._is_near(queue)]
        size, rest = divmod(len(near), members)
        share = near[index * size : (index + 1) * size]
        if rest > index:
            share.append(near[index + members * size])
        return share

    def _is_near(self, queue: MessageQueue) -> bool:
        parts = queue.broker_name.split("@")
        return len(parts) == 2 and parts[0] in self.rooms


class MachineRoomNearby:
    """Members share the queues of their own room; rooms without members are shared by all.

    `inner` is the rule within a room; the two functions say in which room a broker and a client
    are.
    """

    def __init__(
        self,
        inner: AllocateStrategy,
        broker_room: Callable[[MessageQueue], str],
        client_room: Callable[[str], str],
    ) -> None:
        self.inner = inner
        self._broker_room = broker_room
        self._client_room = client_room

    @property
    def name(self) -> str:
        """What the rule is called in the tools."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member; `ValueError` when a room is not known."""
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(_known(self._broker_room(queue), queue), []).append(queue)
        members_of: dict[str, list[str]] = {}
        for member in client_ids:
            members_of.setdefault(_known(self._client_room(member), member), []).append(member)
        own_room = self._client_room(client_id)
        share = []
        if own_room in queues_of:
            share += self.inner.share(client_id, queues_of[own_room], members_of[own_room])
        for room in sorted(queues_of.keys() - members_of.keys(), key=_utf16):
            share += self.inner.share(client_id, queues_of[room], client_ids)
        return share


def _known(room: str, whose: object) -> str:
    if not room:
        raise ValueError(f"nobody knows the machine room of {whose}")
    return room


# ---- Which queues of a topic are ours

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Changes:
    """The steps from the queues one has to those one should have."""

    dropped: list[MessageQueue]
    added: list[MessageQueue]


def share_of_topic(
    routes: RouteTable,
    topic: str,
    group: str,
    client_id: str,
    strategy: AllocateStrategy | None,
    *,
    lost: Collection[MessageQueue] = (),
    is_settled: Callable[[str], bool] = lambda _address: True,
    on_members: Callable[[list[str]], None] = lambda _members: None,
) -> Flow[list[MessageQueue] | None]:
    """Return our share of a topic's queues, all of them without a strategy.

    Queues that are `lost`, those of brokers on their way back, are shared out with the others.
    `is_settled` tells which brokers know all members, `on_members` is called with the members.

    None means that nobody can say now, and that one keeps what one has: the topic has no route, no
    broker knows the group, or the strategy does not know what to do.
    """
    queues = [*routes.subscribe_queues(topic), *lost]
    if not queues:
        return None
    if strategy is None:
        return queues
    members = yield from group_members(routes, topic, group, is_settled)
    if members is None:
        _log.debug("no broker tells who is in group %s: the queues of %s stay", group, topic)
        return None
    on_members(members)
    try:
        return allocate(strategy, client_id, queues, members)
    except Exception as error:
        _log.warning("strategy %s fails, the queues of %s stay: %s", strategy.name, topic, error)
        return None


def changes(
    current: Collection[MessageQueue],
    share: Collection[MessageQueue],
    stale: Collection[MessageQueue],
) -> Changes:
    """Compare; a stale queue, one that nothing was heard of for long, is dropped and added."""
    wanted = set(share)
    dropped = [queue for queue in current if queue not in wanted or queue in stale]
    kept = set(current) - set(dropped)
    return Changes(dropped, sorted(wanted - kept))
