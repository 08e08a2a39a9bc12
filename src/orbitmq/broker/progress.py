"""How full queues are and how far their consumers have come: what operators look at.

Reads only. Times are epoch milliseconds; -1 stands for none, as on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Store, decode_records
from orbitmq.broker.clients import ConsumerClients
from orbitmq.broker.offsets import ConsumerOffsets
from orbitmq.broker.stats import BrokerStats
from orbitmq.broker.topics import TopicTable
from orbitmq.protocol.bodies import MessageQueue, TopicConfig

__all__ = ["Progress"]

NO_TIME = -1


@dataclass(slots=True)
class Progress:
    """Looks at the store and at the offsets of groups."""

    broker_name: str
    store: Store
    topics: TopicTable
    offsets: ConsumerOffsets
    consumers: ConsumerClients
    stats: BrokerStats

    def stored_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return when the message at a queue offset was stored."""
        unit = self.store.unit_at(topic, queue_id, queue_offset) if queue_offset >= 0 else None
        return NO_TIME if unit is None else self.stored_at_physical(unit[0])

    def stored_at_physical(self, physical_offset: int) -> int:
        """Return when the message at a place in the log was stored."""
        data = self.store.record_at(physical_offset)
        if data is None:
            return NO_TIME
        (record,) = decode_records(data, check_crc=False)
        return record.store_timestamp

    def of_topic(self, topic: TopicConfig) -> dict[Any, Any]:
        """Return the ends of a topic's queues, by queue."""
        table = {}
        for queue_id in range(topic.write_queue_nums):
            last = self.store.max_offset(topic.topic_name, queue_id)
            stored = self.stored_at(topic.topic_name, queue_id, last - 1) if last > 0 else 0
            table[self._key(topic, queue_id)] = {
                "lastUpdateTimestamp": max(stored, 0),
                "maxOffset": last,
                "minOffset": self.store.min_offset(topic.topic_name, queue_id),
            }
        return {"offsetTable": table}

    def of_group(self, group: str, topics: Iterable[str]) -> dict[str, Any]:
        """Return where a group stands in the queues it can read of these topics."""
        stats: dict[str, Any] = {"consumeTps": 0.0, "offsetTable": {}}
        for name in topics:
            topic = self._consumed_topic(group, name)
            if topic is not None:
                self._add(stats, topic, group, topic.read_queue_nums)
        return stats

    def by_group(self, groups: Iterable[str], *, only_ordered: bool) -> dict[str, Any]:
        """Return, for each group, where it stands in each topic it has committed offsets for."""
        listed, total_diff = [], 0
        for group in groups:
            of_group = []
            for name in self.offsets.topics_of(group):
                topic = self._consumed_topic(group, name)
                if topic is None or (only_ordered and not topic.order):
                    continue
                stats: dict[str, Any] = {"consumeTps": 0.0, "offsetTable": {}}
                total_diff += self._add(stats, topic, group, topic.write_queue_nums)
                of_group.append(stats)
            listed.append({group: of_group})
        return {"consumeStatsList": listed, "totalDiff": total_diff}

    def _consumed_topic(self, group: str, name: str) -> TopicConfig | None:
        """Return a topic unless it is gone, or the group is here and does not want it."""
        online = self.consumers.groups.get(group)
        if online is not None and online.subscriptions and name not in online.subscriptions:
            return None
        return self.topics.find(name)

    def _add(self, stats: dict[str, Any], topic: TopicConfig, group: str, queues: int) -> int:
        name, behind = topic.topic_name, 0
        for queue_id in range(queues):
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
