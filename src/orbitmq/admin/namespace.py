"""What brokers say, in the words of a namespace.

Brokers know its topics and groups as ``ns%name``. Who works in a namespace gives and gets bare
names, and where all names are listed only those of the namespace; without one, all as they are.
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
    """Takes the namespace off names, and puts it on; None does neither.

    >>> Namespace("shop").own("orders")
    'shop%orders'
    >>> Namespace("shop").names(["shop%orders", "%RETRY%shop%billing", "other%orders"])
    ['orders', '%RETRY%billing']
    """

    def __init__(self, name: str | None) -> None:
        self.name = name

    def own(self, name: str) -> str:
        """Return a name as brokers know it."""
        return wrap(self.name, name)

    def own_queues(self, of_queue: Mapping[MessageQueue, T]) -> dict[MessageQueue, T]:
        """Return queues as brokers know them."""
        return {
            MessageQueue(self.own(queue.topic), queue.broker_name, queue.queue_id): value
            for queue, value in of_queue.items()
        }

    # ---- what comes back

    def bare(self, name: str) -> str:
        """Return a name as it is known in the namespace."""
        return unwrap(self.name, name)

    def names(self, names: Iterable[str]) -> list[str]:
        """Return the names that are of the namespace."""
        if not self.name:
            return list(names)
        return [bare for name in names if (bare := self.bare(name)) != name]

    def queues(self, of_queue: Mapping[MessageQueue, T]) -> dict[MessageQueue, T]:
        """Return what is known of queues."""
        return {
            MessageQueue(self.bare(queue.topic), queue.broker_name, queue.queue_id): value
            for queue, value in of_queue.items()
        }

    def route(self, route: TopicRoute) -> TopicRoute:
        """Return where a topic is."""
        return TopicRoute.of(
            self.bare(route.topic),
            route.queues,
            route.brokers,
            route.order_conf,
            route.is_borrowed,
            route.clusters,
        )

    def topics(self, of_broker: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
        """Return how a topic is set up on each broker."""
        return {
            broker: replace(config, topic_name=self.bare(config.topic_name))
            for broker, config in of_broker.items()
        }

    def groups(
        self, of_group: Mapping[str, Mapping[str, SubscriptionGroup]]
    ) -> dict[str, dict[str, SubscriptionGroup]]:
        """Return how the groups of the namespace are set up on each broker."""
        return {
            self.bare(group): {
                broker: replace(config, group_name=self.bare(config.group_name))
                for broker, config in of_broker.items()
            }
            for group, of_broker in of_group.items()
            if not self.name or self.bare(group) != group
        }

    def members(self, members: GroupMembers | None) -> GroupMembers | None:
        """Return who is in a group and what it wants."""
        if members is None:
            return None
        subscriptions = {
            self.bare(topic): replace(one, topic=self.bare(one.topic))
            for topic, one in members.subscriptions.items()
        }
        return replace(members, subscriptions=subscriptions)

    def lag(self, lag: GroupLag) -> GroupLag:
        """Return how far a group is."""
        return replace(lag, group=self.bare(lag.group), queues=self.queues(lag.queues))


# ---- What families of verbs need of the class they become part of

R = TypeVar("R")


class VerbRunner:
    """Something that carries out flows on the calling thread."""

    _nameservers: list[str]
    _names: Namespace

    def _run(self, flow: Flow[R]) -> R:
        raise NotImplementedError


class AsyncVerbRunner:
    """Something that carries out flows on an event loop."""

    _nameservers: list[str]
    _names: Namespace

    async def _run(self, flow: Flow[R]) -> R:
        raise NotImplementedError
