"""Topics: create, change, delete and find them, and read the ends of their queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from orbitmq.admin.clusters import chosen_masters
from orbitmq.admin.differences import differences, refuse_existing
from orbitmq.admin.requests import ask, ask_nameserver, read
from orbitmq.errors import BrokerRefused, ConfigError, NoRoute, RemotingError, ShrinkRefused
from orbitmq.protocol.bodies import MessageQueue, TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.limits import MAX_QUEUES
from orbitmq.rpc.flow import Flow, Pause
from orbitmq.rpc.route_table import QueueData, TopicRoute

__all__ = [
    "QueueEnds",
    "address_of",
    "brokers_of",
    "changed_topic",
    "create_topic",
    "delete_topic",
    "find_route",
    "put_topic",
    "topic_configs",
    "topic_ends",
    "topic_names",
    "topic_route",
    "update_topic",
]

DEFAULT_TOPIC = "TBW102"
ROUTE_PAUSE_MS = 50
ROUTE_TRIES = 100


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Offsets of a queue's oldest message and of the next one, and the time of its last change."""

    min_offset: int
    max_offset: int
    last_update_ms: int

    @property
    def count(self) -> int:
        """Number of messages in the queue."""
        return self.max_offset - self.min_offset


def find_route(nameservers: Sequence[str], topic: str) -> Flow[TopicRoute | None]:
    """Return the route of a topic, or None if no nameserver has one."""
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
    """Return the address for requests about a broker's queues, if possible the master's."""
    ids = route.brokers.get(broker)
    if not ids:
        text = f"no address of broker {broker} is known, which has queues of {route.topic}"
        raise NoRoute(text, topic=route.topic, cause="no_broker")
    return ids[min(ids)]


def topic_route(nameservers: Sequence[str], topic: str) -> Flow[TopicRoute]:
    """Return the route of a topic; raise `NoRoute` if no broker has it."""
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
    """Return the configuration of a topic from each broker that has it."""
    route = yield from topic_route(nameservers, topic)
    places = {broker: address_of(route, broker) for broker in brokers_of(route)}
    return (yield from _configs_at(places, topic))


def put_topic(
    nameservers: Sequence[str],
    config: TopicConfig,
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
    shrink: bool = False,
) -> Flow[None]:
    """Create or change a topic on the chosen masters; wait until every nameserver has it.

    Without `shrink`, fewer read queues than before raise `ShrinkRefused`.
    """
    _check_limit(config)
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    if not shrink:
        before = yield from _configs_at(masters, config.topic_name)
        yield from _check_cut_off(masters, before, dict.fromkeys(before, config))
    yield from _put(nameservers, masters, dict.fromkeys(masters, config))


def create_topic(
    nameservers: Sequence[str],
    config: TopicConfig,
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
    if_not_exists: bool = False,
) -> Flow[dict[str, TopicConfig]]:
    """Create a topic on the chosen masters that lack it; wait until every nameserver has it.

    A broker that already has the topic keeps it unchanged. If that topic differs from `config`,
    `AlreadyExists` is raised, unless `if_not_exists`. Return the configuration of the topic on each
    broker that had it.
    """
    _check_limit(config)
    _check_readable(config)
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    before = yield from _configs_at(masters, config.topic_name)
    if not if_not_exists:
        refuse_existing(
            f"topic {config.topic_name}",
            {name: differences(known, config, _SHOWN) for name, known in before.items()},
        )
    new = {name: address for name, address in masters.items() if name not in before}
    yield from _put(nameservers, new, dict.fromkeys(new, config))
    return before


def update_topic(
    nameservers: Sequence[str],
    topic: str,
    change: Callable[[TopicConfig], TopicConfig],
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
    shrink: bool = False,
) -> Flow[dict[str, TopicConfig]]:
    """Change a topic on the chosen masters that have it; return the new configurations.

    Without `shrink`, nothing is changed on any broker if a read queue would be cut off.
    """
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    before = yield from _configs_at(masters, topic)
    if not before:
        places = ", ".join(masters)
        raise NoRoute(
            f"topic {topic} is not on {places}: create it there, or check its name",
            topic=topic,
            cause="no_topic",
        )
    after = {name: change(known) for name, known in before.items()}
    for name, config in after.items():
        _check_limit(config)
        if config.write_queue_nums != before[name].write_queue_nums or (
            config.read_queue_nums != before[name].read_queue_nums
        ):
            _check_readable(config)
    if not shrink:
        yield from _check_cut_off(masters, before, after)
    yield from _put(nameservers, {name: masters[name] for name in after}, after)
    return after


def changed_topic(
    config: TopicConfig,
    queues: int | None,
    write_queues: int | None,
    read_queues: int | None,
    perm: int | None,
    order: bool | None,
) -> TopicConfig:
    """Return a configuration with the given changes; `queues` sets read and write queues."""

    def first(*values: int | None) -> int:
        return next(value for value in values if value is not None)

    return replace(
        config,
        write_queue_nums=first(write_queues, queues, config.write_queue_nums),
        read_queue_nums=first(read_queues, queues, config.read_queue_nums),
        perm=first(perm, config.perm),
        order=config.order if order is None else order,
    )


_SHOWN: Final = {
    "write_queue_nums": "queues to write",
    "read_queue_nums": "queues to read",
    "perm": "perm",
    "order": "order",
    "topic_sys_flag": "flags",
}
"""Fields of a topic that are compared, and their names in errors."""


def _check_limit(config: TopicConfig) -> None:
    most = max(config.read_queue_nums, config.write_queue_nums)
    if most > MAX_QUEUES:
        raise ConfigError(
            f"topic {config.topic_name} cannot have {most} queues per broker, the limit "
            f"is {MAX_QUEUES}"
        )


def _check_readable(config: TopicConfig) -> None:
    """Raise `ConfigError` for queues that can be written and never read."""
    more = config.write_queue_nums - config.read_queue_nums
    if more > 0:
        raise ConfigError(
            f"topic {config.topic_name} would have {config.write_queue_nums} queues to write and "
            f"{config.read_queue_nums} to read: no consumer would get the messages of the other "
            f"{more}"
        )


def _configs_at(masters: Mapping[str, str], topic: str) -> Flow[dict[str, TopicConfig]]:
    """Return the configuration of a topic on each of these brokers that has it."""
    configs = {}
    for broker, address in masters.items():
        response = yield from ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        table: Mapping[str, Any] = read(response).get("topicConfigTable") or {}
        if topic in table:
            configs[broker] = TopicConfig.from_json(table[topic], topic)
    return configs


def _check_cut_off(
    masters: Mapping[str, str],
    before: Mapping[str, TopicConfig],
    after: Mapping[str, TopicConfig],
) -> Flow[None]:
    """Raise `ShrinkRefused`, which counts the messages, if a broker would lose read queues."""
    counts: dict[MessageQueue, int] = {}
    topic = ""
    for broker, config in after.items():
        topic, first, end = (
            config.topic_name,
            config.read_queue_nums,
            before[broker].read_queue_nums,
        )
        if first >= end:
            continue
        ends = yield from _ends_at(masters[broker], topic)
        for queue_id in range(first, end):
            queue = MessageQueue(topic, broker, queue_id)
            counts[queue] = ends[queue].count if queue in ends else 0
    if counts:
        raise ShrinkRefused(topic, counts)


def _put(
    nameservers: Sequence[str], masters: Mapping[str, str], configs: Mapping[str, TopicConfig]
) -> Flow[None]:
    """Send each broker its configuration, and wait until every nameserver has the topic."""
    for broker, config in configs.items():
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
        yield from ask(masters[broker], RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
    if configs:
        for nameserver in nameservers:
            yield from _await_route(nameserver, configs)


def _await_route(nameserver: str, configs: Mapping[str, TopicConfig]) -> Flow[None]:
    """Wait until a nameserver returns the topic's new route; skip an unreachable nameserver."""
    topic = next(iter(configs.values())).topic_name
    for _ in range(ROUTE_TRIES):
        try:
            route = yield from find_route([nameserver], topic)
        except (NoRoute, RemotingError):
            return
        known = {} if route is None else {one.broker_name: one for one in route.queues}
        if all(name in known and _same(known[name], config) for name, config in configs.items()):
            return
        yield Pause(ROUTE_PAUSE_MS)
    raise NoRoute(
        f"the brokers took topic {topic}, but nameserver {nameserver} does not know "
        "it yet: check that they are registered with it",
        topic=topic,
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
    """Delete a topic and its queues from every master, and its route from every nameserver."""
    masters = yield from chosen_masters(nameservers, cluster=cluster)
    for address in masters.values():
        yield from ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    ext = {"topic": topic} if cluster is None else {"topic": topic, "clusterName": cluster}
    for nameserver in nameservers:
        yield from ask(nameserver, RequestCode.DELETE_TOPIC_IN_NAMESRV, ext)


def topic_ends(nameservers: Sequence[str], topic: str) -> Flow[dict[MessageQueue, QueueEnds]]:
    """Return the ends of each queue of a topic."""
    route = yield from topic_route(nameservers, topic)
    ends: dict[MessageQueue, QueueEnds] = {}
    for broker in brokers_of(route):
        try:
            ends |= yield from _ends_at(address_of(route, broker), topic)
        except BrokerRefused as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            continue  # the route is older than the broker's table
    return dict(sorted(ends.items()))


def _ends_at(address: str, topic: str) -> Flow[dict[MessageQueue, QueueEnds]]:
    """Return the ends of a broker's queues of a topic."""
    response = yield from ask(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
    return {
        MessageQueue.from_json(key): QueueEnds(
            int(value["minOffset"]), int(value["maxOffset"]), int(value["lastUpdateTimestamp"])
        )
        for key, value in (read(response).get("offsetTable") or {}).items()
    }
