"""Groups that are so far behind that their pulls would keep the disk busy for everybody.

With `disableConsumeIfConsumerReadSlowly` a group that is farther behind than
`consumerFallbehindThreshold` in one queue may no longer consume, until an operator allows it again.
Behind are the bytes of the log between the next message the group wants and the log's end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from orbitmq._native import Store
from orbitmq.broker.clients import ConsumerClients
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.offsets import ConsumerOffsets
from orbitmq.config import BrokerConfig

__all__ = ["PERIOD_MS", "SlowConsumers"]

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
        """Look at every group that has a member here, if that is wanted."""
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
