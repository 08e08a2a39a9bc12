"""Sending: SEND_MESSAGE, its short-named second version, and batches.

The order of the checks, the codes and the remarks are Java's. A response carries the region and the
trace switch whatever its code.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from orbitmq._native import (
    Appended,
    Command,
    NewMessage,
    decode_batch,
    encode_offset_id,
    join_batch_properties,
)
from orbitmq.broker.acks import FlushAcks
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.putting import Putting, delay_level, waits
from orbitmq.broker.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.errors import MalformedBatch
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import MessageFlag, Permission, Version
from orbitmq.protocol.headers import Header, Long
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
from orbitmq.remoting.handling import Refused, Router, respond

__all__ = ["SendHandlers", "SendHeader"]


class SendHeader(Header):
    """What a producer says of a message."""

    producer_group: str = ""
    topic: str = ""
    default_topic: str = ""
    default_topic_queue_nums: int = 0
    queue_id: int
    sys_flag: int
    born_timestamp: Long
    flag: int
    properties: str = ""
    reconsume_times: int = 0
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    batch: bool = False


class ShortSendHeader(SendHeader):
    """The same with one letter for each name."""

    strict = True
    wire_names = {  # noqa: RUF012
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
    }


@dataclass(slots=True)
class SendHandlers:
    """Answers producers."""

    config: BrokerConfig
    topics: TopicTable
    groups: GroupTable
    putting: Putting
    store_host: tuple[str, int]
    acks: FlushAcks | None
    """Set when a message must be on disk before it is acknowledged."""

    def register(self, router: Router) -> None:
        """Take over the codes of this family."""
        router.add(
            self.send,
            [
                RequestCode.SEND_MESSAGE,
                RequestCode.SEND_MESSAGE_V2,
                RequestCode.SEND_BATCH_MESSAGE,
            ],
        )

    def send(self, request: Command, connection: Connection) -> Command | None:
        """Take one message, or a batch of them for one queue."""
        ext = self._always()
        try:
            short = request.code != RequestCode.SEND_MESSAGE
            header = (ShortSendHeader if short else SendHeader).decode(request)
            topic = self.checked_topic(header, connection)
            queue_id = header.queue_id
            if queue_id < 0:
                queue_id = random.randrange(max(1, topic.write_queue_nums))
            message = self._message(request, header, topic, queue_id, connection)
            # Asked before the message forgets it.
            must_be_safe = self.acks is not None and waits(message)
            if header.batch:
                appended = self._put_batch(request, message)
            else:
                self._divert_to_dlq(request, header, message)
                self._refuse_transaction(message)
                appended = [self.putting.put(message)]
        except Refused as refused:
            refused.ext = ext
            raise
        host = self.store_host
        ext["msgId"] = ",".join([encode_offset_id(host, one.physical_offset) for one in appended])
        ext["queueId"] = str(queue_id)
        ext["queueOffset"] = str(appended[0].queue_offset)
        if not must_be_safe:
            return request.respond(ResponseCode.SUCCESS, None, ext)
        self._acknowledge_when_flushed(request, connection, ext, appended)
        return None

    def _always(self) -> dict[str, str]:
        return {
            Property.MSG_REGION: self.config.region_id,
            Property.TRACE_ON: "true" if self.config.trace_on else "false",
        }

    def checked_topic(self, header: SendHeader, connection: Connection) -> TopicConfig:
        """Return the topic a message is for, created if that is allowed; or refuse."""
        config = self.config
        accept_from = config.start_accept_send_request_time_stamp
        if accept_from and self.putting.clock() < accept_from:
            text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(accept_from / 1000))
            remark = f"broker unable to service, until {text},{accept_from % 1000:03d}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        topic = self.topics.find(header.topic)
        if not config.broker_permission & Permission.WRITE and topic is not None and topic.order:
            remark = f"the broker[{self.store_host[0]}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if topic is None or header.topic in NOT_ALLOWED_TO_SEND:
            if fault := topic_name_fault(header.topic):
                raise Refused(ResponseCode.SYSTEM_ERROR, fault)
            if header.topic in NOT_ALLOWED_TO_SEND:
                remark = f"Sending message to topic[{header.topic}] is forbidden."
                raise Refused(ResponseCode.NO_PERMISSION, remark)
            topic = self.topics.create_by_send(
                header.topic,
                header.default_topic,
                header.default_topic_queue_nums,
                unit_mode=header.unit_mode,
            )
        if topic is None:
            remark = f"topic[{header.topic}] not exist, apply first please!{FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        if header.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{header.queue_id}] is illegal, {topic} "
                f"Producer: {connection.remote_text}",
            )
        return topic

    def _message(
        self,
        request: Command,
        header: SendHeader,
        topic: TopicConfig,
        queue_id: int,
        connection: Connection,
    ) -> NewMessage:
        sys_flag = header.sys_flag
        if topic.topic_filter_type == "MULTI_TAG":
            sys_flag |= MessageFlag.MULTI_TAGS
        message = NewMessage(
            header.topic,
            request.body,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=connection.remote,
            store_host=self.store_host,
            reconsume_times=header.reconsume_times,
            properties=header.properties,
        )
        message.set_property(Property.CLUSTER, self.config.broker_cluster_name)
        return message

    def _divert_to_dlq(self, request: Command, header: SendHeader, message: NewMessage) -> None:
        """Send a message that its consumer has sent back too often to the dead letters."""
        if not header.topic.startswith(RETRY_PREFIX):
            return
        name = group_of_retry_topic(header.topic)
        group = self.groups.find(name)
        if group is None:
            remark = f"subscription group not exist, {name} {FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        limit = group.retry_max_times
        if header.max_reconsume_times is not None and request.version >= Version.V3_4_9:
            limit = header.max_reconsume_times
        if header.reconsume_times >= limit:
            message.topic = dlq_topic(name)
            self.topics.find_or_create(message.topic, 1)
            message.queue_id = 0

    def _refuse_transaction(self, message: NewMessage) -> None:
        if (message.get_property(Property.TRANSACTION) or "").lower() != "true":
            return
        remark = f"the broker[{self.store_host[0]}] sending transaction message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, remark)

    def _put_batch(self, request: Command, message: NewMessage) -> list[Appended]:
        if not request.body:
            raise MalformedBatch("the batch is empty")
        if len(request.body) > self.config.max_message_size:
            raise self.putting.illegal()
        if message.sys_flag & MessageFlag.TRANSACTION_MASK or delay_level(message) > 0:
            raise self.putting.illegal()
        # The batch's own properties follow those of each message: the later one counts. They are
        # stored as they are, equal names and all.
        messages = [
            NewMessage(
                message.topic,
                body,
                queue_id=message.queue_id,
                flag=flag,
                sys_flag=message.sys_flag,
                born_timestamp=message.born_timestamp,
                born_host=message.born_host,
                store_host=message.store_host,
                reconsume_times=message.reconsume_times,
                properties=join_batch_properties(own, message.properties_text),
            )
            for flag, body, own in decode_batch(request.body)
        ]
        return self.putting.put_batch(messages)

    def _acknowledge_when_flushed(
        self,
        request: Command,
        connection: Connection,
        ext: dict[str, str],
        appended: list[Appended],
    ) -> None:
        def release(in_time: bool) -> None:
            code = ResponseCode.SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT
            if not request.is_oneway:
                connection.send(respond(request, code, ext=ext))

        assert self.acks is not None
        self.acks.when_flushed(appended[-1].end, release)
