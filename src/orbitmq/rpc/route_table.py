"""Routes: the brokers and queues of each topic, as nameservers return them.

A `TopicRoute` is immutable and is replaced as a whole. So any thread may read the table while
another thread applies a nameserver's response.

Messages to a topic that does not exist yet use a *borrowed* route: the route of the template topic
from which brokers create new topics. The real route replaces the borrowed one as soon as a
nameserver returns it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from orbitmq.errors import BodyFault, NoRoute, WireError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.limits import MAX_QUEUES, MAX_ROUTE_QUEUES
from orbitmq.protocol.members import INT, Members, as_number

__all__ = ["MASTER_ID", "Nameservers", "QueueData", "RouteTable", "TopicRoute"]

MASTER_ID = 0
LOST_BROKER_S = 60.0
"""Seconds for which a topic's queues on a broker are remembered after the broker left the route."""
_COUNT = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True, order=True)
class QueueData:
    """Number of a topic's queues on one broker, and the permission to read and write them."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Queues of a topic and the brokers that have them."""

    topic: str
    queues: tuple[QueueData, ...]
    brokers: Mapping[str, Mapping[int, str]] = field(hash=False)
    """Broker name → broker id → address; the master has id 0."""
    order_conf: str | None = None
    is_borrowed: bool = False
    clusters: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Broker name → name of the broker's cluster."""
    publish_queues: tuple[MessageQueue, ...] = field(default=(), compare=False)
    """Queues to send to: the topic may be written there, and the broker has a master.

    An order configuration replaces this list by its own queues.
    """
    subscribe_queues: tuple[MessageQueue, ...] = field(default=(), compare=False)
    """Queues to read from: the topic may be read there."""

    @classmethod
    def decode(cls, topic: str, body: bytes) -> TopicRoute:
        """Decode a nameserver's response; raises `NoRoute` for an invalid one.

        Most nameservers accept registrations from anyone, so every value is validated. A route with
        more queues than the limit is rejected, because the client builds an object per queue.
        """
        try:
            value = Members.read(body)
            queues = tuple(sorted(_queue_data(data) for data in value.objects("queueDatas")))
            broker_datas = value.objects("brokerDatas")
            brokers = {data.text("brokerName"): _addresses(data) for data in broker_datas}
            clusters = {data.text("brokerName"): data.text("cluster") for data in broker_datas}
            order_conf = value.text("orderTopicConf") or None
            _check_count(queues, order_conf)
        except WireError as error:
            raise NoRoute(
                f"the route of topic {topic!r} that a nameserver gave is refused: {error}. Check "
                "which brokers are registered there (mqadmin topicRoute, mqadmin clusterList).",
                topic=topic,
                cause="refused",
            ) from error
        return cls.of(topic, queues, brokers, order_conf, False, clusters)

    @classmethod
    def of(
        cls,
        topic: str,
        queues: tuple[QueueData, ...],
        brokers: Mapping[str, Mapping[int, str]],
        order_conf: str | None = None,
        is_borrowed: bool = False,
        clusters: Mapping[str, str] | None = None,
    ) -> TopicRoute:
        """Return a route; the lists of queues are computed from the other values."""
        if order_conf:
            publish = tuple(
                MessageQueue(topic, name, queue_id)
                for name, count in _ordered_queues(order_conf)
                for queue_id in range(count)
            )
        else:
            publish = tuple(
                MessageQueue(topic, data.broker_name, queue_id)
                for data in queues
                if data.perm & Permission.WRITE and MASTER_ID in brokers.get(data.broker_name, {})
                for queue_id in range(data.write_queue_nums)
            )
        subscribe = tuple(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in queues
            if data.perm & Permission.READ
            for queue_id in range(data.read_queue_nums)
        )
        frozen = {name: MappingProxyType(dict(ids)) for name, ids in brokers.items()}
        return cls(
            topic,
            queues,
            MappingProxyType(frozen),
            order_conf,
            is_borrowed,
            MappingProxyType(dict(clusters or {})),
            publish,
            subscribe,
        )

    @property
    def is_ordered(self) -> bool:
        """True if the nameserver has an order configuration, which fixes the topic's queues."""
        return self.order_conf is not None

    def borrowed_by(self, topic: str, max_queues: int) -> TopicRoute:
        """Return the borrowed route of a topic that brokers will create from this route's topic."""
        queues = tuple(
            QueueData(
                data.broker_name,
                min(max_queues, data.read_queue_nums),
                min(max_queues, data.read_queue_nums),
                data.perm,
            )
            for data in self.queues
        )
        return TopicRoute.of(topic, queues, self.brokers, None, True, self.clusters)


def _queue_data(members: Members) -> QueueData:
    return QueueData(
        broker_name=members.text("brokerName"),
        read_queue_nums=members.number("readQueueNums", 0, within=(INT[0], MAX_QUEUES)),
        write_queue_nums=members.number("writeQueueNums", 0, within=(INT[0], MAX_QUEUES)),
        perm=members.number("perm", 0),
    )


def _addresses(members: Members) -> dict[int, str]:
    addresses = members.member("brokerAddrs")
    return {as_number(key, addresses.place): addresses.text(key) for key in addresses.values}


def _ordered_queues(order_conf: str) -> list[tuple[str, int]]:
    """Parse ``broker-a:8;broker-b:8``; parts without a count are left out."""
    parts = [part.partition(":") for part in order_conf.split(";")]
    return [(name, int(count)) for name, _, count in parts if _COUNT.fullmatch(count.strip())]


def _check_count(queues: Iterable[QueueData], order_conf: str | None) -> None:
    counts = [max(data.read_queue_nums, data.write_queue_nums, 0) for data in queues]
    ordered = [count for _, count in _ordered_queues(order_conf or "")]
    total = max(sum(counts), sum(ordered))
    if total > MAX_ROUTE_QUEUES:
        raise BodyFault(f"it has {total} queues, the limit is {MAX_ROUTE_QUEUES}")


class Nameservers:
    """Addresses of the nameservers, in the order in which requests try them.

    The nameserver that answered last comes first.
    """

    def __init__(self, addresses: tuple[str, ...], first: int | None = None) -> None:
        self.replace(addresses, first)

    def replace(self, addresses: tuple[str, ...], first: int | None = None) -> None:
        """Replace all addresses; `first` is the index of the one to try first, random if None."""
        count = max(len(addresses), 1)
        self._current = random.randrange(count) if first is None else first % count
        self.addresses = addresses

    def in_turn(self) -> list[str]:
        """Return the addresses in the order in which a request tries them."""
        addresses, current = self.addresses, self._current
        return [*addresses[current:], *addresses[:current]]

    def answered(self, address: str) -> None:
        """Try this nameserver first from now on, because it has just answered."""
        if address in self.addresses:
            self._current = self.addresses.index(address)


class RouteTable:
    """Table of the routes of all topics that a client uses. Any thread may read it."""

    def __init__(self, nameservers: Nameservers | tuple[str, ...] = ()) -> None:
        if not isinstance(nameservers, Nameservers):
            nameservers = Nameservers(nameservers)
        self.nameservers = nameservers
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        self._lost: dict[str, dict[str, tuple[float, tuple[MessageQueue, ...]]]] = {}
        """Topic → broker name → time at which the broker left the route, and its queues then."""
        self.watched: set[str] = set()
        """Topics whose routes the client refreshes periodically."""
        self.on_new_brokers: Callable[[], None] | None = None
        """Called, on any thread, when a route contains a broker's address that was unknown."""

    def watch(self, topic: str) -> None:
        """Add a topic to those whose routes are refreshed."""
        self.watched.add(topic)

    def unwatch(self, topic: str) -> None:
        """Remove a topic from those whose routes are refreshed."""
        self.watched.discard(topic)

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic, None if the table has no route of the topic."""
        return self._routes.get(topic)

    def apply(self, topic: str, route: TopicRoute | bytes) -> bool:
        """Store a route, or a nameserver's response; returns True if the route has changed."""
        if not isinstance(route, TopicRoute):
            route = TopicRoute.decode(topic, route)
        if self._routes.get(topic) == route:
            return False
        known = self.addresses()
        self._remember_lost(topic, route)
        self._brokers.update(route.brokers)
        self._routes[topic] = route
        if self.on_new_brokers is not None and self.addresses() - known:
            self.on_new_brokers()
        return True

    def _remember_lost(self, topic: str, route: TopicRoute) -> None:
        """Remember the queues of brokers that are in the topic's old route, but not in the new."""
        before = self._routes.get(topic)
        lost = self._lost.setdefault(topic, {})
        for name in [name for name in lost if name in route.brokers]:
            del lost[name]
        if before is None or before.is_borrowed:
            return
        now = time.monotonic()
        for name in before.brokers.keys() - route.brokers.keys():
            lost[name] = now, tuple(q for q in before.subscribe_queues if q.broker_name == name)

    def lost_queues(self, topic: str) -> dict[str, tuple[MessageQueue, ...]]:
        """Return the queues, by broker name, of brokers that left a topic's route recently.

        Recently means at most `LOST_BROKER_S` ago.
        """
        oldest = time.monotonic() - LOST_BROKER_S
        return {
            name: queues
            for name, (lost_at, queues) in self._lost.get(topic, {}).items()
            if lost_at >= oldest and queues
        }

    def forget(self, topic: str) -> None:
        """Remove a topic's route and stop refreshing it."""
        self._routes.pop(topic, None)
        self._lost.pop(topic, None)
        self.watched.discard(topic)

    def drop_unrouted_brokers(self, kept: Collection[str] = ()) -> None:
        """Remove the addresses of brokers that are in no route, except those named in `kept`."""
        routed = {name for route in list(self._routes.values()) for name in route.brokers}
        routed.update(kept)
        for name in [name for name in self._brokers if name not in routed]:
            del self._brokers[name]

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues to which messages of a topic can be sent."""
        route = self._routes.get(topic)
        return () if route is None else route.publish_queues

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues from which messages of a topic can be read; none of a borrowed route.

        A borrowed route has none because its topic does not exist yet.
        """
        route = self._routes.get(topic)
        return () if route is None or route.is_borrowed else route.subscribe_queues

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, None if no master is known."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def address(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False
    ) -> str | None:
        """Return the address of the replica to read from, None if there is no such replica.

        If the replica `broker_id` is unknown, another replica of the broker is returned. With
        `only_this`, the only alternative is the next higher id, and only for slaves.
        """
        ids = self._brokers.get(broker_name, {})
        found = ids.get(broker_id)
        if found is None and broker_id != MASTER_ID:
            found = ids.get(broker_id + 1)
        if found is None and not only_this:
            found = next(iter(ids.values()), None)
        return found

    def brokers_of(self, topic: str) -> list[str]:
        """Return one address of each broker in a topic's route, preferably the master's."""
        route = self._routes.get(topic)
        if route is None:
            return []
        return [
            ids.get(MASTER_ID) or next(iter(ids.values())) for ids in route.brokers.values() if ids
        ]

    def addresses(self, *, masters_only: bool = False) -> set[str]:
        """Return the addresses of all known brokers, or only those of masters."""
        return {
            address
            for ids in list(self._brokers.values())
            for broker_id, address in ids.items()
            if not masters_only or broker_id == MASTER_ID
        }
