"""Administration of the store: entries of consume queues, and cleaning by request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orbitmq._native import Command, Store, dumps_lenient
from orbitmq.broker.retention import Retention
from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond

__all__ = ["StoreAdminHandlers"]

MAX_ENTRIES = 100_000
"""Maximum number of entries in an answer: more than any reader needs, less than a frame holds."""


class ConsumeQueueHeader(Header):
    """Range of entries of a consume queue."""

    topic: str
    queue_id: int = 0
    index: Long = 0
    count: int = 0
    consumer_group: str | None = None


@dataclass(slots=True)
class StoreAdminHandlers:
    """Handles operators' requests about the store."""

    store: Store
    consumers: ConsumerClients
    offsets: ConsumerOffsets
    retention: Retention

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.consume_queue, [RequestCode.QUERY_CONSUME_QUEUE])
        router.add(self.clean_queues, [RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE])
        router.add(self.delete_expired, [RequestCode.DELETE_EXPIRED_COMMITLOG])

    def consume_queue(self, request: Command, _connection: Connection) -> Command:
        """Return entries of a consume queue, unfiltered."""
        header = ConsumeQueueHeader.decode(request)
        topic, queue_id = header.topic, header.queue_id
        if (topic, queue_id) not in self.store.queues():
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        end = self.store.max_offset(topic, queue_id)
        body: dict[str, Any] = {
            "maxQueueIndex": end,
            "minQueueIndex": self.store.min_offset(topic, queue_id),
        }
        if header.consumer_group is not None:
            self._add_subscription(body, header.consumer_group, topic)
        units = []
        for index in range(header.index, min(end, header.index + min(header.count, MAX_ENTRIES))):
            unit = self.store.unit_at(topic, queue_id, index) if index >= 0 else None
            if unit is None:
                break
            units.append(unit)
        if not units and (header.count > 0 or not 0 <= header.index < end):
            remark = f"Index {header.index} of {queue_id}@{topic} is not exist!"
            return respond(request, remark=remark)
        body["queueData"] = [
            {"eval": False, "physicOffset": place, "physicSize": size, "tagsCode": code}
            for place, size, code in units
        ]
        return respond(request, body=dumps_lenient(body))

    def _add_subscription(self, body: dict[str, Any], group: str, topic: str) -> None:
        online = self.consumers.groups.get(group)
        subscription = online.subscriptions.get(topic) if online is not None else None
        if subscription is None:
            body["filterData"] = f"{group}@{topic} is not online!"
        else:
            body["filterData"] = "null"
            body["subscriptionData"] = subscription.as_json()

    def clean_queues(self, request: Command, _connection: Connection) -> Command:
        """Delete the queues whose messages have all expired."""
        if self.store.remove_expired_queues(kept_topic=SCHEDULE_TOPIC):
            self.offsets.fit(self.store.max_offset)  # these queues start again at offset 0
        return respond(request)

    def delete_expired(self, request: Command, _connection: Connection) -> Command:
        """Make the next rounds of cleaning delete expired files at any hour."""
        self.retention.request()
        return respond(request)
