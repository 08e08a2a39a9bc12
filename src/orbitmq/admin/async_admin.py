"""`AsyncAdmin`: administration of a cluster, on an event loop. `Admin` is its twin."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from orbitmq._native import ReceivedMessage
from orbitmq.admin import brokers as _brokers
from orbitmq.admin import clusters as _clusters
from orbitmq.admin import groups as _groups
from orbitmq.admin import messages as _messages
from orbitmq.admin import offsets as _offsets
from orbitmq.admin import topics as _topics
from orbitmq.admin.client_verbs import AsyncClientVerbs
from orbitmq.admin.clusters import ClusterInfo
from orbitmq.admin.explain_verbs import AsyncExplainVerbs
from orbitmq.admin.groups import GroupMembers
from orbitmq.admin.namespace import Namespace
from orbitmq.admin.offsets import GroupLag, Moment
from orbitmq.admin.server_verbs import AsyncServerVerbs
from orbitmq.admin.topics import QueueEnds, changed_topic
from orbitmq.client.settings import ClientSettings, look_up_nameservers
from orbitmq.protocol.bodies import MessageQueue, SubscriptionGroup, TopicConfig
from orbitmq.protocol.flags import Permission
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.tls import Tls
from orbitmq.rpc.drivers.run_async import perform
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.route_table import TopicRoute

__all__ = ["AsyncAdmin"]

T = TypeVar("T")


class AsyncAdmin(AsyncServerVerbs, AsyncClientVerbs, AsyncExplainVerbs):
    """Creates and deletes topics and groups, moves offsets, finds messages, queries brokers.

    ::

        async with AsyncAdmin("127.0.0.1:9876") as admin:
            await admin.create_topic("orders", queues=8)
            print((await admin.group_lag("billing")).total)

    With a namespace, names are passed and returned without it, and only its own are listed.
    """

    def __init__(
        self,
        nameservers: str | Iterable[str] | ClientSettings | None = None,
        *,
        namespace: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        security_token: str | None = None,
        tls: Tls | ssl.SSLContext | bool | None = None,
    ) -> None:
        self.settings = ClientSettings.of(
            nameservers,
            namespace=namespace,
            access_key=access_key,
            secret_key=secret_key,
            security_token=security_token,
            tls=tls,
        )
        # A list, because flows read it only when they run: an address server may fill it first.
        self._nameservers = list(self.settings.nameservers)
        self._names = Namespace(self.settings.namespace)
        self._network = RemotingClient(
            hooks=self.settings.make_hooks(), tls=self.settings.make_tls()
        )

    async def _run(self, flow: Flow[T]) -> T:
        if not self._nameservers:
            self._nameservers += await asyncio.to_thread(look_up_nameservers, self.settings)
        return await perform(flow, self._network)

    async def close(self) -> None:
        """Close all connections; leaving an ``async with`` block does the same."""
        await self._network.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ---- the cluster

    async def cluster_info(self) -> ClusterInfo:
        """Return the brokers that are registered: ``admin.cluster_info().clusters``."""
        return await self._run(_clusters.cluster_info(self._nameservers))

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """Return a broker's state under RocketMQ's keys, such as ``putTps``.

        ``admin.broker_runtime_info("127.0.0.1:10911")["brokerVersionDesc"]``
        """
        return await self._run(_brokers.broker_runtime_info(address))

    async def broker_config(self, address: str) -> dict[str, str]:
        """Return all settings of a broker: ``admin.broker_config(address)["brokerName"]``."""
        return await self._run(_brokers.broker_config(address))

    async def update_broker_config(self, address: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running broker.

        ``admin.update_broker_config(address, {"fileReservedTime": "24"})``
        """
        await self._run(_brokers.update_broker_config(address, settings))

    # ---- topics

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        perm: int = Permission.READ | Permission.WRITE,
        order: bool = False,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create a topic with `queues` queues on each broker.

        ``admin.create_topic("orders", queues=4, brokers=["broker-a"])``. When this returns, every
        nameserver has the topic, so it can be used at once. An existing topic is never changed: if
        it differs from the request, `AlreadyExists` is raised, unless `if_not_exists`.
        """
        read_nums = queues if read_queues is None else read_queues
        config = TopicConfig(self._names.own(topic), read_nums, queues, perm, order=order)
        await self._run(
            _topics.create_topic(
                self._nameservers,
                config,
                cluster=cluster,
                brokers=brokers,
                if_not_exists=if_not_exists,
            )
        )

    async def update_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        write_queues: int | None = None,
        read_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        shrink: bool = False,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Change settings of a topic: ``admin.update_topic("orders", queues=16)``.

        Messages in queues that are no longer read cannot be consumed any more. So fewer read
        queues raise `ShrinkRefused`, which counts those messages, unless `shrink` is set.
        """

        def change(config: TopicConfig) -> TopicConfig:
            return changed_topic(config, queues, write_queues, read_queues, perm, order)

        await self._run(
            _topics.update_topic(
                self._nameservers,
                self._names.own(topic),
                change,
                cluster=cluster,
                brokers=brokers,
                shrink=shrink,
            )
        )

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic with all its messages: ``admin.delete_topic("orders")``."""
        await self._run(
            _topics.delete_topic(self._nameservers, self._names.own(topic), cluster=cluster)
        )

    async def topic_names(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics: ``"orders" in admin.topic_names()``."""
        return self._names.names(await self._run(_topics.topic_names(self._nameservers, cluster)))

    async def topic_route(self, topic: str) -> TopicRoute:
        """Return the route of a topic: ``admin.topic_route("orders").subscribe_queues``.

        Raises `NoRoute` if no broker has the topic.
        """
        return self._names.route(
            await self._run(_topics.topic_route(self._nameservers, self._names.own(topic)))
        )

    async def topic_configs(self, topic: str) -> dict[str, TopicConfig]:
        """Return the configuration of a topic on each broker that has it.

        ``admin.topic_configs("orders")["broker-a"].write_queue_nums``
        """
        return self._names.topics(
            await self._run(_topics.topic_configs(self._nameservers, self._names.own(topic)))
        )

    async def topic_ends(self, topic: str) -> dict[MessageQueue, QueueEnds]:
        """Return the first and the next offset of each queue of a topic.

        ``sum(ends.count for ends in admin.topic_ends("orders").values())``
        """
        return self._names.queues(
            await self._run(_topics.topic_ends(self._nameservers, self._names.own(topic)))
        )

    # ---- groups

    async def create_group(
        self,
        group: str,
        *,
        retry_max_times: int = 16,
        retry_queues: int = 1,
        consume_enable: bool = True,
        broadcast_enable: bool = True,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create a consumer group: ``admin.create_group("billing")``.

        An existing group is never changed: if it differs from the request, `AlreadyExists` is
        raised, unless `if_not_exists`.
        """
        config = SubscriptionGroup(
            self._names.own(group),
            consume_enable=consume_enable,
            consume_broadcast_enable=broadcast_enable,
            retry_queue_nums=retry_queues,
            retry_max_times=retry_max_times,
        )
        await self._run(
            _groups.create_group(
                self._nameservers,
                config,
                cluster=cluster,
                brokers=brokers,
                if_not_exists=if_not_exists,
            )
        )

    async def update_group(
        self,
        group: str,
        *,
        retry_max_times: int | None = None,
        retry_queues: int | None = None,
        consume_enable: bool | None = None,
        broadcast_enable: bool | None = None,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Change settings of a group: ``admin.update_group("billing", retry_max_times=3)``.

        Raises `NoSuchGroup` if none of the chosen brokers has the group.
        """
        given = {
            "retry_max_times": retry_max_times,
            "retry_queue_nums": retry_queues,
            "consume_enable": consume_enable,
            "consume_broadcast_enable": broadcast_enable,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        await self._run(
            _groups.update_group(
                self._nameservers,
                self._names.own(group),
                changes,
                cluster=cluster,
                brokers=brokers,
            )
        )

    async def delete_group(
        self,
        group: str,
        *,
        cluster: str | None = None,
        keep_offsets: bool = False,
        keep_topics: bool = False,
    ) -> None:
        """Delete a consumer group: ``admin.delete_group("billing", keep_topics=True)``.

        Its offsets and its topics of retries and dead letters are deleted, too, unless kept.
        """
        await self._run(
            _groups.delete_group(
                self._nameservers,
                self._names.own(group),
                cluster=cluster,
                keep_offsets=keep_offsets,
                keep_topics=keep_topics,
            )
        )

    async def group_configs(
        self, *, cluster: str | None = None
    ) -> dict[str, dict[str, SubscriptionGroup]]:
        """Return the configuration of each group on each broker that has it.

        ``admin.group_configs()["billing"]["broker-a"].retry_max_times``
        """
        return self._names.groups(
            await self._run(_groups.group_configs(self._nameservers, cluster=cluster))
        )

    async def group_members(self, group: str) -> GroupMembers | None:
        """Return the connected members of a group, or None without members.

        ``[member.client_id for member in admin.group_members("billing").members]``
        """
        return self._names.members(
            await self._run(_groups.group_members(self._nameservers, self._names.own(group)))
        )

    async def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that consume a topic: ``admin.groups_of_topic("orders")``."""
        return self._names.names(
            await self._run(_groups.groups_of_topic(self._nameservers, self._names.own(topic)))
        )

    # ---- offsets

    async def group_lag(self, group: str, topic: str | None = None) -> GroupLag:
        """Return the lag of a group, by queue and in total.

        ``admin.group_lag("billing").total``, ``admin.group_lag("billing", "orders").queues``
        """
        topic = None if topic is None else self._names.own(topic)
        return self._names.lag(
            await self._run(_offsets.group_lag(self._nameservers, self._names.own(group), topic))
        )

    async def committed_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Return committed offsets: ``admin.committed_offsets("billing", "orders")``."""
        return self._names.queues(
            await self._run(
                _offsets.committed_offsets(
                    self._nameservers, self._names.own(group), self._names.own(topic)
                )
            )
        )

    async def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets for a group; its members should not be running.

        ``admin.set_offsets("billing", {MessageQueue("orders", "broker-a", 0): 100})``
        """
        await self._run(
            _offsets.set_offsets(
                self._nameservers, self._names.own(group), self._names.own_queues(offsets)
            )
        )

    async def offsets_at(self, topic: str, moment: Moment) -> dict[MessageQueue, int]:
        """Return the offset of each queue at a moment: ``admin.offsets_at("orders", "latest")``.

        A moment is a `datetime`, epoch milliseconds, ``"earliest"`` or ``"latest"``.
        """
        return self._names.queues(
            await self._run(_offsets.offsets_at(self._nameservers, self._names.own(topic), moment))
        )

    async def reset_offsets(
        self, group: str, topic: str, moment: Moment, *, only_back: bool = False
    ) -> dict[MessageQueue, int]:
        """Reset the offsets of a group to a moment; return the new offsets.

        With `only_back`, queues in which the group has not reached the moment stay unchanged.

        ``admin.reset_offsets("billing", "orders", datetime(2026, 1, 1, tzinfo=UTC))``. Connected
        members are notified, and restart from the new offsets after ten seconds.
        """
        return self._names.queues(
            await self._run(
                _offsets.reset_offsets(
                    self._nameservers,
                    self._names.own(group),
                    self._names.own(topic),
                    moment,
                    only_back=only_back,
                )
            )
        )

    # ---- messages

    async def message_by_id(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """Return the message with a producer's or broker's id, or None if it is not found.

        ``admin.message_by_id("orders", result.message_id)``
        """
        return await self._run(
            _messages.message_by_id(
                self._nameservers, self._names.own(topic), message_id, self._names.name
            )
        )

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = _messages.END_OF_TIME_MS,
    ) -> list[ReceivedMessage]:
        """Return messages that have a key, oldest first: ``admin.messages_by_key("orders", "42")``.

        `max_messages` is the limit for each broker.
        """
        return await self._run(
            _messages.messages_by_key(
                self._nameservers,
                self._names.own(topic),
                key,
                max_messages=max_messages,
                begin_ms=begin_ms,
                end_ms=end_ms,
                namespace=self._names.name,
            )
        )
