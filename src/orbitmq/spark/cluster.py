"""A reader's view of a cluster: its queues, their offsets and their brokers.

Each reader has a `SourceCluster` of its own, with its consumer group, its number of retries and the
allowed age of a route. Objects that are slow to create (`_Links`: connections, cached answers)
exist once per process and `ConnectionOptions`; all views in the process share them.

Spark forks its workers. After a fork, new connections are made (`BlockingNetwork` does so for its
own). A connection that either side has closed is replaced, too. `nameserver_cache` sends the
requests to nameservers. The features of a broker are cached for a minute only, because another
broker may have taken over the address.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import InitVar, dataclass, field
from typing import TypeVar

from orbitmq._native import Command, decode_messages
from orbitmq.client.consumer.pull_flow import decode_whole
from orbitmq.errors import BrokerBusy, BrokerRefused, NoRoute, OrbitError
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import NOT_NOW, PULL_ANSWERS, RequestCode, ResponseCode
from orbitmq.protocol.features import FEATURES_KEY, features_of
from orbitmq.protocol.flags import PullFlag
from orbitmq.protocol.members import LONG, Members
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.remoting.pipeline import Pipeline
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.route_table import MASTER_ID, TopicRoute
from orbitmq.spark.nameserver_cache import Directory
from orbitmq.spark.offsets import OffsetBounds
from orbitmq.spark.options import ConnectionOptions

__all__ = ["Endpoint", "Reach", "SourceCluster", "shared_cluster"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

STEP_BACK = 32
ROUTE_TTL_MS = 1000
FEATURES_TTL_S = 60.0
NO_FEATURES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a broker, and its features beyond RocketMQ."""

    address: str
    features: frozenset[str]


@dataclass(slots=True)
class Reach:
    """Offset bounds of queues, and the reasons why the bounds of other queues are unknown."""

    ends: dict[MessageQueue, OffsetBounds] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    """Brokers that did not answer."""
    unknown: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a topic and a broker that answered that it does not have the topic."""


class _Links:
    """Connections to a cluster, and the cached answers of its servers."""

    def __init__(self, connection: ConnectionOptions, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._network: BlockingNetwork | None = None
        self.features: dict[str, tuple[frozenset[str], float]] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.directory = Directory(connection, self.ask, clock)

    def ask(
        self,
        address: str,
        code: int,
        ext: dict[str, str] | None = None,
        *,
        also: Collection[int] = (),
        body: bytes | None = None,
    ) -> Command:
        """Send one request, without retries; raise for codes other than success and `also`."""
        network, timeout_ms = self._network, self._connection.timeout_ms
        if network is None:
            settings = self._connection.client_settings()
            network = self._network = BlockingNetwork(settings.make_hooks(), settings.make_tls())
        response = network.invoke(address, code, ext=ext, body=body, timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS and response.code not in also:
            refusal = BrokerBusy if response.code in NOT_NOW else BrokerRefused
            raise refusal(response.code, response.remark, address=address)
        return response

    def close_pipelines(self) -> None:
        """Close the connections for reading; answers still under way are dropped."""
        pipelines, self.pipelines = self.pipelines, {}
        for link in pipelines.values():
            link.close()

    def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        self.close_pipelines()
        network, self._network = self._network, None
        if network is not None:
            network.close()


@dataclass(slots=True)
class SourceCluster:
    """Sends requests to nameservers and brokers, with retries."""

    connection: ConnectionOptions
    group: str
    retries: int = 10
    retry_interval_ms: int = 500
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    route_ttl_ms: int = ROUTE_TTL_MS
    links: InitVar[_Links | None] = None
    _links: _Links = field(init=False)

    def __post_init__(self, links: _Links | None) -> None:
        self._links = links or _Links(self.connection, self.clock)

    # ---- Requests

    def ask(
        self,
        address: str,
        code: int,
        ext: dict[str, str] | None = None,
        *,
        also: Collection[int] = (),
        body: bytes | None = None,
    ) -> Command:
        """Send one request, without retries; raise for codes other than success and `also`."""
        return self._links.ask(address, code, ext, also=also, body=body)

    def patiently(self, what: Callable[[], T]) -> T:
        """Call `what`, which sends requests; retry retriable errors: servers may be restarting."""
        for attempt in range(self.retries + 1):
            try:
                return what()
            except OrbitError as error:
                if not error.retriable or attempt == self.retries:
                    raise
                if attempt == 0:
                    # Each silent server costs a timeout per attempt: log which server it is.
                    why = self.connection.hide_secrets(str(error))
                    _log.warning("request failed; retrying up to %d times: %s", self.retries, why)
                self.forget_routes()
                self.pause(self.retry_interval_ms / 1000)
        raise AssertionError("the last attempt returns or raises")

    # ---- Topics

    def topics_like(self, pattern: str) -> list[str]:
        """Return topics whose whole name matches; system topics only if the pattern names them."""
        return self._links.directory.topics_like(pattern, self.route_ttl_ms)

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic, None if the nameservers have no such topic."""
        return self._links.directory.route(topic, self.route_ttl_ms)

    def forget_routes(self) -> None:
        """Drop cached routes: the next lookup asks a nameserver, if one answers."""
        self._links.directory.forget()

    def registered_brokers(self) -> set[str] | None:
        """Return the brokers registered at nameservers; None while no nameserver answers."""
        return self._links.directory.registered_brokers()

    def stored_name(self, topic: str) -> str:
        """Return the name of a topic as brokers store it, with the namespace."""
        return wrap(self.connection.namespace, topic)

    @property
    def stored_group(self) -> str:
        """Name of the group as brokers store it, with the namespace."""
        return wrap(self.connection.namespace, self.group)

    def address(self, topic: str, broker: str) -> str:
        """Return the address for requests about a broker's queues.

        This is the master, because it has the newest messages; without one, the lowest broker id.
        """
        route = self.route(topic)
        ids = {} if route is None else route.brokers.get(broker, {})
        if not ids:
            raise NoRoute(
                f"broker {broker}, which had queues of topic {topic!r}, is not known to any "
                "nameserver: it is down, or the topic was moved away from it",
                topic=topic,
                cause="no_broker",
            )
        return ids.get(MASTER_ID) or ids[min(ids)]

    def endpoint(self, topic: str, broker: str) -> Endpoint:
        """Return the address and the features of a broker."""
        address = self.address(topic, broker)
        features, until = self._links.features.get(address, (NO_FEATURES, 0.0))
        if until <= self.clock():
            response = self.ask(
                address,
                RequestCode.GET_BROKER_RUNTIME_INFO,
                also=(ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR),
            )
            if response.code != ResponseCode.SUCCESS:
                return Endpoint(address, NO_FEATURES)  # not cached: the next request may succeed
            table = Members.read(response.body or b"{}").member("table")
            features = features_of({FEATURES_KEY: table.text(FEATURES_KEY)})
            self._links.features[address] = (features, self.clock() + FEATURES_TTL_S)
        return Endpoint(address, features)

    def forget_features(self, address: str) -> None:
        """Drop the cached features of an address, so that the next lookup requests them."""
        self._links.features.pop(address, None)

    def endpoints(self, queues: Iterable[MessageQueue]) -> dict[str, Endpoint]:
        """Return the endpoints of the brokers of some queues, by broker name."""
        brokers = {queue.broker_name: queue.topic for queue in queues}
        return {broker: self.endpoint(topic, broker) for broker, topic in brokers.items()}

    # ---- Offsets

    def reachable_ends(self, queues: Iterable[MessageQueue]) -> Reach:
        """Return the offset bounds of queues, with the brokers and topics that have none."""
        reach = Reach()
        for (topic, broker), of_both in _by_topic_and_broker(queues).items():
            if broker in reach.unreachable:
                continue
            try:
                reach.ends |= self._ends(topic, broker, of_both)
            except OrbitError as error:
                if isinstance(error, BrokerRefused) and error.code == ResponseCode.TOPIC_NOT_EXIST:
                    reach.unknown.add((topic, broker))
                elif error.retriable:
                    reach.unreachable.add(broker)
                else:
                    raise
                self.forget_routes()
        reach.ends = {q: e for q, e in reach.ends.items() if q.broker_name not in reach.unreachable}
        return reach

    def ends(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, OffsetBounds]:
        """Return the offset bounds of queues, with one request per topic and broker."""
        found: dict[MessageQueue, OffsetBounds] = {}
        for (topic, broker), of_both in _by_topic_and_broker(queues).items():
            found |= self._ends(topic, broker, of_both)
        return found

    def _ends(
        self, topic: str, broker: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, OffsetBounds]:
        address = self.address(topic, broker)
        answered = self._topic_ends(address, topic)
        return {
            # Java lists the queues that can be written; more queues may be readable.
            queue: answered.get((broker, queue.queue_id))
            or OffsetBounds(
                self._offset(address, RequestCode.GET_MIN_OFFSET, queue),
                self._offset(address, RequestCode.GET_MAX_OFFSET, queue),
            )
            for queue in queues
        }

    def _topic_ends(self, address: str, topic: str) -> dict[tuple[str, int], OffsetBounds]:
        response = self.ask(
            address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": self.stored_name(topic)}
        )
        table = Members.read(response.body).table("offsetTable")
        ends = {}
        for key, value in table.items():
            queue, members = MessageQueue.from_json(key), Members(value, "offsetTable")
            least = members.number("minOffset", within=LONG)
            most = members.number("maxOffset", within=LONG)
            ends[queue.broker_name, queue.queue_id] = OffsetBounds(max(least, 0), max(most, 0))
        return ends

    def _offset(
        self, address: str, code: int, queue: MessageQueue, more: dict[str, str] | None = None
    ) -> int:
        ext = {"topic": self.stored_name(queue.topic), "queueId": str(queue.queue_id)}
        response = self.ask(address, code, ext | (more or {}))
        return max(int(response.get_ext("offset") or 0), 0)

    def first_since(self, queue: MessageQueue, time_ms: int, ends: OffsetBounds) -> int | None:
        """Return the offset of the first message stored at `time_ms` or later.

        Returns None if no message is that late. A broker returns the message nearest to the time.
        That message may be a little too early or, among several of one millisecond, not the first.
        So this method also checks the neighbours of that message.
        """
        if ends.max_offset <= ends.min_offset:
            return None
        address = self.address(queue.topic, queue.broker_name)
        near = self._offset(
            address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, {"timestamp": str(time_ms)}
        )
        at = min(max(near, ends.min_offset), ends.max_offset - 1)
        while at > ends.min_offset:
            before = max(at - STEP_BACK, ends.min_offset)
            if self._stored_ms(queue, before) < time_ms:
                break
            at = before
        at = max(at - STEP_BACK, ends.min_offset)
        while at < ends.max_offset:
            times, at = self._stored_times(queue, at)
            for offset, stored_ms in times:
                if stored_ms >= time_ms:
                    # Messages that came after the request for `ends` do not count.
                    return min(offset, ends.max_offset)
        return None

    def _stored_ms(self, queue: MessageQueue, offset: int) -> int:
        """Return the store time of a message, 0 if the message has expired meanwhile."""
        times, _ = self._stored_times(queue, offset, 1)
        return times[0][1] if times else 0

    def _stored_times(
        self, queue: MessageQueue, offset: int, count: int = STEP_BACK
    ) -> tuple[list[tuple[int, int]], int]:
        """Return offsets and store times of a few messages, and the offset after them.

        If the messages expire during this request, the broker returns the offset of the next ones.
        """
        response = self._pull(queue, offset, count)
        messages = decode_whole(response.body, lambda data: decode_messages(data, queue), queue)
        times = [(each.queue_offset, each.store_timestamp) for each in messages]
        go_on = times[-1][0] + 1 if times else int(response.get_ext("nextBeginOffset") or 0)
        if go_on <= offset:
            text = f"nothing at offset {offset} of {queue}, nor after it"
            raise BrokerBusy(response.code, text, address=queue.broker_name)
        return times, go_on

    def sample(self, queue: MessageQueue, offset: int, count: int = STEP_BACK) -> bytes:
        """Return the records of a few messages from an offset on, at most those of one pull."""
        return self._pull(queue, offset, count).body

    def _pull(self, queue: MessageQueue, offset: int, count: int) -> Command:
        address = self.address(queue.topic, queue.broker_name)
        ext = self.pull_fields(queue, offset, count)
        return self.ask(address, RequestCode.PULL_MESSAGE, ext, also=PULL_ANSWERS)

    def pull_fields(self, queue: MessageQueue, offset: int, count: int) -> dict[str, str]:
        """Return the fields of a pull without filter that neither waits nor commits."""
        return {
            "consumerGroup": self.stored_group,
            "topic": self.stored_name(queue.topic),
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(count),
            "sysFlag": str(PullFlag.SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
            "bname": queue.broker_name,
        }

    # ---- Connections

    def pipeline(self, address: str, timeout_ms: float) -> Pipeline:
        """Return this process's connection for reading from a broker.

        An idle connection may be closed by now, for example by a broker that has restarted. Such a
        connection is replaced.
        """
        pipelines = self._links.pipelines
        link = pipelines.get(address)
        if link is not None and link.is_closed():
            link.close()
            link = None
        if link is None or not link.is_of_this_process:
            link = pipelines[address] = self.new_pipeline(address)
        link.timeout_ms = timeout_ms
        return link

    def new_pipeline(self, address: str) -> Pipeline:
        """Return a new connection that only the caller uses."""
        settings = self.connection.client_settings()
        return Pipeline(
            address,
            hooks=settings.make_hooks(),
            tls=settings.make_tls(),
            timeout_ms=self.connection.timeout_ms,
        )

    def close_pipelines(self) -> None:
        """Close the connections for reading; answers still under way are dropped."""
        self._links.close_pipelines()

    def close(self) -> None:
        """Close all connections; later requests of any view that shares them open new ones."""
        self._links.close()


_links: dict[ConnectionOptions, _Links] = {}


def shared_cluster(
    connection: ConnectionOptions,
    group: str,
    retries: int,
    retry_interval_ms: int,
    route_ttl_ms: int,
) -> SourceCluster:
    """Return a view of a cluster that uses this process's connections.

    Consecutive tasks and readers with different options share these connections.
    """
    links = _links.get(connection)
    if links is None:
        links = _links[connection] = _Links(connection, time.monotonic)
    return SourceCluster(
        connection,
        group,
        retries,
        retry_interval_ms,
        route_ttl_ms=route_ttl_ms,
        links=links,
    )


def _by_topic_and_broker(
    queues: Iterable[MessageQueue],
) -> dict[tuple[str, str], list[MessageQueue]]:
    found: dict[tuple[str, str], list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault((queue.topic, queue.broker_name), []).append(queue)
    return found
