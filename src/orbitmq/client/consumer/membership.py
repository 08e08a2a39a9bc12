"""Flows about group membership: list the members, lock and unlock queues, validate a filter."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from orbitmq._native import dumps_lenient
from orbitmq.errors import BrokerRefused, ConfigError, RemotingError, WireError
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.members import Members
from orbitmq.rpc.flow import Call, Flow, Notify
from orbitmq.rpc.refusals import access_hint
from orbitmq.rpc.route_table import RouteTable

__all__ = ["Locks", "check_filter", "group_members", "lock_queues", "unlock_queues"]

_log = logging.getLogger(__name__)

LOCK_TIMEOUT_MS = 1000


def group_members(
    routes: RouteTable,
    topic: str,
    group: str,
    is_settled: Callable[[str], bool] = lambda _address: True,
) -> Flow[list[str] | None]:
    """Return the client ids of a group's members; None if no broker returns a reliable list.

    A broker that has just started does not know all members yet. So the request goes to all brokers
    of the topic, and the lists are merged. At least one list must come from a settled broker.
    """
    members: Counter[str] = Counter()  # Java's members count an id twice if a broker lists it twice
    is_known = False
    for address in sorted(routes.brokers_of(topic)):
        ids = yield from _members_at(address, group)
        if ids is not None:
            members |= Counter(ids)
            is_known = is_known or is_settled(address)
    return list(members.elements()) if is_known else None


def _members_at(address: str, group: str) -> Flow[list[str] | None]:
    """Return the members that one broker lists; None if the broker returns no list."""
    ext = {"consumerGroup": group}
    try:
        response = yield Call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext)
    except RemotingError:
        return None
    if response.code != ResponseCode.SUCCESS or not response.body:
        return None
    try:
        body = Members.read(response.body)
        members = body.texts("consumerIdList")
    except WireError as error:
        _log.warning(
            "broker %s returned an invalid list of members of group %s, which is ignored: %s",
            address,
            group,
            error,
        )
        return None
    return members if body.values.get("consumerIdList") is not None else None


class Locks(NamedTuple):
    """Result of a lock request to the brokers of several queues."""

    granted: set[MessageQueue]
    """Queues that this member has locked now."""
    refused: set[MessageQueue]
    """Queues that another member of the group has locked."""
    not_lent: set[MessageQueue]
    """Queues of brokers that returned an error; no member can lock queues of these brokers."""


def _lock_body(
    group: str,
    client_id: str,
    queues: Iterable[MessageQueue],
    unordered: Collection[MessageQueue] = (),
) -> bytes:
    body: dict[str, Any] = {
        "clientId": client_id,
        "consumerGroup": group,
        "mqSet": [queue.as_json() for queue in queues],
    }
    if unordered:
        body["orbitUnordered"] = [queue.as_json() for queue in queues if queue in unordered]
    return dumps_lenient(body)


def lock_queues(
    routes: RouteTable,
    group: str,
    client_id: str,
    queues: Iterable[MessageQueue],
    unordered: Collection[MessageQueue] = (),
) -> Flow[Locks]:
    """Send lock requests for queues to their brokers.

    Locks of `unordered` queues end as soon as the member is gone. An unreachable broker raises
    nothing: its queues are missing from the result. They are not lost either, because locks that
    the broker granted before remain valid for a while.
    """
    locks = Locks(set(), set(), set())
    for broker_name, wanted in _by_broker(queues).items():
        address = routes.master(broker_name)
        if address is None:
            continue
        body = _lock_body(group, client_id, wanted, unordered)
        try:
            response = yield Call(address, RequestCode.LOCK_BATCH_MQ, None, body, LOCK_TIMEOUT_MS)
        except RemotingError:
            continue
        if response.code != ResponseCode.SUCCESS or not response.body:
            locks.not_lent.update(wanted)
            continue
        try:
            answer = Members.read(response.body).objects("lockOKMQSet")
            granted = {MessageQueue.from_json(queue) for queue in answer}.intersection(wanted)
        except WireError as error:
            _log.warning(
                "broker %s returned an invalid response to a lock request, so its queues count as "
                "not locked: %s",
                address,
                error,
            )
            continue
        locks.granted.update(granted)
        locks.refused.update(set(wanted) - granted)
    return locks


def unlock_queues(
    routes: RouteTable,
    group: str,
    client_id: str,
    queues: Iterable[MessageQueue],
    *,
    wait: bool = False,
) -> Flow[None]:
    """Unlock queues at their brokers; with `wait`, wait for the responses."""
    for broker_name, held in _by_broker(queues).items():
        address = routes.master(broker_name)
        if address is None:
            continue
        body = _lock_body(group, client_id, held)
        try:
            if wait:
                yield Call(address, RequestCode.UNLOCK_BATCH_MQ, None, body, LOCK_TIMEOUT_MS)
            else:
                yield Notify(address, RequestCode.UNLOCK_BATCH_MQ, None, body)
        except RemotingError:
            continue  # the locks expire at the broker after a minute


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    return by_broker


def check_filter(
    routes: RouteTable, group: str, client_id: str, subscription: Subscription
) -> Flow[None]:
    """Have a broker of the topic validate a filter, unless the filter consists of tags.

    Raises `ConfigError` for a filter that the broker cannot parse.
    """
    addresses = routes.brokers_of(subscription.topic)
    if subscription.is_tags or not addresses:
        return
    body = dumps_lenient(
        {"clientId": client_id, "group": group, "subscriptionData": subscription.as_json()}
    )
    address = random.choice(addresses)
    response = yield Call(address, RequestCode.CHECK_CLIENT_CONFIG, None, body)
    if response.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        raise ConfigError(
            f"topic {subscription.topic}: the broker does not understand the filter "
            f"{subscription.sub_string!r}: {response.remark}"
        )
    if response.code != ResponseCode.SUCCESS:
        raise BrokerRefused(
            response.code,
            response.remark,
            address=address,
            hint=access_hint(response.remark)
            or f"The filter {subscription.sub_string!r} needs a broker with "
            "enablePropertyFilter=true; filters by tags work everywhere.",
        )
