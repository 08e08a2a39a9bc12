"""Administration of topics: creation, deletion, lists, queue ends."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from orbitmq._native import Command, Store, dumps_lenient
from orbitmq.broker.read.lag import ConsumeStats
from orbitmq.broker.registration import Registrar
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header
from orbitmq.protocol.limits import MAX_QUEUES
from orbitmq.protocol.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    topic_name_fault,
)
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond
from orbitmq.table_saver import TableSaver

__all__ = ["KEPT_WITHOUT_CONFIG", "NOT_ON_SLAVE", "TopicAdminHandlers", "TopicHeader"]

_log = logging.getLogger(__name__)

NOT_ON_SLAVE = (
    "Can't modify topic or subscription group from slave broker, "
    "please execute it from master broker."
)
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
KEPT_WITHOUT_CONFIG = frozenset(
    {SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC}
)
"""Topics whose queues are always kept, although they may have no configuration."""


class TopicHeader(Header):
    """Name of a topic."""

    topic: str


class CreateTopicHeader(Header):
    """A topic with its new settings."""

    topic: str | None = None
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str
    topic_sys_flag: int = 0


@dataclass(slots=True)
class TopicAdminHandlers:
    """Handles operators' requests about topics."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    offsets: ConsumerOffsets
    stats: BrokerStats
    saver: TableSaver
    registration: Registrar
    progress: ConsumeStats

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.create, [RequestCode.UPDATE_AND_CREATE_TOPIC])
        router.add(self.delete, [RequestCode.DELETE_TOPIC_IN_BROKER])
        router.add(self.all_topics, [RequestCode.GET_ALL_TOPIC_CONFIG])
        router.add(self.system_topics, [RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER])
        router.add(self.topic_stats, [RequestCode.GET_TOPIC_STATS_INFO])
        router.add(self.clean_unused, [RequestCode.CLEAN_UNUSED_TOPIC])

    async def create(self, request: Command, _connection: Connection) -> Command:
        """Create or replace a topic; answer once the topic is on disk and registered."""
        self._refuse_on_slave()
        name = self._checked_name((request.ext or {}).get("topic"))
        header = CreateTopicHeader.decode(request)
        if header.topic_filter_type not in FILTER_TYPES:
            remark = f"{header.topic_filter_type} is no filter type of topics"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        for field in ("read_queue_nums", "write_queue_nums"):
            if not 0 <= getattr(header, field) <= MAX_QUEUES:
                remark = (
                    f"topic[{name}] cannot have {getattr(header, field)} queues, "
                    f"the limit is {MAX_QUEUES}"
                )
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        topic = TopicConfig(
            name,
            header.read_queue_nums,
            header.write_queue_nums,
            header.perm,
            header.topic_filter_type,
            header.topic_sys_flag,
        )
        self.topics.put(topic, announce=False)
        await self.saver.saved()
        await self.registration.register()
        return respond(request)

    async def delete(self, request: Command, _connection: Connection) -> Command:
        """Delete a topic, its queues and its offsets; succeeds also if there is no such topic.

        Java also deletes the queues of every other topic without a configuration here. If a part
        of the topic table was lost, that would delete messages. Therefore the queues of other
        topics are left to CLEAN_UNUSED_TOPIC.
        """
        self._refuse_on_slave()
        name = self._checked_name((request.ext or {}).get("topic"))
        self.topics.delete(name)
        self._remove_queues(name)
        await self.saver.saved()
        return respond(request)

    def clean_unused(self, request: Command, _connection: Connection) -> Command:
        """Delete the queues of topics without a configuration."""
        for topic in {topic for topic, _ in self.store.queues()}:
            if self.topics.find(topic) is None and topic not in KEPT_WITHOUT_CONFIG:
                self._remove_queues(topic)
        return respond(request)

    def _remove_queues(self, topic: str) -> None:
        count = self.store.remove_topic(topic)
        _log.info("deleted %d queues of topic %s", count, topic)
        self.offsets.forget_topic(topic)
        if self.config.auto_delete_unused_stats:
            self.stats.forget_topic(topic)

    def _refuse_on_slave(self) -> None:
        if self.config.broker_role == "SLAVE":
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_ON_SLAVE)

    def _checked_name(self, name: str | None) -> str:
        if fault := topic_name_fault(name):
            raise Refused(ResponseCode.SYSTEM_ERROR, fault)
        assert name is not None
        if self.topics.is_system(name):
            remark = f"The topic[{name}] is conflict with system topic."
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return name

    def all_topics(self, request: Command, _connection: Connection) -> Command:
        """Return the whole table of topics."""
        return respond(request, body=dumps_lenient(self.topics.as_json()))

    def system_topics(self, request: Command, _connection: Connection) -> Command:
        """Return the topics that clients cannot create or delete."""
        return respond(request, body=dumps_lenient({"topicList": sorted(self.topics.own)}))

    async def topic_stats(self, request: Command, _connection: Connection) -> Command:
        """Return the first and last offset of each queue of a topic, and its last store time."""
        name = TopicHeader.decode(request).topic
        topic = self.topics.find(name)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return respond(request, body=dumps_lenient(await self.progress.of_topic(topic)))
