"""ORBIT_SEND_ONCE: a send whose repeats are suppressed; the request is OrbitMQ's own.

The request is that of a plain or a batch send with an additional field ``scope``: the sender and
the number of its batch, ``sender/batch``. Every message has its id as UNIQ_KEY. Messages that are
already stored are left out. The others are appended as in any send, next to each other, and their
ids are noted afterwards. The answer is that of a send with an additional field ``suppressed``: the
number of messages left out. If all messages are left out, the answer still waits until the log is
flushed, if the broker is set up for that.

With the field ``repeatsOnly`` the send must contain only stored messages. If a message is not
stored yet, nothing is stored, and ``suppressed`` is the number of messages that are. A job that
runs again sends this field (see `orbitmq.spark.sink.runs`).

Checking, appending and noting happen in one step on the broker's event loop. If the same messages
are sent twice at the same time, one of the sends is suppressed.

A sender belongs to the account that signs its requests and to the topic. The same scope with
another account or topic is another sender. Without access control all senders have one account, the
empty text.

ORBIT_END_BATCH has a topic and a ``scope``. It announces that the batch will not be sent again,
because the job that sent it has ended. Its ids are dropped to make room for others. A later send of
the batch is rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq._native import (
    Appended,
    Command,
    NewMessage,
    SendRequest,
    encode_offset_id,
    parse_scope,
)
from orbitmq.broker.handlers.send import OWN_PROPERTIES, SendHandlers, nobody
from orbitmq.broker.transactions.half import is_transactional
from orbitmq.broker.write.dedup import Deduplication, SenderScope
from orbitmq.broker.write.writer import MessageWriter, delay_level
from orbitmq.errors import MalformedBatch
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import MessageFlag
from orbitmq.protocol.names import Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Refused, Router, respond, without_content

__all__ = ["SendOnceHandlers"]


@dataclass(slots=True)
class SendOnceHandlers:
    """Handles the requests of exactly-once senders."""

    sends: SendHandlers
    putting: MessageWriter
    deduplication: Deduplication
    owner: Callable[[Command], str] = nobody
    """Function that returns the text for the account that signed a request."""

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.send_once, [RequestCode.ORBIT_SEND_ONCE])
        router.add(self.end_batch, [RequestCode.ORBIT_END_BATCH])

    def send_once(self, request: Command, connection: Connection) -> Answer:
        """Store those messages of a send that are not stored yet."""
        sent = SendRequest(request)
        scope = self._scope(request, sent.topic)
        topic = self.sends.checked_topic(sent, connection)
        messages = self._messages(request, sent, topic, scope, connection)
        ids = [message.get_property(Property.UNIQUE_KEY) or "" for message in messages]
        known = self.deduplication.stored(scope, ids)
        new = [index for index, is_known in enumerate(known) if not is_known]
        if new and request.get_ext("repeatsOnly") == "true":
            return request.respond(ResponseCode.SUCCESS, None, self._ext(sent, [], sum(known)))
        appended: list[Appended] = []
        if new:
            self.deduplication.prepare()
            appended = self._put([messages[index] for index in new], is_batch=sent.is_batch)
            self.deduplication.add(scope, [ids[index] for index in new])
        ext = self._ext(sent, appended, len(messages) - len(new))
        store = self.putting.store
        end = appended[-1].end if appended else store.max_physical_offset
        waits = self.sends.acks is not None and sent.waits and end > store.flushed_offset
        if sent.topic in self.sends.unsaved:
            flushed = self.sends.flushed(end) if waits else None
            asked = without_content(request)
            return self._answer_when_saved(asked, sent.topic, ext, flushed)
        if not waits:
            return request.respond(ResponseCode.SUCCESS, None, ext)
        self._acknowledge_when_flushed(without_content(request), connection, ext, end)
        return None

    async def _answer_when_saved(
        self,
        request: Command,
        topic: str,
        ext: dict[str, str],
        flushed: asyncio.Future[bool] | None,
    ) -> Command:
        await self.sends.topic_saved(topic)
        in_time = flushed is None or await flushed
        code = ResponseCode.SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT
        return request.respond(code, None, ext)

    def end_batch(self, request: Command, _connection: Connection) -> Command:
        """Drop the ids of a batch that will not be sent again."""
        self.deduplication.end(self._scope(request, request.get_ext("b") or ""))
        return request.respond(ResponseCode.SUCCESS, None)

    def _messages(
        self,
        request: Command,
        sent: SendRequest,
        topic: TopicConfig,
        scope: SenderScope,
        connection: Connection,
    ) -> list[NewMessage]:
        host, cluster = self.sends.store_host, self.sends.config.broker_cluster_name
        queue_id = max(sent.queue_id, 0)
        sys_flag = self.sends.flagged(sent.sys_flag, topic)
        message = sent.message(queue_id, sys_flag, connection.remote, host, cluster)
        self._mark(message, scope)
        if not sent.is_batch:
            self._refuse_half(message)
            return [message]
        if len(request.body) > self.sends.config.max_message_size:
            raise self.putting.illegal()
        if not request.body:
            raise MalformedBatch("the batch is empty")
        message.set_property(Property.WAIT, None)
        messages = message.split()
        if OWN_PROPERTIES in request.body:
            for one in messages:
                self._mark(one, scope)
        self._refuse_half(message)
        return messages

    @staticmethod
    def _mark(message: NewMessage, scope: SenderScope) -> None:
        message.set_property(Property.SCOPE, scope.text)
        message.set_property(Property.ACCOUNT, scope.account or None)

    def _refuse_half(self, message: NewMessage) -> None:
        """Reject half messages: they are stored again and again until they are decided."""
        if message.sys_flag & MessageFlag.TRANSACTION_MASK or is_transactional(message):
            raise self.putting.illegal()

    def _put(self, messages: list[NewMessage], *, is_batch: bool) -> list[Appended]:
        if not is_batch:
            return [self.sends.placing.put(messages[0])]
        if any(delay_level(message) > 0 for message in messages):
            raise self.putting.illegal()
        return self.putting.put_batch(messages)

    def _ext(self, sent: SendRequest, appended: list[Appended], suppressed: int) -> dict[str, str]:
        host = self.sends.store_host
        offset = appended[0].queue_offset if appended else -1
        return {
            "msgId": ",".join([encode_offset_id(host, one.physical_offset) for one in appended]),
            "queueId": str(max(sent.queue_id, 0)),
            "queueOffset": str(offset),
            "suppressed": str(suppressed),
        }

    def _acknowledge_when_flushed(
        self, request: Command, connection: Connection, ext: dict[str, str], end: int
    ) -> None:
        def release(in_time: bool) -> None:
            code = ResponseCode.SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT
            if not request.is_oneway:
                connection.send(respond(request, code, ext=ext))

        assert self.sends.acks is not None
        self.sends.acks.when_flushed(end, release)

    def _scope(self, request: Command, topic: str) -> SenderScope:
        text = request.get_ext("scope") or ""
        parsed = parse_scope(text)
        if parsed is None:
            remark = f"scope {text!r} is not a sender and a batch: sender/7"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        return SenderScope(*parsed, topic=topic, account=self.owner(request))
