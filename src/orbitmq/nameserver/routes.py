"""Routes: live brokers and their queues, in five tables; no I/O, time is an argument.

==================  ==============================================================================
`_queues`           topic → broker name → `QueueData`
`_brokers`          broker name → `BrokerData`: its cluster, its addresses by id (0 is the master)
`_clusters`         cluster → broker names
`_live`             broker *address* → `LiveBroker`: time and connection of its last registration
`_filter_servers`   broker address → filter servers
==================  ==============================================================================

A registration is also the heartbeat. Only a master's registration carries queues. They replace the
stored ones only if the data version differs from the one stored for that address, or if the broker
is new under that id; topics that it no longer lists stay. So a change made here (write permission,
deletion) lasts until the broker itself changes something.

A broker is removed by its own request, with its connection, or after a time without registrations.
Its queues are removed with the last id under its name: a route may list a broker that has slaves
only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from orbitmq.protocol.bodies import DataVersion, TopicConfig
from orbitmq.protocol.flags import Permission

__all__ = ["BrokerData", "LiveBroker", "Registration", "Route", "Routes", "TopicQueues"]

_log = logging.getLogger(__name__)

MASTER_ID = 0
EXPIRY_MS = 120_000


@dataclass(slots=True)
class TopicQueues:
    """One broker's queues of a topic."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int

    @classmethod
    def of(cls, broker_name: str, topic: TopicConfig) -> TopicQueues:
        """Build it from a topic of a broker's registration."""
        return cls(
            broker_name,
            topic.read_queue_nums,
            topic.write_queue_nums,
            topic.perm,
            topic.topic_sys_flag,
        )


@dataclass(slots=True)
class BrokerData:
    """A broker name and its addresses by id."""

    cluster: str
    broker_name: str
    addresses: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class LiveBroker:
    """A broker's last registration: time, data version, connection."""

    last_update_ms: int
    version: DataVersion
    connection: object
    ha_address: str
    any_host: bool


@dataclass(slots=True, kw_only=True)
class Registration:
    """The fields of a registration."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    version: DataVersion = field(default_factory=DataVersion)
    topics: Sequence[TopicConfig] = ()
    filter_servers: Sequence[str] | None = None
    """None is what brokers say that know nothing of filter servers; they keep what is there."""
    any_host: bool = False
    """Whether it is reached on any address of this machine; see `addresses`."""


@dataclass(slots=True)
class Route:
    """The route of a topic: its queues and their brokers."""

    queues: list[TopicQueues]
    brokers: list[BrokerData]
    filter_servers: dict[str, list[str]]


class Routes:
    """The tables, and every rule that changes them."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, TopicQueues]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._filter_servers: dict[str, list[str]] = {}

    # ---- brokers come

    def register(
        self, broker: Registration, connection: object, now_ms: int
    ) -> tuple[str, str] | None:
        """Apply a registration. Returns the addresses of a slave's master: service and replication.

        Returns None for a master, and for a slave without a registered master.
        """
        self._clusters.setdefault(broker.cluster, {})[broker.broker_name] = None
        data = self._brokers.get(broker.broker_name)
        if data is None:
            data = BrokerData(broker.cluster, broker.broker_name)
            self._brokers[broker.broker_name] = data
        # The same address under a new id, as after a promotion, loses its old id.
        for other_id in [i for i, address in data.addresses.items() if address == broker.address]:
            if other_id != broker.broker_id:
                del data.addresses[other_id]
        first = broker.broker_id not in data.addresses
        data.addresses[broker.broker_id] = broker.address
        if broker.broker_id == MASTER_ID and (
            first or self.version_of(broker.address) != broker.version
        ):
            for topic in broker.topics:
                self._take_queues(topic.topic_name, TopicQueues.of(broker.broker_name, topic))
        if broker.address not in self._live:
            _log.info("new broker registered, %s HAServer: %s", broker.address, broker.ha_address)
        self._live[broker.address] = LiveBroker(
            now_ms, broker.version, connection, broker.ha_address, broker.any_host
        )
        if broker.filter_servers:
            self._filter_servers[broker.address] = list(broker.filter_servers)
        elif broker.filter_servers is not None:
            self._filter_servers.pop(broker.address, None)
        if broker.broker_id != MASTER_ID:
            master = data.addresses.get(MASTER_ID)
            if master is not None and master in self._live:
                return master, self._live[master].ha_address
        return None

    def _take_queues(self, topic: str, queues: TopicQueues) -> None:
        of_topic = self._queues.setdefault(topic, {})
        if of_topic.get(queues.broker_name) != queues:
            _log.info("topic %s is now served as %s", topic, queues)
            of_topic[queues.broker_name] = queues

    def version_of(self, address: str) -> DataVersion | None:
        """Return the data version of a broker's last registration."""
        live = self._live.get(address)
        return None if live is None else live.version

    def touch(self, address: str, now_ms: int) -> None:
        """Record that a broker is alive."""
        if address in self._live:
            self._live[address].last_update_ms = now_ms

    # ---- brokers go

    def unregister(self, cluster: str, broker_name: str, broker_id: int, address: str) -> None:
        """Remove the broker of an id; its address is not compared."""
        self._live.pop(address, None)
        self._filter_servers.pop(address, None)
        data = self._brokers.get(broker_name)
        if data is None:
            return
        data.addresses.pop(broker_id, None)
        if not data.addresses:
            self._forget_name(broker_name, cluster)

    def connection_closed(self, connection: object) -> list[str]:
        """Remove the brokers that registered last on a connection. Returns their addresses."""
        gone = [address for address, live in self._live.items() if live.connection is connection]
        for address in gone:
            _log.info("the broker's channel destroyed, %s, clean its data at once", address)
            self._forget_address(address)
        return gone

    def expire(self, now_ms: int) -> list[LiveBroker]:
        """Remove brokers whose last registration is too old, and return them."""
        silent = {
            address: live
            for address, live in self._live.items()
            if live.last_update_ms + EXPIRY_MS < now_ms
        }
        for address in silent:
            _log.warning("the broker %s was silent for %d ms, expired", address, EXPIRY_MS)
            self._forget_address(address)
        return list(silent.values())

    def _forget_address(self, address: str) -> None:
        self._live.pop(address, None)
        self._filter_servers.pop(address, None)
        for data in self._brokers.values():
            for broker_id, known in data.addresses.items():
                if known == address:
                    del data.addresses[broker_id]
                    if not data.addresses:
                        self._forget_name(data.broker_name, None)
                    return

    def _forget_name(self, broker_name: str, cluster: str | None) -> None:
        del self._brokers[broker_name]
        if cluster is None:
            cluster = next((c for c, names in self._clusters.items() if broker_name in names), "")
        names = self._clusters.get(cluster, {})
        names.pop(broker_name, None)
        if not names:
            self._clusters.pop(cluster, None)
        self._forget_queues(list(self._queues), [broker_name])

    def _forget_queues(self, topics: Iterable[str], broker_names: Iterable[str]) -> None:
        names = list(broker_names)
        for topic in topics:
            of_topic = self._queues.get(topic)
            if of_topic is None:
                continue
            for name in names:
                of_topic.pop(name, None)
            if not of_topic:
                del self._queues[topic]

    # ---- what operators change

    def wipe_write_permission(self, broker_name: str) -> int:
        """Remove the write permission of a broker's topics. Returns the number of its topics."""
        return self._set_permission(broker_name, lambda perm: perm & ~Permission.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Give a broker's topics read and write permission. Returns the number of its topics."""
        return self._set_permission(broker_name, lambda _: Permission.READ | Permission.WRITE)

    def _set_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        of_broker = [q[broker_name] for q in self._queues.values() if broker_name in q]
        for queues in of_broker:
            queues.perm = change(queues.perm)
        return len(of_broker)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, or its queues on the brokers of one cluster."""
        if cluster is None:
            self._queues.pop(topic, None)
        else:
            self._forget_queues([topic], self._clusters.get(cluster, ()))

    # ---- questions

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic; None if no broker serves it."""
        of_topic = self._queues.get(topic)
        if of_topic is None:
            return None
        brokers = [self._brokers[name] for name in of_topic if name in self._brokers]
        if not brokers:
            return None
        filter_servers = {
            address: self._filter_servers[address]
            for data in brokers
            for address in data.addresses.values()
            if address in self._filter_servers
        }
        return Route(list(of_topic.values()), brokers, filter_servers)

    def brokers(self) -> list[BrokerData]:
        """List the brokers."""
        return list(self._brokers.values())

    def clusters(self) -> dict[str, list[str]]:
        """Return the broker names of each cluster."""
        return {cluster: list(names) for cluster, names in self._clusters.items()}

    def topics(self) -> list[str]:
        """List the topics."""
        return list(self._queues)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """List the topics of all brokers of a cluster."""
        names = self._clusters.get(cluster, {})
        return [
            topic for topic, queues in self._queues.items() if not names.keys().isdisjoint(queues)
        ]

    def topics_with_flag(self, wanted: Callable[[int], bool]) -> list[str]:
        """List the topics for which one of their brokers has the system flag."""
        return [
            topic
            for topic, queues in self._queues.items()
            if wanted(next(iter(queues.values())).topic_sys_flag)
        ]

    def is_any_host(self, address: str) -> bool:
        """Return True if the broker of an address listens on every address of this machine."""
        live = self._live.get(address)
        return live is not None and live.any_host
