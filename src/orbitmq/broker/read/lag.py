"""Ends of queues and progress of their consumers, for operators.

This module only reads. Times are epoch milliseconds; -1 means no time, as on the wire. A topic may
have thousands of queues, so the event loop serves others after every `QUEUES_PER_TURN` queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from orbitmq._native import Store, decode_records
from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import MessageQueue, TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.remoting.router import Refused

__all__ = ["PERIOD_MS", "ConsumeStats", "SlowConsumers", "queue_ids"]

NO_TIME = -1
QUEUES_PER_TURN = 256
MAX_LISTED = 50_000
"""Maximum number of queues in one answer, which has to fit into a frame."""


@dataclass(slots=True)
class ConsumeStats:
    """Computes progress from the store and from the offsets of groups."""

    broker_name: str
    store: Store
    topics: TopicTable
    offsets: ConsumerOffsets
    consumers: ConsumerClients
    stats: BrokerStats

    def stored_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of the message at a queue offset."""
        unit = self.store.unit_at(topic, queue_id, queue_offset) if queue_offset >= 0 else None
        return NO_TIME if unit is None else self.stored_at_physical(unit[0])

    def stored_at_physical(self, physical_offset: int) -> int:
        """Return the store time of the message at a physical offset."""
        data = self.store.record_at(physical_offset)
        if data is None:
            return NO_TIME
        (record,) = decode_records(data, check_crc=False)
        return record.store_timestamp

    async def of_topic(self, topic: TopicConfig) -> dict[Any, Any]:
        """Return the first and last offset of each queue of a topic, and its last store time."""
        table = {}
        async for queue_id in queue_ids(topic.write_queue_nums):
            last = self.store.max_offset(topic.topic_name, queue_id)
            stored = self.stored_at(topic.topic_name, queue_id, last - 1) if last > 0 else 0
            table[self._key(topic, queue_id)] = {
                "lastUpdateTimestamp": max(stored, 0),
                "maxOffset": last,
                "minOffset": self.store.min_offset(topic.topic_name, queue_id),
            }
        return {"offsetTable": table}

    async def of_group(self, group: str, topics: Iterable[str]) -> dict[str, Any]:
        """Return the progress of a group in the queues of these topics that it can read."""
        stats: dict[str, Any] = {"consumeTps": 0.0, "offsetTable": {}}
        for name in topics:
            topic = self._consumed_topic(group, name)
            if topic is not None:
                _check_size(len(stats["offsetTable"]) + topic.read_queue_nums)
                await self._add(stats, topic, group, topic.read_queue_nums)
        return stats

    async def by_group(self, groups: Iterable[str], *, only_ordered: bool) -> dict[str, Any]:
        """Return the progress of each group in each topic it has committed offsets for."""
        listed, total_diff, queues = [], 0, 0
        for group in list(groups):
            of_group = []
            for name in self.offsets.topics_of(group):
                topic = self._consumed_topic(group, name)
                if topic is None or (only_ordered and not topic.order):
                    continue
                queues += topic.write_queue_nums
                _check_size(queues)
                stats: dict[str, Any] = {"consumeTps": 0.0, "offsetTable": {}}
                total_diff += await self._add(stats, topic, group, topic.write_queue_nums)
                of_group.append(stats)
            listed.append({group: of_group})
        return {"consumeStatsList": listed, "totalDiff": total_diff}

    def _consumed_topic(self, group: str, name: str) -> TopicConfig | None:
        """Return a topic unless it was deleted, or the group is online and not subscribed to it."""
        online = self.consumers.groups.get(group)
        if online is not None and online.subscriptions and name not in online.subscriptions:
            return None
        return self.topics.find(name)

    async def _add(self, stats: dict[str, Any], topic: TopicConfig, group: str, queues: int) -> int:
        name, behind = topic.topic_name, 0
        async for queue_id in queue_ids(queues):
            newest = self.store.max_offset(name, queue_id)
            consumed = max(self.offsets.get(name, group, queue_id) or 0, 0)
            behind += newest - consumed
            stats["offsetTable"][self._key(topic, queue_id)] = {
                "brokerOffset": newest,
                "consumerOffset": consumed,
                "lastTimestamp": max(self.stored_at(name, queue_id, consumed - 1), 0),
            }
        rate = self.stats.rate("GROUP_GET_NUMS", f"{name}@{group}", "minute")
        stats["consumeTps"] += rate.tps if rate is not None else 0.0
        return behind

    def _key(self, topic: TopicConfig, queue_id: int) -> tuple[tuple[str, Any], ...]:
        return MessageQueue(topic.topic_name, self.broker_name, queue_id).as_key()


async def queue_ids(count: int) -> AsyncIterator[int]:
    """Yield the ids of a topic's queues; let the event loop serve others in between."""
    for queue_id in range(count):
        if queue_id % QUEUES_PER_TURN == QUEUES_PER_TURN - 1:
            await asyncio.sleep(0)
        yield queue_id


def _check_size(queues: int) -> None:
    if queues > MAX_LISTED:
        remark = f"the answer would list more than {MAX_LISTED} queues: ask topic by topic"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


# ---- Slow consumers
#
# The pulls of a group that is far behind would keep the disk busy for all clients. With
# `disableConsumeIfConsumerReadSlowly` a group that is farther behind than
# `consumerFallbehindThreshold` in one queue may no longer consume, until an operator allows it
# again. The lag is the number of bytes between the group's next message and the end of the log.

_log = logging.getLogger(__name__)

PERIOD_MS = 180_000


@dataclass(slots=True)
class SlowConsumers:
    """Finds groups that are online and far behind, and disables them."""

    config: BrokerConfig
    store: Store
    groups: GroupTable
    offsets: ConsumerOffsets
    consumers: ConsumerClients

    def round(self) -> None:
        """Check every group that has a member here, if the setting enables the check."""
        if not self.config.disable_consume_if_consumer_read_slowly:
            return
        for name, online in list(self.consumers.groups.items()):
            found = self.groups.groups.get(name)
            if found is None or not found.consume_enable:
                continue
            behind = max(self._bytes_behind(name, online.subscriptions), default=0)
            if behind > self.config.consumer_fallbehind_threshold:
                _log.warning(
                    "[PROTECT_BROKER] the consumer[%s] consume slowly, %d bytes, disable it; "
                    "mqadmin updateSubGroup -g %s -s true allows it again",
                    name,
                    behind,
                    name,
                )
                self.groups.put(replace(found, consume_enable=False))

    def _bytes_behind(self, group: str, topics: Iterable[str]) -> Iterator[int]:
        end = self.store.max_physical_offset
        for topic in topics:
            for queue_id, committed in self.offsets.of_group(topic, group).items():
                wanted = max(committed, self.store.min_offset(topic, queue_id))
                unit = self.store.unit_at(topic, queue_id, wanted)
                if unit is not None:
                    yield end - unit[0]
