"""Assignment of a topic's queues to the members of a group.

Every member computes all shares from the same two sorted lists (queues, client ids) and takes its
own share. So the members need no coordinator. Mixed groups (members in Python, Java, Go) agree as
long as all members use the same strategy. Therefore every strategy here must match Java's exactly,
down to the text that is hashed.
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
    """Strategy that assigns each member of a group its share of the queues."""

    @property
    def name(self) -> str:
        """Name of the strategy in RocketMQ's tools."""

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member; both lists are sorted, `client_ids` has `client_id`."""


def allocate(
    strategy: AllocateStrategy,
    client_id: str,
    queues: Iterable[MessageQueue],
    client_ids: Iterable[str],
) -> list[MessageQueue]:
    """Return a member's share; it is empty while the member is missing from `client_ids`.

    Raises `ValueError` without queues, without members or without a client id. The caller then
    keeps the queues it has.
    """
    ordered, members = sorted(queues), sorted(client_ids, key=_utf16)
    if not client_id or not ordered or not members:
        raise ValueError("no queues, no members or no client id: nothing can be allocated")
    if client_id not in members:
        return []
    return strategy.share(client_id, ordered, members)


def _utf16(text: str) -> bytes:
    """Return a sort key for the order of Java's string comparison."""
    return text.encode("utf-16-be", "surrogatepass")


class Averagely:
    """Assigns neighbouring queues, in shares that differ by at most one; the default strategy."""

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
    """Deals the queues out to the members one by one."""

    name = "AVG_BY_CIRCLE"

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member."""
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class ByConfig:
    """Assigns a fixed list of queues, chosen by the operator."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self.queues = list(queues)

    def share(
        self, _client_id: str, _queues: Queues, _client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the chosen queues; queues that do not exist are included."""
        return list(self.queues)


class ConsistentHash:
    """Assigns each queue to the next member on a hash ring.

    So few queues move when a member joins or leaves. `hash_of` maps a text to its place on the
    ring.
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
    """Return Java's text form of a queue, because Java hashes this text."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )


def _md5_hash(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class MachineRoom:
    """Shares evenly the queues of brokers named ``room@name`` whose room is one of `rooms`.

    All other queues are assigned to no member.
    """

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
    """Shares the queues of each room among its own members; all share rooms without members.

    `inner` is the strategy within a room. `broker_room` and `client_room` return the room of a
    queue's broker and of a client.
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
        """Name of the strategy in RocketMQ's tools."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def share(
        self, client_id: str, queues: Queues, client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member; raises `ValueError` if a room is unknown."""
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


# ---- Share of this member

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Changes:
    """Queues to give up and queues to take up, to get from the current queues to the share."""

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
    """Return this member's share of a topic's queues; without a strategy, all queues.

    `lost` are queues of restarting brokers that no route contains; they are shared, too.
    `is_settled` returns True for a broker whose list of members is complete. `on_members` is called
    with the members.

    Returns None if the share cannot be computed now: the topic has no route, no broker returns the
    members of the group, or the strategy fails. The caller then keeps the queues it has.
    """
    queues = [*routes.subscribe_queues(topic), *lost]
    if not queues:
        return None
    if strategy is None:
        return queues
    members = yield from group_members(routes, topic, group, is_settled)
    if members is None:
        _log.debug(
            "no broker returned the members of group %s; keeping the queues of topic %s",
            group,
            topic,
        )
        return None
    on_members(members)
    try:
        return allocate(strategy, client_id, queues, members)
    except Exception as error:
        _log.warning(
            "allocation strategy %s failed for topic %s; keeping the current queues: %s",
            strategy.name,
            topic,
            error,
        )
        return None


def changes(
    current: Collection[MessageQueue],
    share: Collection[MessageQueue],
    stale: Collection[MessageQueue],
) -> Changes:
    """Return the difference between the current queues and the share.

    A stale queue, one without a pull for a long time, is both dropped and added.
    """
    wanted = set(share)
    dropped = [queue for queue in current if queue not in wanted or queue in stale]
    kept = set(current) - set(dropped)
    return Changes(dropped, sorted(wanted - kept))
