"""Topics: made, changed, deleted, found, and how full their queues are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orbitmq.admin.asking import ask, ask_nameserver, read
from orbitmq.admin.clusters import chosen_masters
from orbitmq.client.state.routes import QueueData, TopicRoute
from orbitmq.client.wishes import Flow, Pause
from orbitmq.errors import BrokerRefused, ConfigError, NoRoute, RemotingError
from orbitmq.protocol.bodies import MessageQueue, TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.limits import MAX_QUEUES

__all__ = [
    "QueueEnds",
    "address_of",
    "brokers_of",
    "create_topic",
    "delete_topic",
    "find_route",
    "topic_configs",
    "topic_ends",
    "topic_names",
    "topic_route",
]

DEFAULT_TOPIC = "TBW102"
ROUTE_PAUSE_MS = 50
ROUTE_TRIES = 100


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """The offset of a queue's oldest message, that of the next one to come, and its last change."""

    min_offset: int
    max_offset: int
    last_update_ms: int

    @property
    def count(self) -> int:
        """How many messages there are."""
        return self.max_offset - self.min_offset


def find_route(nameservers: Sequence[str], topic: str) -> Flow[TopicRoute | None]:
    """Return where a topic is, None if the nameservers do not know it."""
    response = yield from ask_nameserver(
        nameservers,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        {"topic": topic},
        also=(ResponseCode.TOPIC_NOT_EXIST,),
    )
    if response.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    return TopicRoute.decode(topic, response.body)


def brokers_of(route: TopicRoute) -> list[str]:
    """Return the names of the brokers that have queues of the topic."""
    return [data.broker_name for data in route.queues]


def address_of(route: TopicRoute, broker: str) -> str:
    """Return an address to ask about a broker's queues, the master's if there is one."""
    ids = route.brokers.get(broker)
    if not ids:
        text = f"no address of broker {broker} is known, which has queues of {route.topic}"
        raise NoRoute(text, topic=route.topic, cause="no_broker")
    return ids[min(ids)]


def topic_route(nameservers: Sequence[str], topic: str) -> Flow[TopicRoute]:
    """Return where a topic is."""
    route = yield from find_route(nameservers, topic)
    if route is None:
        raise NoRoute(
            f"no broker has topic {topic}: create it, or check its name",
            topic=topic,
            cause="no_topic",
        )
    return route


def topic_names(nameservers: Sequence[str], cluster: str | None = None) -> Flow[list[str]]:
    """Return the names of all topics, or of those of one cluster."""
    if cluster is None:
        code, ext = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None
    else:
        code, ext = RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster}
    response = yield from ask_nameserver(nameservers, code, ext)
    return sorted(read(response).get("topicList") or ())


def topic_configs(nameservers: Sequence[str], topic: str) -> Flow[dict[str, TopicConfig]]:
    """Return how a topic is set up on each broker that has it, as the brokers say."""
    route = yield from topic_route(nameservers, topic)
    configs = {}
    for broker in brokers_of(route):
        response = yield from ask(address_of(route, broker), RequestCode.GET_ALL_TOPIC_CONFIG)
        table: Mapping[str, Any] = read(response).get("topicConfigTable") or {}
        if topic in table:
            configs[broker] = TopicConfig.from_json(table[topic], topic)
    return configs


def create_topic(
    nameservers: Sequence[str],
    config: TopicConfig,
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
) -> Flow[None]:
    """Create a topic on the masters chosen, or change it there; every nameserver knows it then."""
    if max(config.read_queue_nums, config.write_queue_nums) > MAX_QUEUES:
        raise ConfigError(
            f"topic {config.topic_name} cannot have "
            f"{max(config.read_queue_nums, config.write_queue_nums)} queues per broker, the limit "
            f"is {MAX_QUEUES}"
        )
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    ext = {
        "topic": config.topic_name,
        "defaultTopic": DEFAULT_TOPIC,
        "readQueueNums": str(config.read_queue_nums),
        "writeQueueNums": str(config.write_queue_nums),
        "perm": str(config.perm),
        "topicFilterType": config.topic_filter_type,
        "topicSysFlag": str(config.topic_sys_flag),
        "order": "true" if config.order else "false",
    }
    for address in masters.values():
        yield from ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    for nameserver in nameservers:
        yield from _await_route(nameserver, config, masters)


def _await_route(nameserver: str, config: TopicConfig, masters: Iterable[str]) -> Flow[None]:
    """Wait until a nameserver tells of the topic as it is now; one that is gone need not."""
    for _ in range(ROUTE_TRIES):
        try:
            route = yield from find_route([nameserver], config.topic_name)
        except (NoRoute, RemotingError):
            return
        known = {} if route is None else {one.broker_name: one for one in route.queues}
        if all(name in known and _same(known[name], config) for name in masters):
            return
        yield Pause(ROUTE_PAUSE_MS)
    raise NoRoute(
        f"the brokers took topic {config.topic_name}, but nameserver {nameserver} does not know "
        "it yet: check that they are registered with it",
        topic=config.topic_name,
        cause="no_topic",
    )


def _same(known: QueueData, wanted: TopicConfig) -> bool:
    return (known.read_queue_nums, known.write_queue_nums, known.perm & Permission.WRITE) == (
        wanted.read_queue_nums,
        wanted.write_queue_nums,
        wanted.perm & Permission.WRITE,
    )


def delete_topic(
    nameservers: Sequence[str], topic: str, *, cluster: str | None = None
) -> Flow[None]:
    """Delete a topic and its messages' queues from every master, and its route."""
    masters = yield from chosen_masters(nameservers, cluster=cluster)
    for address in masters.values():
        yield from ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    ext = {"topic": topic} if cluster is None else {"topic": topic, "clusterName": cluster}
    for nameserver in nameservers:
        yield from ask(nameserver, RequestCode.DELETE_TOPIC_IN_NAMESRV, ext)


def topic_ends(nameservers: Sequence[str], topic: str) -> Flow[dict[MessageQueue, QueueEnds]]:
    """Return the ends of each queue of a topic."""
    route = yield from topic_route(nameservers, topic)
    ends = {}
    for broker in brokers_of(route):
        try:
            response = yield from ask(
                address_of(route, broker), RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}
            )
        except BrokerRefused as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            continue  # the route is older than the broker's table
        for key, value in (read(response).get("offsetTable") or {}).items():
            ends[MessageQueue.from_json(key)] = QueueEnds(
                int(value["minOffset"]), int(value["maxOffset"]), int(value["lastUpdateTimestamp"])
            )
    return dict(sorted(ends.items()))
