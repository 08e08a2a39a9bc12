"""Administration of consumer groups' offsets: tables, progress, correction, copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Command, Store, dumps_lenient
from orbitmq.broker.handlers.admin.topics import TopicHeader
from orbitmq.broker.read.lag import ConsumeStats, queue_ids
from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.write.delay import DelayService
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import MessageQueue, TopicConfig
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond

__all__ = ["OffsetAdminHandlers"]


class ConsumeStatsHeader(Header):
    """A group, and optionally one of its topics."""

    consumer_group: str
    topic: str | None = None


class TimeSpanHeader(Header):
    """A group and a topic."""

    topic: str
    group: str


class CorrectionHeader(Header):
    """A topic, and groups that are left out."""

    topic: str
    compare_group: str | None = None
    filter_groups: str | None = None


class CloneHeader(Header):
    """Source and destination group of a copy of offsets."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(slots=True)
class OffsetAdminHandlers:
    """Handles operators' requests about offsets."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    groups: GroupTable
    consumers: ConsumerClients
    offsets: ConsumerOffsets
    delay: DelayService
    progress: ConsumeStats
    clock: Callable[[], int]

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.all_offsets, [RequestCode.GET_ALL_CONSUMER_OFFSET])
        router.add(self.delay_offsets, [RequestCode.GET_ALL_DELAY_OFFSET])
        router.add(self.consume_stats, [RequestCode.GET_CONSUME_STATS])
        router.add(self.broker_consume_stats, [RequestCode.GET_BROKER_CONSUME_STATS])
        router.add(self.consumed_by, [RequestCode.QUERY_TOPIC_CONSUME_BY_WHO])
        router.add(self.time_span, [RequestCode.QUERY_CONSUME_TIME_SPAN])
        router.add(self.correction, [RequestCode.QUERY_CORRECTION_OFFSET])
        router.add(self.clone, [RequestCode.CLONE_GROUP_OFFSET])

    # ---- Whole tables, which slaves copy

    def all_offsets(self, request: Command, _connection: Connection) -> Command:
        """Return the offsets of all groups."""
        return respond(request, body=dumps_lenient(self.offsets.as_json()))

    def delay_offsets(self, request: Command, _connection: Connection) -> Command:
        """Return the delivered offsets of the delay levels."""
        return respond(request, body=dumps_lenient(self.delay.as_json()))

    # ---- Progress of groups

    async def consume_stats(self, request: Command, _connection: Connection) -> Command:
        """Return the progress of a group in one topic, or in all topics it has offsets for."""
        header = ConsumeStatsHeader.decode(request)
        group = header.consumer_group
        one = (header.topic or "").strip()
        topics = [header.topic or ""] if one else self.offsets.topics_of(group)
        return respond(request, body=dumps_lenient(await self.progress.of_group(group, topics)))

    async def broker_consume_stats(self, request: Command, _connection: Connection) -> Command:
        """Return the progress of every group."""
        only_ordered = (request.ext or {}).get("isOrder", "").lower() == "true"
        stats = await self.progress.by_group(self.groups.groups, only_ordered=only_ordered)
        return respond(request, body=dumps_lenient({"brokerAddr": self.config.address, **stats}))

    def consumed_by(self, request: Command, _connection: Connection) -> Command:
        """Return the groups that consume a topic, or have done so."""
        topic = TopicHeader.decode(request).topic
        groups = {*self.consumers.groups_of(topic), *self.offsets.groups_of(topic)}
        return respond(request, body=dumps_lenient({"groupList": sorted(groups)}))

    async def time_span(self, request: Command, _connection: Connection) -> Command:
        """Return the store times of the oldest, newest and last consumed message of each queue."""
        header = TimeSpanHeader.decode(request)
        topic = self.topics.find(header.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        spans = [
            self._span(topic, header.group, queue_id)
            async for queue_id in queue_ids(topic.write_queue_nums)
        ]
        return respond(request, body=dumps_lenient({"consumeTimeSpanSet": spans}))

    def _span(self, topic: TopicConfig, group: str, queue_id: int) -> dict[str, Any]:
        name = topic.topic_name
        earliest = self.store.earliest_store_time(name, queue_id)
        oldest = -1 if earliest is None else earliest
        end = self.store.max_offset(name, queue_id)
        consumed = self.offsets.get(name, group, queue_id) or 0
        times = {
            "consumeTimeStamp": self.progress.stored_at(name, queue_id, consumed - 1)
            if consumed > 0
            else oldest,
            "maxTimeStamp": self.progress.stored_at(name, queue_id, end - 1),
            "minTimeStamp": oldest,
        }
        delay = 0
        if consumed < end:
            delay = self.clock() - self.progress.stored_at(name, queue_id, max(consumed, 0))
        return {
            **times,
            **{f"{key}Str": _java_time(value) for key, value in times.items()},
            "delayTime": delay,
            "messageQueue": MessageQueue(name, self.config.broker_name, queue_id).as_json(),
        }

    # ---- Correction and copies

    def correction(self, request: Command, _connection: Connection) -> Command:
        """Return, by queue, the offset of the group that is farthest behind.

        Java's broker deletes the offsets of the groups to leave out. This broker only leaves them
        out.
        """
        header = CorrectionHeader.decode(request)
        left_out = set((header.filter_groups or "").split(","))
        least: dict[int, int] = {}
        for group in self.offsets.groups_of(header.topic):
            if group in left_out:
                continue
            for queue_id, offset in self.offsets.of_group(header.topic, group).items():
                if offset >= self.store.min_offset(header.topic, queue_id):
                    least[queue_id] = min(offset, least.get(queue_id, offset))
        body = {"correctionOffsets": dict(sorted(least.items()))}
        return respond(request, body=dumps_lenient(body))

    def clone(self, request: Command, _connection: Connection) -> Command:
        """Copy the offsets of a group to another group, for one topic or for all topics."""
        header = CloneHeader.decode(request)
        one = (header.topic or "").strip()
        topics = [header.topic or ""] if one else self.offsets.topics_of(header.src_group)
        online = self.consumers.groups.get(header.src_group)
        wanted = online.subscriptions if online is not None and not header.offline else {}
        for topic in topics:
            if self.topics.find(topic) is not None and (not wanted or topic in wanted):
                self.offsets.clone(topic, header.src_group, header.dest_group)
        return respond(request)


def _java_time(timestamp_ms: int) -> str:
    seconds, millis = divmod(timestamp_ms, 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(seconds)) + f":{millis:03d}"
