"""Where topics live: what nameservers have told, and what follows from it.

Routes are immutable and replaced whole, so that any thread may read the table while another applies
what a nameserver answered.

A topic that does not exist yet is sent to by a *borrowed* route, the one of the topic that brokers
make new ones from; it is replaced by the real route once there is one.
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
"""Time for which the queues of a broker are remembered that a route does not name any more."""
_COUNT = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True, order=True)
class QueueData:
    """How many queues a broker has of a topic, and what may be done with them."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """A topic's queues and the brokers they are on."""

    topic: str
    queues: tuple[QueueData, ...]
    brokers: Mapping[str, Mapping[int, str]] = field(hash=False)
    """Broker name → broker id → address; the master has id 0."""
    order_conf: str | None = None
    is_borrowed: bool = False
    clusters: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Broker name → the cluster it belongs to."""
    publish_queues: tuple[MessageQueue, ...] = field(default=(), compare=False)
    """The queues that may be written and whose broker has a master."""
    subscribe_queues: tuple[MessageQueue, ...] = field(default=(), compare=False)
    """The queues that may be read."""

    @classmethod
    def decode(cls, topic: str, body: bytes) -> TopicRoute:
        """Read a nameserver's answer; raises `NoRoute` for one that cannot be true.

        Anybody may register brokers with most nameservers, so nothing in the answer is certain. A
        route past the limits would make clients build an object for each of its queues.
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
        """Make a route; the lists of queues follow from the rest."""
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
        """Whether the nameserver has fixed the topic's queues."""
        return self.order_conf is not None

    def borrowed_by(self, topic: str, max_queues: int) -> TopicRoute:
        """Return this route as the one of a topic that is yet to be made from it."""
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
    """Read ``broker-a:8;broker-b:8``; a part without a count is left out."""
    parts = [part.partition(":") for part in order_conf.split(";")]
    return [(name, int(count)) for name, _, count in parts if _COUNT.fullmatch(count.strip())]


def _check_count(queues: Iterable[QueueData], order_conf: str | None) -> None:
    counts = [max(data.read_queue_nums, data.write_queue_nums, 0) for data in queues]
    ordered = [count for _, count in _ordered_queues(order_conf or "")]
    total = max(sum(counts), sum(ordered))
    if total > MAX_ROUTE_QUEUES:
        raise BodyFault(f"it has {total} queues, the limit is {MAX_ROUTE_QUEUES}")


class Nameservers:
    """Which nameserver to ask: the one that answered last, the next one when it does not."""

    def __init__(self, addresses: tuple[str, ...], first: int | None = None) -> None:
        self.replace(addresses, first)

    def replace(self, addresses: tuple[str, ...], first: int | None = None) -> None:
        """Ask these from now on."""
        count = max(len(addresses), 1)
        self._current = random.randrange(count) if first is None else first % count
        self.addresses = addresses

    def in_turn(self) -> list[str]:
        """Return the addresses in the order in which to try them."""
        addresses, current = self.addresses, self._current
        return [*addresses[current:], *addresses[:current]]

    def answered(self, address: str) -> None:
        """Stay with the nameserver that answers."""
        if address in self.addresses:
            self._current = self.addresses.index(address)


class RouteTable:
    """The routes of all topics a client has to do with. May be read by any thread."""

    def __init__(self, nameservers: Nameservers | tuple[str, ...] = ()) -> None:
        if not isinstance(nameservers, Nameservers):
            nameservers = Nameservers(nameservers)
        self.nameservers = nameservers
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        self._lost: dict[str, dict[str, tuple[float, tuple[MessageQueue, ...]]]] = {}
        """By topic and broker, when the route ceased to name the broker, and its queues then."""
        self.watched: set[str] = set()
        """The topics whose routes are refreshed from time to time."""
        self.on_new_brokers: Callable[[], None] | None = None
        """Called, by any thread, when an address has appeared that was not there before."""

    def watch(self, topic: str) -> None:
        """Keep a topic's route fresh."""
        self.watched.add(topic)

    def unwatch(self, topic: str) -> None:
        """Do not refresh a topic's route any more."""
        self.watched.discard(topic)

    def route(self, topic: str) -> TopicRoute | None:
        """Return what is known of a topic."""
        return self._routes.get(topic)

    def apply(self, topic: str, route: TopicRoute | bytes) -> bool:
        """Take over a route, or a nameserver's answer; returns whether anything has changed."""
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
        """Keep the queues of brokers that the new route of a topic does not name any more."""
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
        """Return the queues of brokers that a topic's route named a while ago, by broker."""
        oldest = time.monotonic() - LOST_BROKER_S
        return {
            name: queues
            for name, (lost_at, queues) in self._lost.get(topic, {}).items()
            if lost_at >= oldest and queues
        }

    def forget(self, topic: str) -> None:
        """Drop a topic's route."""
        self._routes.pop(topic, None)
        self._lost.pop(topic, None)
        self.watched.discard(topic)

    def drop_unrouted_brokers(self, kept: Collection[str] = ()) -> None:
        """Forget brokers that no route leads to any more, all but those `kept`."""
        routed = {name for route in list(self._routes.values()) for name in route.brokers}
        routed.update(kept)
        for name in [name for name in self._brokers if name not in routed]:
            del self._brokers[name]

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that a topic's messages can be sent to."""
        route = self._routes.get(topic)
        return () if route is None else route.publish_queues

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that a topic's messages can be read from."""
        route = self._routes.get(topic)
        return () if route is None or route.is_borrowed else route.subscribe_queues

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def address(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False
    ) -> str | None:
        """Return the address to read from: the one with this id, else another of the same name."""
        ids = self._brokers.get(broker_name, {})
        found = ids.get(broker_id)
        if found is None and broker_id != MASTER_ID:
            found = ids.get(broker_id + 1)
        if found is None and not only_this:
            found = next(iter(ids.values()), None)
        return found

    def brokers_of(self, topic: str) -> list[str]:
        """Return one address of each broker that has the topic, the master's if there is one."""
        route = self._routes.get(topic)
        if route is None:
            return []
        return [
            ids.get(MASTER_ID) or next(iter(ids.values())) for ids in route.brokers.values() if ids
        ]

    def addresses(self, *, masters_only: bool = False) -> set[str]:
        """Return the addresses of all known brokers."""
        return {
            address
            for ids in list(self._brokers.values())
            for broker_id, address in ids.items()
            if not masters_only or broker_id == MASTER_ID
        }
