"""ORBIT_SEND_ONCE: a send whose repeats are suppressed, OrbitMQ's own.

The request is that of a plain or a batch send with one field more, ``scope``: the sender and the
number of its batch, ``sender/batch``. Every message has its id as UNIQ_KEY. What is stored already
is left out; the rest is appended as ever, side by side, and only then noted. The answer is a send's
with one field more, ``suppressed``: how many were left out. When that is all of them, the answer
still waits until the log is as safe as the broker is set up to make it.

Checking, appending and noting happen in one go on the broker's loop: of two attempts that send the
same thing at the same time one is suppressed.

ORBIT_END_BATCH, with topic and ``scope``: the batch will not be sent again, as its sender is a job
that is over. Its ids make room for those of others; who sends it all the same is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq._native import (
    Appended,
    Command,
    NewMessage,
    SendRequest,
    encode_offset_id,
    parse_scope,
)
from orbitmq.broker.deduplication import Deduplication
from orbitmq.broker.handlers.send import SendHandlers
from orbitmq.broker.putting import Putting, delay_level
from orbitmq.errors import MalformedBatch
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import Property
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.handling import Refused, Router, respond, without_content

__all__ = ["SendOnceHandlers"]


@dataclass(slots=True)
class SendOnceHandlers:
    """Answers exactly-once senders."""

    sends: SendHandlers
    putting: Putting
    deduplication: Deduplication

    def register(self, router: Router) -> None:
        """Take over the codes of this family."""
        router.add(self.send_once, [RequestCode.ORBIT_SEND_ONCE])
        router.add(self.end_batch, [RequestCode.ORBIT_END_BATCH])

    def send_once(self, request: Command, connection: Connection) -> Command | None:
        """Store what is not stored yet of a message or a batch."""
        sent = SendRequest(request)
        scope, sender, batch = _scope(request)
        topic = self.sends.checked_topic(sent, connection)
        messages = self._messages(request, sent, topic, scope, connection)
        ids = [message.get_property(Property.UNIQUE_KEY) or "" for message in messages]
        known = self.deduplication.stored(sender, batch, ids)
        new = [index for index, is_known in enumerate(known) if not is_known]
        appended: list[Appended] = []
        if new:
            self.deduplication.prepare()
            appended = self._put([messages[index] for index in new], is_batch=sent.is_batch)
            self.deduplication.add(sender, batch, [ids[index] for index in new])
        ext = self._ext(sent, appended, len(messages) - len(new))
        store = self.putting.store
        end = appended[-1].end if appended else store.max_physical_offset
        if self.sends.acks is None or not sent.waits or end <= store.flushed_offset:
            return request.respond(ResponseCode.SUCCESS, None, ext)
        self._acknowledge_when_flushed(without_content(request), connection, ext, end)
        return None

    def end_batch(self, request: Command, _connection: Connection) -> Command:
        """Let go of the ids of a batch that will not be sent again."""
        _, sender, batch = _scope(request)
        self.deduplication.end(sender, batch)
        return request.respond(ResponseCode.SUCCESS, None)

    def _messages(
        self,
        request: Command,
        sent: SendRequest,
        topic: TopicConfig,
        scope: str,
        connection: Connection,
    ) -> list[NewMessage]:
        host, cluster = self.sends.store_host, self.sends.config.broker_cluster_name
        queue_id = max(sent.queue_id, 0)
        sys_flag = self.sends.flagged(sent.sys_flag, topic)
        message = sent.message(queue_id, sys_flag, connection.remote, host, cluster)
        message.set_property(Property.SCOPE, scope)
        if not sent.is_batch:
            return [message]
        if len(request.body) > self.sends.config.max_message_size:
            raise self.putting.illegal()
        if not request.body:
            raise MalformedBatch("the batch is empty")
        message.set_property(Property.WAIT, None)
        return message.split()

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


def _scope(request: Command) -> tuple[str, str, int]:
    """Return the scope of a request, as it is and in its two parts."""
    scope = request.get_ext("scope") or ""
    parsed = parse_scope(scope)
    if parsed is None:
        remark = f"scope {scope!r} is not a sender and a batch: sender/7"
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
    return scope, *parsed
