"""Showing a query's progress as a consumer group's (``commitOffsets=progress``).

Offsets that Spark has committed are written to the group, so that its lag shows in ``mqadmin
consumerProgress`` and in dashboards. Nobody reads them back: Spark's checkpoint is the truth, and
a write that fails is a line in the log. Tools find a group by its retry topic, which brokers make
when they hear of the group for the first time; so it is announced like a consumer that pulls.

A reader learns that a batch is committed when Spark asks it for the next one. Of the last batch
before a stop only the driver knows: `report_last` is for it, pipelines call it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from orbitmq._native import dumps_lenient
from orbitmq.errors import OrbitError
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode
from orbitmq.spark.cluster import Cluster
from orbitmq.spark.offsets import Offsets, from_json
from orbitmq.spark.source_options import SourceOptions

__all__ = ["ProgressCommits", "report_last"]

_log = logging.getLogger(__name__)

ANNOUNCE_AGAIN_S = 30.0


class ProgressCommits:
    """Writes offsets to the group, those that have changed."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._written: Offsets = {}
        self._announced: dict[str, float] = {}

    def report(self, committed: Offsets) -> None:
        """Tell brokers how far the query is."""
        for queue, offset in committed.items():
            if self._written.get(queue) == offset:
                continue
            try:
                self._write(queue, offset)
            except OrbitError as error:
                _log.warning("progress of %s is not shown: %s", queue, error)
                continue
            self._written[queue] = offset

    def _write(self, queue: MessageQueue, offset: int) -> None:
        cluster = self._cluster
        address = cluster.address(queue.topic, queue.broker_name)
        if self._announced.get(address, 0.0) <= self._clock():
            self._announce(address, queue.topic)
            self._announced[address] = self._clock() + ANNOUNCE_AGAIN_S
        cluster.ask(
            address,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {
                "consumerGroup": cluster.stored_group,
                "topic": cluster.stored_name(queue.topic),
                "queueId": str(queue.queue_id),
                "commitOffset": str(offset),
                "bname": queue.broker_name,
            },
        )

    def _announce(self, address: str, topic: str) -> None:
        subscription = Subscription.of_tags(self._cluster.stored_name(topic), "*")
        heartbeat = {
            "clientID": f"{self._cluster.stored_group}@spark",
            "consumerDataSet": [
                {
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "consumeType": "CONSUME_ACTIVELY",
                    "groupName": self._cluster.stored_group,
                    "messageModel": "CLUSTERING",
                    "subscriptionDataSet": [subscription.as_json()],
                    "unitMode": False,
                }
            ],
            "producerDataSet": [],
        }
        self._cluster.ask(address, RequestCode.HEART_BEAT, body=dumps_lenient(heartbeat))


def report_last(progress: Mapping[str, Any] | None, options: Mapping[str, str]) -> None:
    """Show how far a query came that was stopped, if its source commits progress. ::

    query.stop()
    report_last(query.lastProgress, {"nameServer": …, "consumerGroup": …, …})
    """
    read = SourceOptions.of(options, streaming=True)
    if read.commits == "none" or progress is None:
        return
    committed: Offsets = {}
    for source in progress["sources"]:
        try:
            offsets = from_json(json.loads(source["endOffset"]))
        except (AttributeError, TypeError, ValueError):
            continue  # the offsets of another format
        committed |= {queue: at for queue, at in offsets.items() if read.topics.has(queue)}
    cluster = Cluster(read.connection, read.group)
    try:
        ProgressCommits(cluster, cluster.clock).report(committed)
    finally:
        cluster.close()
