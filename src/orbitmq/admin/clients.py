"""Connected clients: producers and consumers, and the state that consumers report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orbitmq.admin.clusters import chosen_masters, cluster_info
from orbitmq.admin.groups import Member
from orbitmq.admin.requests import Json, ask, read
from orbitmq.admin.topics import address_of, brokers_of, topic_route
from orbitmq.errors import BrokerRefused, NoRoute
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.refusals import access_hint

__all__ = [
    "ConsumedDirectly",
    "QueueState",
    "RunningInfo",
    "all_producers",
    "consume_directly",
    "producer_members",
    "running_info",
]

CLIENT_TIMEOUT_MS = 12_000
"""Timeout of requests that a broker forwards; the broker waits ten seconds for the client."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """State of a queue, reported by the consumer that has it."""

    commit_offset: int
    cached_min_offset: int
    cached_max_offset: int
    cached_count: int
    cached_mib: int
    is_dropped: bool
    is_locked: bool
    last_pull_ms: int
    last_consume_ms: int


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """State that a consumer reports: settings, subscriptions, and its queues."""

    client_id: str
    properties: Mapping[str, str]
    subscriptions: tuple[Subscription, ...]
    queues: Mapping[MessageQueue, QueueState]
    status: Mapping[str, Mapping[str, float]]
    """Rates by topic, under Java's names such as ``consumeOKTPS``."""
    stacks: str | None = None

    @classmethod
    def from_json(cls, client_id: str, value: Json) -> RunningInfo:
        """Read a consumer's answer."""
        return cls(
            client_id,
            {str(key): str(text) for key, text in (value.get("properties") or {}).items()},
            tuple(Subscription.from_json(one) for one in value.get("subscriptionSet") or ()),
            {
                MessageQueue.from_json(key): _state(one)
                for key, one in sorted((value.get("mqTable") or {}).items())
            },
            {
                str(topic): {name: float(number) for name, number in one.items()}
                for topic, one in (value.get("statusTable") or {}).items()
            },
            value.get("jstack"),
        )


def _state(value: Json) -> QueueState:
    def number(name: str) -> int:
        return int(value.get(name) or 0)

    return QueueState(
        number("commitOffset"),
        number("cachedMsgMinOffset"),
        number("cachedMsgMaxOffset"),
        number("cachedMsgCount"),
        number("cachedMsgSizeInMiB"),
        bool(value.get("droped")),
        bool(value.get("locked")),
        number("lastPullTimestamp"),
        number("lastConsumeTimestamp"),
    )


@dataclass(frozen=True, slots=True)
class ConsumedDirectly:
    """Result of a message that a consumer was made to handle."""

    result: str
    """``CR_SUCCESS``, or another of Java's names."""
    spent_ms: int
    remark: str | None = None


def producer_members(
    nameservers: Sequence[str], group: str, topic: str
) -> Flow[tuple[Member, ...]]:
    """Return the producers of a group that are connected to the brokers of a topic."""
    route = yield from topic_route(nameservers, topic)
    members: dict[str, Member] = {}
    for broker in brokers_of(route):
        try:
            response = yield from ask(
                address_of(route, broker),
                RequestCode.GET_PRODUCER_CONNECTION_LIST,
                {"producerGroup": group},
            )
        except BrokerRefused as error:
            if error.code != ResponseCode.SYSTEM_ERROR or access_hint(error.remark) is not None:
                raise
            continue  # no producer of the group is connected to this broker
        for one in read(response).get("connectionSet") or ():
            member = Member.from_json(one)
            members.setdefault(member.client_id, member)
    return tuple(members[name] for name in sorted(members))


def all_producers(address: str) -> Flow[dict[str, tuple[Member, ...]]]:
    """Return all producers that are connected to a broker, by group."""
    data = read((yield from ask(address, RequestCode.GET_ALL_PRODUCER_INFO))).get("data") or {}
    return {
        str(group): tuple(
            Member(
                one.get("clientId") or "",
                str(one.get("remoteIP") or "").lstrip("/"),
                one.get("language") or "",
                int(one.get("version", 0)),
            )
            for one in members
        )
        for group, members in sorted(data.items())
    }


def running_info(
    nameservers: Sequence[str], group: str, client_id: str, *, stacks: bool = False
) -> Flow[RunningInfo]:
    """Return the state of a consumer; a broker it is connected to forwards the request."""
    masters = yield from chosen_masters(nameservers)
    ext = {
        "consumerGroup": group,
        "clientId": client_id,
        "jstackEnable": "true" if stacks else "false",
    }
    refusal: BrokerRefused | None = None
    for address in masters.values():
        try:
            response = yield from ask(
                address, RequestCode.GET_CONSUMER_RUNNING_INFO, ext, timeout_ms=CLIENT_TIMEOUT_MS
            )
        except BrokerRefused as error:
            refusal = error
            continue
        return RunningInfo.from_json(client_id, read(response))
    assert refusal is not None, "there is at least one master"
    raise refusal


def consume_directly(
    nameservers: Sequence[str], group: str, client_id: str, offset_id: str, store_host: str
) -> Flow[ConsumedDirectly]:
    """Make a consumer handle a message now, independently of its offsets; return the result."""
    info = yield from cluster_info(nameservers)
    known = {address for one in info.brokers.values() for address in one.addresses.values()}
    if store_host not in known:
        text = f"the message is stored at {store_host}, where no broker is registered"
        raise NoRoute(text, cause="no_broker")
    ext = {"consumerGroup": group, "clientId": client_id, "msgId": offset_id, "brokerName": ""}
    response = yield from ask(
        store_host, RequestCode.CONSUME_MESSAGE_DIRECTLY, ext, timeout_ms=CLIENT_TIMEOUT_MS
    )
    value = read(response)
    return ConsumedDirectly(
        value.get("consumeResult") or "",
        int(value.get("spentTimeMills") or 0),
        value.get("remark"),
    )
