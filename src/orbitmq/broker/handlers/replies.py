"""SEND_REPLY_MESSAGE: pushes a reply to the client that sent the request, and stores the reply.

A request message contains the id of its client (`REPLY_TO_CLIENT`). The replier sends the reply to
the reply topic of the broker that the request came from. The broker finds the client among its
producers, pushes the reply to it, and waits for the client's answer. The response code is that of
the push: a reply that does not reach its client is a failure, even if the reply was stored. Checks,
order and remarks are Java's.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass

from orbitmq._native import (
    Appended,
    Command,
    NewMessage,
    SendRequest,
    decode_properties,
    encode_offset_id,
    encode_properties,
)
from orbitmq.broker.handlers.send import SendHandlers, without_own_properties
from orbitmq.broker.state.clients import ProducerClients
from orbitmq.errors import OrbitError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, awaits_peer, respond

__all__ = ["ReplyHandlers"]

_log = logging.getLogger(__name__)

PUSH_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class ReplyHandlers:
    """Handles replies to request messages."""

    sends: SendHandlers
    producers: ProducerClients

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        codes = [RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2]
        router.add(awaits_peer(self.reply), codes)

    async def reply(self, request: Command, connection: Connection) -> Command:
        """Push a reply to the client that sent the request, then store the reply."""
        config = self.sends.config
        ext = {
            Property.MSG_REGION: config.region_id,
            Property.TRACE_ON: "true" if config.trace_on else "false",
        }
        try:
            sent = SendRequest(_as_send(request))
            topic = self.sends.checked_topic(sent, connection)
        except Refused as refused:
            refused.ext = ext
            raise
        message = sent.message(
            sent.queue_id, sent.sys_flag, connection.remote, self.sends.store_host, ""
        )
        text = request.get_ext("properties" if _is_long(request) else "i") or ""
        properties = decode_properties(text)
        fault = await self._push(sent, message, properties, connection)
        queue_id = sent.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(1, topic.write_queue_nums))
        if fault is None:
            ext |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
        if config.store_reply_message_enable and (appended := self._store(message, text, queue_id)):
            ext |= {
                "msgId": encode_offset_id(self.sends.store_host, appended.physical_offset),
                "queueId": str(queue_id),
                "queueOffset": str(appended.queue_offset),
            }
        code = ResponseCode.SUCCESS if fault is None else ResponseCode.SYSTEM_ERROR
        return respond(request, code, fault, ext=ext)

    async def _push(
        self,
        sent: SendRequest,
        message: NewMessage,
        properties: dict[str, str],
        replier: Connection,
    ) -> str | None:
        """Push the reply to its client; return the reason of a failure, None on success."""
        asker = properties.get(Property.REPLY_TO_CLIENT)
        if asker is None:
            return f"reply message properties[{Property.REPLY_TO_CLIENT}] is null"
        connection = self.producers.of_client(asker)
        if connection is None:
            return f"push reply message fail, channel of <{asker}> not found."
        now_ms = self.sends.putting.clock()
        host, port = self.sends.store_host
        ext = {
            "producerGroup": sent.producer_group,
            "topic": sent.topic,
            "defaultTopic": sent.default_topic,
            "defaultTopicQueueNums": str(sent.default_topic_queue_nums),
            "queueId": str(sent.queue_id),
            "sysFlag": str(sent.sys_flag),
            "bornTimestamp": str(message.born_timestamp),
            "flag": str(message.flag),
            "properties": encode_properties(properties | {Property.PUSH_REPLY_TIME: str(now_ms)}),
            "reconsumeTimes": str(sent.reconsume_times),
            "unitMode": "true" if sent.unit_mode else "false",
            "bornHost": replier.remote_text,
            "storeHost": f"{host}:{port}",
            "storeTimestamp": str(now_ms),
        }
        try:
            answer = await connection.invoke(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
                ext=ext,
                body=message.body,
                timeout_ms=PUSH_TIMEOUT_MS,
            )
        except OrbitError as error:
            _log.warning(
                "cannot push a reply to client %s, the replier gets the failure: %s", asker, error
            )
            return f"push reply message to {asker}fail."
        if answer.code != ResponseCode.SUCCESS:
            _log.warning(
                "client %s rejected a reply, the replier gets the failure: %s",
                asker,
                answer.remark,
            )
            return f"push reply message to {asker}fail."
        return None

    def _store(self, message: NewMessage, properties: str, queue_id: int) -> Appended | None:
        """Store the reply as received; log a failure, which does not affect the response code."""
        kept = NewMessage(
            message.topic,
            message.body,
            queue_id=queue_id,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=self.sends.store_host,
            reconsume_times=message.reconsume_times,
            properties=properties,
        )
        without_own_properties(kept)
        try:
            return self.sends.putting.put_as_is(kept)
        except OrbitError as error:
            _log.warning("cannot store a reply, going on without it: %s", error)
            return None


def _is_long(request: Command) -> bool:
    return request.code == RequestCode.SEND_REPLY_MESSAGE


def _as_send(request: Command) -> Command:
    """Return the send request with the header of a reply.

    Every code but SEND_MESSAGE has short field names, so only the first version is converted.
    """
    if not _is_long(request):
        return request
    return Command(RequestCode.SEND_MESSAGE, ext=request.ext, body=request.body)
