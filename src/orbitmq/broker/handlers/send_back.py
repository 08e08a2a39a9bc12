"""CONSUMER_SEND_MSG_BACK: a consumer returns a message it could not handle, to retry it later.

The message goes to the group's retry topic, through the delay queue of a level that grows with each
try. After the last try it goes to the group's dead-letter topic.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from orbitmq._native import Command, NewMessage, Record, Store, decode_records
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.write.retry import is_dead_letter, retry_level
from orbitmq.broker.write.writer import MessageWriter, copy_of
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import SubscriptionGroup
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import FAQ, Property, dlq_topic, group_name_fault, retry_topic
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Refused, Router, respond
from orbitmq.table_saver import TableSaver

__all__ = ["SendBackHandlers"]


class SendBackHeader(Header):
    """Header of a send-back: a message and the group that could not handle it."""

    offset: Long
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None


@dataclass(slots=True)
class SendBackHandlers:
    """Handles messages that consumers send back."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    groups: GroupTable
    putting: MessageWriter
    stats: BrokerStats
    store_host: tuple[str, int]
    saver: TableSaver

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.send_back, [RequestCode.CONSUMER_SEND_MSG_BACK])

    def send_back(self, request: Command, _connection: Connection) -> Answer:
        """Put a message into the group's retry topic or its dead-letter topic."""
        header, before = SendBackHeader.decode(request), self.topics.version
        if fault := group_name_fault(header.group):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"field group {fault}")
        group = self.groups.find(header.group)
        if group is None:
            remark = f"subscription group not exist, {header.group} {FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not self.config.broker_permission & Permission.WRITE:
            remark = f"the broker[{self.store_host[0]}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if group.retry_queue_nums <= 0:
            return respond(request)
        topic = self.topics.find_or_create(
            retry_topic(header.group), group.retry_queue_nums, unit_mode=header.unit_mode
        )
        if not topic.is_writable:
            remark = f"the topic[{topic.topic_name}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        data = self.store.record_at(header.offset)
        if data is None:
            remark = f"look message by offset failed, {header.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        (record,) = decode_records(data, check_crc=False)
        self.putting.put(self._again(request, header, group, record), from_producer=False)
        self.stats.sent_back(
            record.get_property(Property.RETRY_TOPIC) or record.topic, header.group
        )
        response = respond(request)
        return response if self.topics.version is before else self._when_saved(response)

    async def _when_saved(self, response: Command) -> Command:
        """Return the response once the topic that was created for the message is on disk."""
        await self.saver.saved(hurry=False)
        return response

    def _again(
        self, request: Command, header: SendBackHeader, group: SubscriptionGroup, record: Record
    ) -> NewMessage:
        if is_dead_letter(
            group,
            record.reconsume_times,
            client_version=request.version,
            requested_limit=header.max_reconsume_times,
            delay_level=header.delay_level,
        ):
            topic, queue_id, level = dlq_topic(header.group), 0, 0
            self.topics.find_or_create(topic, 1)
        else:
            topic = retry_topic(header.group)
            queue_id = random.randrange(group.retry_queue_nums)
            level = retry_level(header.delay_level, record.reconsume_times)
        message = copy_of(
            record,
            topic,
            queue_id,
            store_host=self.store_host,
            reconsume_times=record.reconsume_times + 1,
        )
        if message.get_property(Property.RETRY_TOPIC) is None:
            message.set_property(Property.RETRY_TOPIC, record.topic)
        if message.get_property(Property.ORIGIN_MESSAGE_ID) is None:
            message.set_property(Property.ORIGIN_MESSAGE_ID, record.offset_id)
        message.set_property(Property.WAIT, "false")
        message.set_property(Property.DELAY, str(level))
        return message
