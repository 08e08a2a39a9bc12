"""Request and reply over topics: send a message and receive the reply of its consumer.

The request carries an id of the exchange (CORRELATION_ID), the requester's client id and a time to
live. The consumer sends its reply to the reply topic of the broker's cluster, with a request code
of its own. The broker pushes the reply down the requester's heartbeat connection. So the requester
must be registered at the brokers before the request leaves. A reply that comes too late is dropped.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
import uuid
from dataclasses import dataclass

from orbitmq._native import (
    Command,
    ReceivedMessage,
    decode_messages,
    decode_properties,
    encode_record,
)
from orbitmq.client.instance import ClientInstance
from orbitmq.client.producer.base import BaseProducer
from orbitmq.errors import FAILURES, BadMessage, NoReply, RemotingError
from orbitmq.message import Message, MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import Property, reply_topic
from orbitmq.remoting.address import split_address
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import respond
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.namespace import unwrap, wrap

__all__ = ["PendingReply", "Requesting", "reply_to"]

_log = logging.getLogger(__name__)

CORRELATION_ID = "CORRELATION_ID"
MESSAGE_TYPE = "MSG_TYPE"
TIME_TO_LIVE = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"


def reply_to(request: ReceivedMessage, body: bytes, *, tags: str | None = None) -> Message:
    """Return the reply to a message of `Producer.request`; send it like any other message.

    ::

        def handle(message):
            producer.send(reply_to(message, b"1.20"))
    """
    cluster = request.get_property(Property.CLUSTER)
    correlation_id = request.get_property(CORRELATION_ID)
    asker = request.get_property(Property.REPLY_TO_CLIENT)
    if not cluster or not correlation_id or not asker:
        raise BadMessage(
            "this message asks for no reply: it was not sent with request(), or the broker did "
            "not name its cluster"
        )
    reply = Message(reply_topic(cluster), body, tags=tags)
    reply.system = {
        MESSAGE_TYPE: "reply",
        CORRELATION_ID: correlation_id,
        Property.REPLY_TO_CLIENT: asker,
    }
    time_to_live = request.get_property(TIME_TO_LIVE)
    if time_to_live:
        reply.system[TIME_TO_LIVE] = time_to_live
    return reply


@dataclass(slots=True)
class PendingReply:
    """A request that waits for its reply."""

    correlation_id: str
    message: Message
    reply: concurrent.futures.Future[ReceivedMessage]


class Requesting(BaseProducer):
    """Part of a producer that sends requests and receives their replies."""

    _asked: dict[str, PendingReply] | None = None

    def _prepare(self, instance: ClientInstance) -> None:
        super()._prepare(instance)
        self._asked = {}
        instance.router.add(self._reply_came, [RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT])

    def _queues_flow(self, topic: str) -> Flow[list[MessageQueue]]:
        sending = self._sending
        if sending is None:
            self._running()
            raise AssertionError  # a running producer can send
        wrapped = wrap(self.settings.namespace, topic)
        route = yield from sending.route(wrapped, self._policy.timeout_ms)
        return [MessageQueue(topic, q.broker_name, q.queue_id) for q in route.publish_queues]

    # ---- requests

    def _ask(self, message: Message, budget_ms: float) -> tuple[PendingReply, float]:
        """Make the request; return it and the deadline of its reply."""
        correlation_id = str(uuid.uuid4())
        request = Message(
            message.topic,
            message.body,
            tags=message.tags,
            keys=message.keys,
            delay_level=message.delay_level,
            flag=message.flag,
            wait_store_ok=message.wait_store_ok,
        )
        request.take_timers(message)
        request.properties = message.properties
        request.system = {
            **(message.system or {}),
            CORRELATION_ID: correlation_id,
            Property.REPLY_TO_CLIENT: self._running().client_id,
            TIME_TO_LIVE: str(int(budget_ms)),
        }
        asked = PendingReply(correlation_id, request, concurrent.futures.Future())
        assert self._asked is not None
        self._asked[correlation_id] = asked
        return asked, time.monotonic() + budget_ms / 1000

    def _forget(self, asked: PendingReply) -> None:
        if self._asked is not None:
            self._asked.pop(asked.correlation_id, None)

    async def _be_known(self, topic: str, budget_ms: float) -> None:
        """Register this client at every broker that may get the request."""
        instance = self._running()
        topic = wrap(self.settings.namespace, topic)
        if self._sending is not None:
            await instance.run(self._sending.route(topic, budget_ms))
        masters = instance.routes.addresses(masters_only=True)
        if any(instance.network.open_connection(address) is None for address in masters) or (
            masters - instance.broker_versions.keys()
        ):
            await instance.heartbeat()

    def _await_reply(self, asked: PendingReply, deadline: float) -> ReceivedMessage:
        try:
            return asked.reply.result(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            raise _no_reply(asked) from None

    async def _reply(self, asked: PendingReply, deadline: float) -> ReceivedMessage:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
                return await asyncio.wrap_future(asked.reply)
        except TimeoutError:
            raise _no_reply(asked) from None

    # ---- replies pushed by brokers

    def _reply_came(self, request: Command, _connection: Connection) -> Command:
        try:
            reply = _as_message(request, self.settings.namespace)
        except FAILURES as error:
            _log.warning("a reply cannot be decoded and is refused: %s", error)
            return respond(request, ResponseCode.SYSTEM_ERROR, "process reply message fail")
        correlation_id = reply.get_property(CORRELATION_ID) or ""
        asked = (self._asked or {}).get(correlation_id)
        if asked is None:
            _log.warning("the reply to request %s came too late and is dropped", correlation_id)
        elif asked.reply.set_running_or_notify_cancel():
            asked.reply.set_result(reply)
        return respond(request)


def _no_reply(asked: PendingReply) -> NoReply:
    return NoReply(
        f"request {asked.correlation_id} to topic {asked.message.topic!r} was sent, but no reply "
        f"came within {asked.message.system and asked.message.system[TIME_TO_LIVE]} ms. Does a "
        "consumer of the topic run, and does it send reply_to(message, ...)?"
    )


def _as_message(request: Command, namespace: str | None) -> ReceivedMessage:
    """Return the pushed reply as a received message."""
    ext = request.ext or {}
    properties = decode_properties(ext.get("properties") or "")
    properties[ARRIVE_TIME] = str(time.time_ns() // 1_000_000)
    topic = ext.get("topic") or ""
    queue = MessageQueue(unwrap(namespace, topic), "", int(ext.get("queueId") or 0))
    data = encode_record(
        topic,
        request.body,
        queue_id=queue.queue_id,
        flag=int(ext.get("flag") or 0),
        # Keep the bits of compression; the bits of the hosts' address families do not apply.
        sys_flag=int(ext.get("sysFlag") or 0) & ~0x30,
        born_timestamp=int(ext.get("bornTimestamp") or 0),
        born_host=_host(ext.get("bornHost")),
        store_timestamp=int(ext.get("storeTimestamp") or 0),
        store_host=_host(ext.get("storeHost")),
        reconsume_times=int(ext.get("reconsumeTimes") or 0),
        properties=properties,
    )
    return decode_messages(data, queue, namespace=namespace or "")[0]


def _host(text: str | None) -> tuple[str, int] | None:
    """Parse an address as Java prints it: ``ip:port`` after an optional slash."""
    try:
        return split_address((text or "").rpartition("/")[2])
    except (ValueError, RemotingError):
        return None
