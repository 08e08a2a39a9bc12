"""Which queues of a topic are ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from orbitmq.client.flows.membership import group_members
from orbitmq.client.state.allocate import AllocateStrategy, allocate
from orbitmq.client.state.routes import RouteTable
from orbitmq.client.wishes import Flow
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["Changes", "changes", "share_of_topic"]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Changes:
    """The steps from the queues one has to those one should have."""

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
    """Return our share of a topic's queues, all of them without a strategy.

    Queues that are `lost`, those of brokers on their way back, are shared out with the others.
    `is_settled` tells which brokers know all members, `on_members` is called with the members.

    None means that nobody can say now, and that one keeps what one has: the topic has no route, no
    broker knows the group, or the strategy does not know what to do.
    """
    queues = [*routes.subscribe_queues(topic), *lost]
    if not queues:
        return None
    if strategy is None:
        return queues
    members = yield from group_members(routes, topic, group, is_settled)
    if members is None:
        _log.debug("no broker tells who is in group %s: the queues of %s stay", group, topic)
        return None
    on_members(members)
    try:
        return allocate(strategy, client_id, queues, members)
    except Exception as error:
        _log.warning("strategy %s fails, the queues of %s stay: %s", strategy.name, topic, error)
        return None


def changes(
    current: Collection[MessageQueue],
    share: Collection[MessageQueue],
    stale: Collection[MessageQueue],
) -> Changes:
    """Compare; a stale queue, one that nothing was heard of for long, is dropped and added."""
    wanted = set(share)
    dropped = [queue for queue in current if queue not in wanted or queue in stale]
    kept = set(current) - set(dropped)
    return Changes(dropped, sorted(wanted - kept))
