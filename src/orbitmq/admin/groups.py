"""Consumer groups: create, change, delete and list them and their members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from orbitmq._native import dumps_lenient
from orbitmq.admin.clusters import chosen_masters
from orbitmq.admin.differences import differences, refuse_existing
from orbitmq.admin.requests import Json, ask, read
from orbitmq.admin.topics import address_of, brokers_of, delete_topic, find_route, topic_route
from orbitmq.errors import NoSuchGroup
from orbitmq.protocol.bodies import Subscription, SubscriptionGroup
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import dlq_topic, retry_topic
from orbitmq.rpc.flow import Flow

__all__ = [
    "GroupMembers",
    "Member",
    "create_group",
    "delete_group",
    "group_configs",
    "group_members",
    "groups_of_topic",
    "put_group",
    "update_group",
]


@dataclass(frozen=True, slots=True)
class Member:
    """A client that is connected as a member of a group."""

    client_id: str
    address: str
    language: str
    version: int

    @classmethod
    def from_json(cls, value: Json) -> Member:
        """Return the member in an entry of a list of connections."""
        return cls(
            value["clientId"],
            value.get("clientAddr") or "",
            value.get("language") or "",
            int(value.get("version", 0)),
        )


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Connected members of a consumer group, and its subscriptions."""

    members: tuple[Member, ...]
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: dict[str, Subscription]


def put_group(
    nameservers: Sequence[str],
    config: SubscriptionGroup,
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
) -> Flow[None]:
    """Create or change a group on the chosen masters."""
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    yield from _put(masters, dict.fromkeys(masters, config))


def create_group(
    nameservers: Sequence[str],
    config: SubscriptionGroup,
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
    if_not_exists: bool = False,
) -> Flow[dict[str, SubscriptionGroup]]:
    """Create a group on the chosen masters that lack it.

    A broker that already has the group keeps it unchanged. If that group differs from `config`,
    `AlreadyExists` is raised, unless `if_not_exists`. Return the configuration of the group on each
    broker that had it.
    """
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    before = (yield from _configs_at(masters)).get(config.group_name, {})
    if not if_not_exists:
        refuse_existing(
            f"group {config.group_name}",
            {name: differences(known, config, _SHOWN) for name, known in before.items()},
        )
    new = {name: address for name, address in masters.items() if name not in before}
    yield from _put(new, dict.fromkeys(new, config))
    return before


def update_group(
    nameservers: Sequence[str],
    group: str,
    changes: Mapping[str, Any],
    *,
    cluster: str | None = None,
    brokers: Iterable[str] | None = None,
) -> Flow[dict[str, SubscriptionGroup]]:
    """Change fields of a group on the chosen masters that have it."""
    masters = yield from chosen_masters(nameservers, cluster=cluster, brokers=brokers)
    before = (yield from _configs_at(masters)).get(group)
    if not before:
        places = ", ".join(masters)
        raise NoSuchGroup(f"group {group} is not on {places}: create it there, or check its name")
    after = {name: replace(known, **changes) for name, known in before.items()}
    yield from _put(masters, after)
    return after


_SHOWN: Final = {
    "consume_enable": "consumeEnable",
    "consume_from_min_enable": "consumeFromMinEnable",
    "consume_broadcast_enable": "consumeBroadcastEnable",
    "retry_queue_nums": "retryQueueNums",
    "retry_max_times": "retryMaxTimes",
    "broker_id": "brokerId",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "notify_consumer_ids_changed_enable": "notifyConsumerIdsChangedEnable",
}
"""Fields of a group that are compared, and their names in errors."""


def _put(masters: Mapping[str, str], configs: Mapping[str, SubscriptionGroup]) -> Flow[None]:
    for broker, config in configs.items():
        body = dumps_lenient(config.as_json())
        yield from ask(masters[broker], RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def delete_group(
    nameservers: Sequence[str],
    group: str,
    *,
    cluster: str | None = None,
    keep_offsets: bool = False,
    keep_topics: bool = False,
) -> Flow[None]:
    """Delete a group from every master, with its offsets, its retries and its dead letters.

    If the group's members come back, brokers create it again, unless their settings forbid that.
    """
    masters = yield from chosen_masters(nameservers, cluster=cluster)
    ext = {"groupName": group, "removeOffset": "false" if keep_offsets else "true"}
    for address in masters.values():
        yield from ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)
    if not keep_topics:
        for topic in (retry_topic(group), dlq_topic(group)):
            if (yield from find_route(nameservers, topic)) is not None:
                yield from delete_topic(nameservers, topic, cluster=cluster)


def group_configs(
    nameservers: Sequence[str], *, cluster: str | None = None
) -> Flow[dict[str, dict[str, SubscriptionGroup]]]:
    """Return the configuration of each group, by its name, on each broker that has it."""
    masters = yield from chosen_masters(nameservers, cluster=cluster)
    return (yield from _configs_at(masters))


def _configs_at(masters: Mapping[str, str]) -> Flow[dict[str, dict[str, SubscriptionGroup]]]:
    groups: dict[str, dict[str, SubscriptionGroup]] = {}
    for broker, address in masters.items():
        response = yield from ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table: Json = read(response).get("subscriptionGroupTable") or {}
        for name, value in table.items():
            groups.setdefault(name, {})[broker] = SubscriptionGroup.from_json(value, name)
    return dict(sorted(groups.items()))


def group_members(nameservers: Sequence[str], group: str) -> Flow[GroupMembers | None]:
    """Return the members of a group and its subscriptions, or None without members."""
    masters = yield from chosen_masters(nameservers)
    members: dict[str, Member] = {}
    value: Json | None = None
    for address in masters.values():
        response = yield from ask(
            address,
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            {"consumerGroup": group},
            also=(ResponseCode.CONSUMER_NOT_ONLINE,),
        )
        if response.code == ResponseCode.CONSUMER_NOT_ONLINE:
            continue
        value = read(response)
        for one in value.get("connectionSet") or ():
            member = Member.from_json(one)
            members.setdefault(member.client_id, member)
    if value is None:
        return None
    table: Json = value.get("subscriptionTable") or {}
    return GroupMembers(
        members=tuple(sorted(members.values(), key=lambda member: member.client_id)),
        consume_type=value.get("consumeType") or "",
        message_model=value.get("messageModel") or "",
        consume_from_where=value.get("consumeFromWhere") or "",
        subscriptions={name: Subscription.from_json(one) for name, one in sorted(table.items())},
    )


def groups_of_topic(nameservers: Sequence[str], topic: str) -> Flow[list[str]]:
    """Return the groups that consume a topic or have consumed it before."""
    route = yield from topic_route(nameservers, topic)
    groups: set[str] = set()
    for broker in brokers_of(route):
        response = yield from ask(
            address_of(route, broker), RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
        )
        groups.update(read(response).get("groupList") or ())
    return sorted(groups)
