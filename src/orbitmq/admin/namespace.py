"""Adds the namespace to names sent to brokers and strips it from names they return.

Brokers store topics and groups of a namespace as ``ns%name``. Callers in a namespace pass and
receive bare names, and lists contain only names of the namespace. Without a namespace, names stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from orbitmq.admin.groups import GroupMembers
from orbitmq.admin.offsets import GroupLag
from orbitmq.protocol.bodies import MessageQueue, SubscriptionGroup, TopicConfig
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.namespace import unwrap, wrap
from orbitmq.rpc.route_table import TopicRoute

__all__ = ["AsyncVerbRunner", "Namespace", "VerbRunner"]

T = TypeVar("T")


class Namespace:
    """Adds a namespace to names and strips it; with None, names stay unchanged.

    >>> Namespace("shop").own("orders")
    'shop%orders'
    >>> Namespace("shop").names(["shop%orders", "%RETRY%shop%billing", "other%orders"])
    ['orders', '%RETRY%billing']
    """

    def __init__(self, name: str | None) -> None:
        self.name = name

    def own(self, name: str) -> str:
        """Return a name with the namespace."""
        return wrap(self.name, name)

    def own_queues(self, of_queue: Mapping[MessageQueue, T]) -> dict[MessageQueue, T]:
        """Return a mapping of queues with the namespace in their topics."""
        return {
            MessageQueue(self.own(queue.topic), queue.broker_name, queue.queue_id): value
            for queue, value in of_queue.items()
        }

    # ---- results of brokers

    def bare(self, name: str) -> str:
        """Return a name without the namespace."""
        return unwrap(self.name, name)

    def names(self, names: Iterable[str]) -> list[str]:
        """Return the names that belong to the namespace, without it."""
        if not self.name:
            return list(names)
        return [bare for name in names if (bare := self.bare(name)) != name]

    def queues(self, of_queue: Mapping[MessageQueue, T]) -> dict[MessageQueue, T]:
        """Return a mapping of queues without the namespace in their topics."""
        return {
            MessageQueue(self.bare(queue.topic), queue.broker_name, queue.queue_id): value
            for queue, value in of_queue.items()
        }

    def route(self, route: TopicRoute) -> TopicRoute:
        """Return a route without the namespace in its topic."""
        return TopicRoute.of(
            self.bare(route.topic),
            route.queues,
            route.brokers,
            route.order_conf,
            route.is_borrowed,
            route.clusters,
        )

    def topics(self, of_broker: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
        """Return a topic's configurations, by broker, without the namespace."""
        return {
            broker: replace(config, topic_name=self.bare(config.topic_name))
            for broker, config in of_broker.items()
        }

    def groups(
        self, of_group: Mapping[str, Mapping[str, SubscriptionGroup]]
    ) -> dict[str, dict[str, SubscriptionGroup]]:
        """Return the configurations of the namespace's groups, without the namespace."""
        return {
            self.bare(group): {
                broker: replace(config, group_name=self.bare(config.group_name))
                for broker, config in of_broker.items()
            }
            for group, of_broker in of_group.items()
            if not self.name or self.bare(group) != group
        }

    def members(self, members: GroupMembers | None) -> GroupMembers | None:
        """Return members of a group, without the namespace in their subscriptions."""
        if members is None:
            return None
        subscriptions = {
            self.bare(topic): replace(one, topic=self.bare(one.topic))
            for topic, one in members.subscriptions.items()
        }
        return replace(members, subscriptions=subscriptions)

    def lag(self, lag: GroupLag) -> GroupLag:
        """Return the lag of a group without the namespace."""
        return replace(lag, group=self.bare(lag.group), queues=self.queues(lag.queues))


# ---- Base classes of families of verbs

R = TypeVar("R")


class VerbRunner:
    """Base of classes that run flows on the calling thread."""

    _nameservers: list[str]
    _names: Namespace

    def _run(self, flow: Flow[R]) -> R:
        raise NotImplementedError


class AsyncVerbRunner:
    """Base of classes that run flows on an event loop."""

    _nameservers: list[str]
    _names: Namespace

    async def _run(self, flow: Flow[R]) -> R:
        raise NotImplementedError
