"""Clients and their groups: heartbeats, members, offsets, queue locks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from orbitmq._native import Command, Filter, Store, dumps_lenient
from orbitmq.broker.state.awaited_members import AwaitedMembers
from orbitmq.broker.state.clients import ClientInfo, ConsumerClients, ProducerClients
from orbitmq.broker.state.filters import SQL92, ConsumerFilters
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.queue_locks import QueueLocks
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.errors import FAILURES, MalformedFilter
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.heartbeat import ConsumerData, Heartbeat
from orbitmq.protocol.members import Members
from orbitmq.protocol.names import retry_topic
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Refused, Router, respond

__all__ = ["ConsumerHandlers"]

_log = logging.getLogger(__name__)

HANDOVER_S = {"JAVA": 10.0}
OTHERS_HANDOVER_S = 2.0
"""Maximum wait of a queue's next member for its offset.

Java's clients handle a late answer by leaving the queue for their next round. Other clients may
handle it like a queue without an offset.
"""
HANDOVER_STEP_S = 0.02
"""Interval of the checks if the previous member has returned the queue."""


class UnregisterHeader(Header):
    """A client id, and the groups that the client leaves."""

    wire_names = {"client_id": "clientID"}  # noqa: RUF012

    client_id: str = ""
    producer_group: str | None = None
    consumer_group: str | None = None


class OffsetHeader(Header):
    """A group and a queue."""

    consumer_group: str
    topic: str
    queue_id: int


class CommitHeader(OffsetHeader):
    """A group, a queue, and the offset to commit."""

    commit_offset: Long


@dataclass(slots=True)
class ConsumerHandlers:
    """Handles the requests of clients about memberships, offsets and locks."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    groups: GroupTable
    consumers: ConsumerClients
    producers: ProducerClients
    filters: ConsumerFilters
    offsets: ConsumerOffsets
    locks: QueueLocks
    awaited: AwaitedMembers
    save_offsets: Callable[[], Awaitable[None]]
    clock: Callable[[], int]
    memory_bytes: int
    key_of: Callable[[Command, Connection], str | None] = lambda _request, _connection: None
    """Function that returns the access key of a request, if its rights are checked."""

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.heartbeat, [RequestCode.HEART_BEAT])
        router.add(self.unregister, [RequestCode.UNREGISTER_CLIENT])
        router.add(self.check_config, [RequestCode.CHECK_CLIENT_CONFIG])
        router.add(self.members, [RequestCode.GET_CONSUMER_LIST_BY_GROUP])
        router.add(self.query_offset, [RequestCode.QUERY_CONSUMER_OFFSET])
        router.add(self.update_offset, [RequestCode.UPDATE_CONSUMER_OFFSET])
        router.add(self.lock, [RequestCode.LOCK_BATCH_MQ])
        router.add(self.unlock, [RequestCode.UNLOCK_BATCH_MQ])

    # ---- Memberships

    def heartbeat(self, request: Command, connection: Connection) -> Command:
        """Register a client as a member of the groups in its heartbeat."""
        heartbeat = Heartbeat.decode(request.body)
        client = ClientInfo(
            heartbeat.client_id,
            request.language,
            request.version,
            self.clock(),
            self.key_of(request, connection),
        )
        if heartbeat.producer_groups and self.producers.is_anothers(
            client.client_id, client.access_key
        ):
            remark = f"a client of another account is here by the id {client.client_id}"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        for consumer in heartbeat.consumers:
            self._consumer_is_here(consumer, connection, client)
        for group in heartbeat.producer_groups:
            self.producers.register(group, connection, client)
        return respond(request)

    def _consumer_is_here(
        self, consumer: ConsumerData, connection: Connection, client: ClientInfo
    ) -> None:
        name = consumer.group
        group = self.groups.find(name)
        notify = True
        if group is not None:
            notify = group.notify_consumer_ids_changed_enable
            self.topics.find_or_create(
                retry_topic(name), group.retry_queue_nums, unit_mode=consumer.unit_mode
            )
        online = self.consumers.groups.get(name)
        is_new = online is None or connection not in online.members
        changed = self.consumers.register(
            name,
            connection,
            client,
            consume_type=consumer.consume_type,
            message_model=consumer.message_model,
            consume_from_where=consumer.consume_from_where,
            subscriptions=consumer.subscriptions,
        )
        self.filters.heard(name, consumer.subscriptions)
        was_awaited = is_new and self.awaited.came(name, client.client_id)
        # No other member has taken over the queues of an awaited member meanwhile.
        if changed and notify and not was_awaited:
            self.notify_members(name)

    def unregister(self, request: Command, connection: Connection) -> Command:
        """Remove a client from a producer group, a consumer group, or both."""
        header = UnregisterHeader.decode(request)
        if header.producer_group is not None:
            self.producers.unregister(header.producer_group, connection)
        if header.consumer_group is not None:
            group = self.groups.find(header.consumer_group)
            online = self.consumers.groups.get(header.consumer_group)
            client = None if online is None else online.members.get(connection)
            if self.consumers.unregister(header.consumer_group, connection):
                self._member_left(header.consumer_group)
            self.awaited.left(
                header.consumer_group, header.client_id if client is None else client.client_id
            )
            if group is None or group.notify_consumer_ids_changed_enable:
                self.notify_members(header.consumer_group)
        return respond(request)

    def connection_closed(self, connection: Connection) -> None:
        """Remove the client of a closed connection, but give it time to return to its groups."""
        self.producers.closed(connection)
        for name, client_id in self.consumers.closed(connection):
            self._member_left(name)
            if not self.awaited.lost(name, client_id):
                self.notify_members(name)

    def give_up_awaited(self) -> None:
        """Make groups redistribute the queues of members that did not return in time."""
        for name, ids in self.awaited.expire().items():
            _log.info("group %s rebalances without members %s", name, ", ".join(ids))
            self.notify_members(name)

    def _member_left(self, name: str) -> None:
        if name not in self.consumers.groups:
            self.filters.group_left(name)

    def notify_members(self, name: str, topic: str | None = None) -> None:
        """Notify a group's members, so that they rebalance.

        `topic` is the topic whose queues have changed, if that is the reason; only OrbitMQ's
        clients read it.
        """
        group = self.consumers.groups.get(name)
        if group is None or not self.config.notify_consumer_ids_changed_enable:
            return
        ext = {"consumerGroup": name}
        if topic is not None:
            ext["orbitTopic"] = topic
        for connection in group.members:
            connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext=ext)

    def queues_changed(self, name: str, topic: str) -> None:
        """Notify a group's members of new queues, unless the group has notices disabled."""
        group = self.groups.find(name)
        if group is None or group.notify_consumer_ids_changed_enable:
            self.notify_members(name, topic)

    def check_config(self, request: Command, _connection: Connection) -> Command:
        """Accept or reject a subscription, depending on its filter."""
        body = Members.read(request.body)
        subscription = Subscription.from_json(body.member("subscriptionData"))
        kind = subscription.expression_type
        if subscription.is_tags:
            return respond(request)
        if not self.config.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if kind != SQL92:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, None)
        try:
            Filter(subscription.sub_string)
        except MalformedFilter as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        return respond(request)

    def members(self, request: Command, _connection: Connection) -> Command:
        """List the client ids of a group's members."""
        name = (request.ext or {}).get("consumerGroup", "")
        ids = self.awaited.ids(name)
        if not ids:
            remark = f"no consumer for this group, {name}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return respond(request, body=dumps_lenient({"consumerIdList": ids}))

    # ---- Offsets

    def query_offset(self, request: Command, connection: Connection) -> Answer:
        """Return the committed offset of a group, or the first offset of a new group.

        A Java client sends this request as soon as it is assigned a queue. While an OrbitMQ client
        still consumes the queue, an answer would make both clients consume the messages that are
        being processed. Such a request waits.
        """
        header = OffsetHeader.decode(request)
        if self._is_anothers(header, connection):
            return self._query_later(request, header, connection)
        return self._offset(request, header)

    def _is_anothers(self, header: OffsetHeader, connection: Connection) -> bool:
        client_id = self._member(header.consumer_group, connection)
        if client_id is None:
            return False  # a tool that only reads offsets
        queue = MessageQueue(header.topic, self.config.broker_name, header.queue_id)
        return self.locks.is_anothers(header.consumer_group, client_id, queue, self.clock())

    def _member(self, group_name: str, connection: Connection) -> str | None:
        """Return the client id of a connection in a group, None if it is not a member."""
        group = self.consumers.groups.get(group_name)
        client = None if group is None else group.members.get(connection)
        return None if client is None else client.client_id

    def may_commit(
        self, group: str, topic: str, queue_id: int, offset: int, connection: Connection
    ) -> bool:
        """Return False for an offset that would move the owner of a queue back.

        A Java client commits its own progress until it has noticed that its queue is lent to
        another member.
        """
        stored = self.offsets.get(topic, group, queue_id)
        if stored is None or offset >= stored:
            return True
        client_id = self._member(group, connection)
        if client_id is None:
            return True
        queue = MessageQueue(topic, self.config.broker_name, queue_id)
        return not self.locks.was_anothers(group, client_id, queue)

    async def _query_later(
        self, request: Command, header: OffsetHeader, connection: Connection
    ) -> Command:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HANDOVER_S.get(request.language, OTHERS_HANDOVER_S)
        while self._is_anothers(header, connection) and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(HANDOVER_STEP_S)  # a lock that expires by age raises no event
        return self._offset(request, header)

    def _offset(self, request: Command, header: OffsetHeader) -> Command:
        offset = self.offsets.get(header.topic, header.consumer_group, header.queue_id)
        if offset is None or offset < 0:
            # A new group on a young queue starts at offset 0, whatever start position it has set.
            if self.store.min_offset(header.topic, header.queue_id) > 0 or self._first_is_cold(
                header.topic, header.queue_id
            ):
                remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
            offset = 0
        return respond(request, ext={"offset": str(offset)})

    def _first_is_cold(self, topic: str, queue_id: int) -> bool:
        unit = self.store.unit_at(topic, queue_id, 0)
        return unit is not None and self.store.max_physical_offset - unit[0] > self.memory_bytes

    def update_offset(self, request: Command, connection: Connection) -> Command:
        """Commit the offset of a group in a queue."""
        header = CommitHeader.decode(request)
        group, offset = header.consumer_group, header.commit_offset
        if self.may_commit(group, header.topic, header.queue_id, offset, connection):
            self.offsets.commit(header.topic, group, header.queue_id, offset)
        return respond(request)

    # ---- Queue locks

    def lock(self, request: Command, _connection: Connection) -> Command:
        """Lock the queues that are free for a client."""
        group, client_id, queues = _lock_request(request)
        unordered = _queues(Members.read(request.body), "orbitUnordered")
        held = self.locks.lock(group, client_id, queues, self.clock(), unordered)
        body = {"lockOKMQSet": [queue.as_json() for queue in held]}
        return respond(request, body=dumps_lenient(body))

    async def unlock(self, request: Command, _connection: Connection) -> Command:
        """Unlock the queues a client holds, once its offsets are on disk.

        Otherwise, if the broker were killed now, the next owner would start at older offsets.
        """
        group, client_id, queues = _lock_request(request)
        try:
            await self.save_offsets()
        except FAILURES as error:
            _log.warning(
                "cannot save offsets before queues are unlocked, unlocking them anyway: %s", error
            )
        self.locks.unlock(group, client_id, queues)
        return respond(request)


def _lock_request(request: Command) -> tuple[str, str, list[MessageQueue]]:
    body = Members.read(request.body)
    return body.text("consumerGroup"), body.text("clientId"), _queues(body, "mqSet")


def _queues(body: Members, name: str) -> list[MessageQueue]:
    return list(dict.fromkeys(MessageQueue.from_json(queue) for queue in body.objects(name)))
