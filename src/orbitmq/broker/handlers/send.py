"""Sends: SEND_MESSAGE, its second version with short field names, and batches.

The order of the checks, the codes and the remarks are Java's. Every response contains the region
and the trace switch, whatever its code.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orbitmq._native import (
    Appended,
    Command,
    NewMessage,
    SendRequest,
    answer_send,
)
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.transactions.half import becomes_half, is_transactional
from orbitmq.broker.write.acks import FlushAcks
from orbitmq.broker.write.retry import is_dead_letter
from orbitmq.broker.write.timers import TimedWriter
from orbitmq.broker.write.writer import MessageWriter, delay_level
from orbitmq.config import BrokerConfig
from orbitmq.errors import MalformedBatch
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import MessageFlag, Permission
from orbitmq.protocol.names import (
    FAQ,
    NOT_ALLOWED_TO_SEND,
    RETRY_PREFIX,
    Property,
    dlq_topic,
    group_of_retry_topic,
    topic_name_fault,
)
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Refused, Router, without_content
from orbitmq.table_saver import TableSaver

__all__ = ["OWN_PROPERTIES", "SendHandlers", "nobody", "without_own_properties"]

SUCCESS = int(ResponseCode.SUCCESS)
"""Success code as a plain number: looking up an enumeration's member for each send is slow."""
TIMER_PROPERTIES = b"TIMER_DEL"
"""Bytes that occur in every batch with a delivery time, and hardly in any other."""
OWN_PROPERTIES = b"ORBIT_"
"""Bytes that occur in every batch with a property that only brokers write."""


def nobody(_request: Command) -> str:
    """Return the account of a request without access control: an empty text."""
    return ""


@dataclass(slots=True)
class SendHandlers:
    """Handles the sends of producers."""

    config: BrokerConfig
    topics: TopicTable
    groups: GroupTable
    putting: MessageWriter
    placing: TimedWriter
    store_host: tuple[str, int]
    acks: FlushAcks | None
    """Responses that wait for the disk; None unless a message is acknowledged after its flush."""
    saver: TableSaver
    """Saver of the topic table; signals when a topic created by a message is on disk."""
    half_owner: Callable[[Command], str] = nobody
    """Function that returns the text for the account of a half message's sender."""
    unsaved: set[str] = field(default_factory=set)
    """Topics created by messages and not on disk yet."""

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(
            self.send,
            [
                RequestCode.SEND_MESSAGE,
                RequestCode.SEND_MESSAGE_V2,
                RequestCode.SEND_BATCH_MESSAGE,
            ],
        )

    def send(self, request: Command, connection: Connection) -> Answer:
        """Store one message, or a batch of messages for one queue."""
        config = self.config
        try:
            sent = SendRequest(request)
            topic = self.checked_topic(sent, connection)
            queue_id = sent.queue_id
            if queue_id < 0:
                queue_id = random.randrange(max(1, topic.write_queue_nums))
            sys_flag = self.flagged(sent.sys_flag, topic)
            message = sent.message(
                queue_id, sys_flag, connection.remote, self.store_host, config.broker_cluster_name
            )
            if sent.is_plain:
                appended = [self.putting.put_plain(message)]
            elif sent.is_batch:
                appended = self._put_batch(request, message)
            else:
                without_own_properties(message)
                self._divert_to_dlq(request, sent, message)
                appended = [self._put(request, message)]
        except Refused as refused:
            refused.ext = {
                Property.MSG_REGION: config.region_id,
                Property.TRACE_ON: "true" if config.trace_on else "false",
            }
            raise

        def answer(code: int) -> Command:
            return answer_send(
                request,
                code,
                self.store_host,
                config.region_id,
                config.trace_on,
                queue_id,
                appended,
            )

        waits = self.acks is not None and sent.waits
        if self.unsaved and sent.topic in self.unsaved:
            flushed = self.flushed(appended[-1].end) if waits else None
            request = without_content(request)  # the body is not kept during the wait
            return self._answer_when_saved(answer, sent.topic, flushed)
        if not waits:
            return answer(SUCCESS)
        request = without_content(request)
        self._acknowledge_when_flushed(request, connection, answer, appended)
        return None

    def flushed(self, end: int) -> asyncio.Future[bool]:
        """Return a future: True if the log was flushed up to `end` in time."""
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def release(in_time: bool) -> None:
            if not flushed.done():
                flushed.set_result(in_time)

        assert self.acks is not None
        self.acks.when_flushed(end, release)
        return flushed

    async def _answer_when_saved(
        self,
        answer: Callable[[int], Command],
        topic: str,
        flushed: asyncio.Future[bool] | None,
    ) -> Command:
        """Answer once the new topic is on disk: without it the message could not be read."""
        await self.topic_saved(topic)
        in_time = flushed is None or await flushed
        return answer(SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT)

    async def topic_saved(self, topic: str) -> None:
        """Wait until a topic created by a message is on disk."""
        try:
            await self.saver.saved(hurry=False)
        finally:
            self.unsaved.discard(topic)

    def checked_topic(self, sent: SendRequest, connection: Connection) -> TopicConfig:
        """Return the topic of a message; create an unknown one if allowed, else reject the send."""
        config = self.config
        accept_from = config.start_accept_send_request_time_stamp
        if accept_from and self.putting.clock() < accept_from:
            text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(accept_from / 1000))
            remark = f"broker unable to service, until {text},{accept_from % 1000:03d}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        name = sent.topic
        topic = self.topics.find(name)
        if not config.broker_permission & Permission.WRITE and topic is not None and topic.order:
            remark = f"the broker[{self.store_host[0]}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if topic is None or name in NOT_ALLOWED_TO_SEND:
            if fault := topic_name_fault(name):
                raise Refused(ResponseCode.SYSTEM_ERROR, fault)
            if name in NOT_ALLOWED_TO_SEND:
                remark = f"Sending message to topic[{name}] is forbidden."
                raise Refused(ResponseCode.NO_PERMISSION, remark)
            topic = self.topics.create_by_send(
                name,
                sent.default_topic,
                sent.default_topic_queue_nums,
                unit_mode=sent.unit_mode,
            )
            if topic is not None:
                self.unsaved.add(name)
        if topic is None:
            remark = f"topic[{name}] not exist, apply first please!{FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        if sent.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{sent.queue_id}] is illegal, {topic} "
                f"Producer: {connection.remote_text}",
            )
        return topic

    @staticmethod
    def flagged(sys_flag: int, topic: TopicConfig) -> int:
        """Return a message's system flag, with MULTI_TAGS if the topic has that filter type."""
        return (
            sys_flag | MessageFlag.MULTI_TAGS
            if topic.topic_filter_type == "MULTI_TAG"
            else sys_flag
        )

    def _divert_to_dlq(self, request: Command, sent: SendRequest, message: NewMessage) -> None:
        """Redirect a message that was retried too often to the dead-letter topic of its group."""
        if not sent.topic.startswith(RETRY_PREFIX):
            return
        name = group_of_retry_topic(sent.topic)
        group = self.groups.find(name)
        if group is None:
            remark = f"subscription group not exist, {name} {FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if is_dead_letter(
            group,
            sent.reconsume_times,
            client_version=request.version,
            requested_limit=sent.max_reconsume_times,
        ):
            message.topic = dlq_topic(name)
            if self.topics.find(message.topic) is None:
                self.topics.find_or_create(message.topic, 1)
                self.unsaved.add(sent.topic)
            message.queue_id = 0

    def _put(self, request: Command, message: NewMessage) -> Appended:
        if not is_transactional(message):
            return self.placing.put(message)
        if self.config.reject_transaction_message:
            remark = f"the broker[{self.store_host[0]}] sending transaction message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        self.placing.wishes.due_ms(message)  # reject an invalid delivery time before the commit
        self.putting.check_topic(message)
        becomes_half(message)
        if owner := self.half_owner(request):
            message.set_property(Property.ACCOUNT, owner)
        return self.putting.put_as_is(message)

    def _put_batch(self, request: Command, message: NewMessage) -> list[Appended]:
        if not request.body:
            raise MalformedBatch("the batch is empty")
        if len(request.body) > self.config.max_message_size:
            raise self.putting.illegal()
        if message.sys_flag & MessageFlag.TRANSACTION_MASK or delay_level(message) > 0:
            raise self.putting.illegal()
        messages = message.split()
        if OWN_PROPERTIES in request.body or any(map(message.get_property, Property.OF_BROKERS)):
            for one in messages:
                without_own_properties(one)
        if TIMER_PROPERTIES in request.body and self.placing.wait_for_a_time(messages):
            # Each message has its own time, so they cannot be appended as one batch.
            return [self.placing.put(one) for one in messages]
        return self.putting.put_batch(messages)

    def _acknowledge_when_flushed(
        self,
        request: Command,
        connection: Connection,
        answer: Callable[[int], Command],
        appended: list[Appended],
    ) -> None:
        def release(in_time: bool) -> None:
            if not request.is_oneway:
                connection.send(answer(SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT))

        assert self.acks is not None
        self.acks.when_flushed(appended[-1].end, release)


def without_own_properties(message: NewMessage) -> None:
    """Remove the properties that only brokers write.

    A consumed message that a client sends again may contain them.
    """
    for name in Property.OF_BROKERS:
        message.set_property(name, None)
