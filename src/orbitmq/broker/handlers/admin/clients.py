"""Administration of connected clients: lists, status requests and offset resets.

For state that only a client has, the broker sends a request over the connection that the client has
opened, and returns the answer unchanged. That request contains only its own defined fields. The key
and signature of an administrator are never passed on, because a consumer could use them again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Command, Store, decode_offset_id, dumps_lenient
from orbitmq.broker.state.clients import ClientInfo, ConsumerClients, ProducerClients
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.errors import OrbitError, RequestTimeout
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Version, version_name
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.members import Members, as_number
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, awaits_peer, respond

__all__ = ["ClientAdminHandlers"]

_log = logging.getLogger(__name__)

ASK_TIMEOUT_MS = 10_000
STATUS_TIMEOUT_MS = 5000


class ConsumerGroupHeader(Header):
    """A consumer group."""

    consumer_group: str


class ProducerGroupHeader(Header):
    """A producer group."""

    producer_group: str


class ResetHeader(Header):
    """New position of a group: a time, or the ends of the queues for -1."""

    topic: str
    group: str
    timestamp: Long
    is_force: bool = False


class StatusHeader(Header):
    """Members whose offsets are requested; `client_addr` is a client id."""

    topic: str
    group: str
    client_addr: str | None = None


class MemberHeader(Header):
    """A member of a consumer group."""

    consumer_group: str
    client_id: str
    msg_id: str | None = None


@dataclass(slots=True)
class ClientAdminHandlers:
    """Handles operators' requests about clients."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    consumers: ConsumerClients
    producers: ProducerClients
    offsets: ConsumerOffsets

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.consumer_connections, [RequestCode.GET_CONSUMER_CONNECTION_LIST])
        router.add(self.producer_connections, [RequestCode.GET_PRODUCER_CONNECTION_LIST])
        router.add(self.all_producers, [RequestCode.GET_ALL_PRODUCER_INFO])
        router.add(self.reset_offset, [RequestCode.INVOKE_BROKER_TO_RESET_OFFSET])
        router.add(
            awaits_peer(self.consumer_status), [RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS]
        )
        router.add(awaits_peer(self.running_info), [RequestCode.GET_CONSUMER_RUNNING_INFO])
        router.add(awaits_peer(self.consume_directly), [RequestCode.CONSUME_MESSAGE_DIRECTLY])

    # ---- Lists of clients

    def consumer_connections(self, request: Command, _connection: Connection) -> Command:
        """List the members and the subscriptions of a consumer group."""
        name = ConsumerGroupHeader.decode(request).consumer_group
        group = self.consumers.groups.get(name)
        if group is None:
            remark = f"the consumer group[{name}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = {
            "connectionSet": _connections(group.members),
            "consumeFromWhere": group.consume_from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": {
                topic: subscription.as_json()
                for topic, subscription in sorted(group.subscriptions.items())
            },
        }
        return respond(request, body=dumps_lenient(body))

    def producer_connections(self, request: Command, _connection: Connection) -> Command:
        """List the members of a producer group."""
        name = ProducerGroupHeader.decode(request).producer_group
        members = self.producers.groups.get(name)
        if members is None:
            remark = f"the producer group[{name}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return respond(request, body=dumps_lenient({"connectionSet": _connections(members)}))

    def all_producers(self, request: Command, _connection: Connection) -> Command:
        """List the members of all producer groups."""
        data = {
            name: [
                {
                    "clientId": client.client_id,
                    "language": client.language,
                    "lastUpdateTimestamp": client.last_seen_ms,
                    "remoteIP": f"/{connection.remote_text}",
                    "version": client.version,
                }
                for connection, client in members.items()
            ]
            for name, members in sorted(self.producers.groups.items())
        }
        return respond(request, body=dumps_lenient({"data": data}))

    # ---- Offset resets

    def reset_offset(self, request: Command, _connection: Connection) -> Command:
        """Send new offsets to the members of a group; the members commit them."""
        header = ResetHeader.decode(request)
        table = self._reset_table(header)
        group = self.consumers.groups.get(header.group)
        if group is None:
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        by_queue = {queue.as_key(): offset for queue, offset in table.items()}
        pushed: dict[str, Any] = {"offsetTable": by_queue}
        if request.language == "CPP":
            pushed = {
                "offsetTable": [
                    {**queue.as_json(), "offset": offset} for queue, offset in table.items()
                ]
            }
        ext = {
            "topic": header.topic,
            "group": header.group,
            "timestamp": str(header.timestamp),
            "isForce": "false",
        }
        push = dumps_lenient(pushed)
        for connection, client in group.members.items():
            _refuse_older(client, Version.V3_0_7_SNAPSHOT)
            connection.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=ext, body=push)
        return respond(request, body=dumps_lenient({"offsetTable": by_queue}))

    def _reset_table(self, header: ResetHeader) -> dict[MessageQueue, int]:
        topic = self.topics.find(header.topic)
        if topic is None:
            remark = (
                f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        table = {}
        for queue_id in range(topic.write_queue_nums):
            consumed = self.offsets.get(header.topic, header.group, queue_id)
            if consumed is None or consumed == -1:
                remark = f"THe consumer group <{header.group}> not exist"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
            if header.timestamp == -1:
                target = self.store.max_offset(header.topic, queue_id)
            else:
                target = self.store.offset_by_time(header.topic, queue_id, header.timestamp)
            queue = MessageQueue(header.topic, self.config.broker_name, queue_id)
            table[queue] = target if header.is_force or target < consumed else consumed
        return table

    # ---- Requests to clients

    async def consumer_status(self, request: Command, _connection: Connection) -> Command:
        """Return the offsets of a group's members; members that do not answer are left out."""
        header = StatusHeader.decode(request)
        group = self.consumers.groups.get(header.group)
        if group is None:
            remark = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        wanted = (header.client_addr or "").strip()
        tables: dict[str, Any] = {}
        for connection, client in list(group.members.items()):
            _refuse_older(client, Version.V3_0_7_SNAPSHOT)
            if wanted and client.client_id != header.client_addr:
                continue
            try:
                answer = await connection.invoke(
                    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                    ext={"topic": header.topic, "group": header.group},
                    timeout_ms=STATUS_TIMEOUT_MS,
                )
                if answer.code == ResponseCode.SUCCESS and answer.body:
                    tables[client.client_id] = _offset_table(answer.body)
            except OrbitError as error:
                _log.warning(
                    "client %s did not return its offsets, answering without them: %s",
                    client.client_id,
                    error,
                )
            if wanted:
                break
        body = {"consumerTable": tables, "messageQueueTable": {}}
        return respond(request, body=dumps_lenient(body))

    async def running_info(self, request: Command, _connection: Connection) -> Command:
        """Return the running info of a consumer."""
        header = MemberHeader.decode(request)
        ext = header.encode() | _given(request, "jstackEnable")
        return await self._relay(request, header, ext, lambda: None)

    async def consume_directly(self, request: Command, _connection: Connection) -> Command:
        """Make a consumer consume a message now, and return the result."""
        header = MemberHeader.decode(request)
        _, physical_offset = decode_offset_id(header.msg_id or "")
        if self.store.record_at(physical_offset) is None:
            remark = f"there is no message {header.msg_id}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        ext = header.encode() | {"brokerName": self.config.broker_name}
        return await self._relay(
            request, header, ext, lambda: self.store.record_at(physical_offset)
        )

    async def _relay(
        self,
        request: Command,
        header: MemberHeader,
        ext: dict[str, str],
        read_body: Callable[[], bytes | None],
    ) -> Command:
        """Send a request to a member and return its answer.

        `read_body` is called only once the connection is writable, so that no body is kept in
        memory for a slow member.
        """
        group_name, client_id = header.consumer_group, header.client_id
        group = self.consumers.groups.get(group_name)
        member = group.member(client_id) if group is not None else None
        if member is None:
            remark = f"The Consumer <{group_name}> <{client_id}> not online"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        connection, client = member
        if client.version < Version.V3_1_8_SNAPSHOT:
            remark = (
                f"The Consumer <{client_id}> Version <{version_name(client.version)}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        try:
            await connection.writable(ASK_TIMEOUT_MS)
            answer = await connection.invoke(
                request.code, ext=ext, body=read_body(), timeout_ms=ASK_TIMEOUT_MS
            )
        except RequestTimeout as error:
            remark = f"consumer <{group_name}> <{client_id}> Timeout: {error}"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from None
        except OrbitError as error:
            remark = f"invoke consumer <{group_name}> <{client_id}> Exception: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None
        return respond(request, answer.code, answer.remark, ext=answer.ext, body=answer.body)


def _given(request: Command, name: str) -> dict[str, str]:
    value = request.get_ext(name)
    return {} if value is None else {name: value}


def _offset_table(body: bytes) -> dict[Any, int]:
    table = Members.read(body).table("messageQueueTable")
    return {key: as_number(offset, "messageQueueTable") for key, offset in table.items()}


def _connections(members: Mapping[Connection, ClientInfo]) -> list[dict[str, Any]]:
    return [
        {
            "clientAddr": connection.remote_text,
            "clientId": client.client_id,
            "language": client.language,
            "version": client.version,
        }
        for connection, client in members.items()
    ]


def _refuse_older(client: ClientInfo, version: int) -> None:
    if client.version < version:
        remark = f"the client does not support this feature. version={version_name(client.version)}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
