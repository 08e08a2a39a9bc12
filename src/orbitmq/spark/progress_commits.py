"""Commits a query's progress as offsets of a consumer group (``commitOffsets=progress``).

Offsets that Spark has committed are written to the group, so that its lag shows in ``mqadmin
consumerProgress`` and in dashboards. The source never reads them back: Spark's checkpoint decides,
and a failed write is only logged.

Spark calls for offsets up to a hundred times a second. So a broker that does not answer gets no
further writes for `LEAVE_ALONE_S`; after a rejection, this holds for the topic only. The failure is
logged once, until the broker accepts offsets again.

Tools find a group by its retry topic. Brokers create this topic at the first heartbeat of the
group, so `ProgressCommits` sends a heartbeat like that of a pull consumer.

A reader notices that a batch is committed when Spark requests the next batch. Only the driver can
notice it for the last batch before a stop: pipelines call `report_last` for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from orbitmq._native import dumps_lenient
from orbitmq.errors import BrokerRefused, OrbitError
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.remoting.pipeline import Pipeline
from orbitmq.spark.cluster import SourceCluster
from orbitmq.spark.offsets import Offsets, from_json
from orbitmq.spark.source.options import SourceOptions

__all__ = ["ProgressCommits", "report_last"]

_log = logging.getLogger(__name__)

ANNOUNCE_AGAIN_S = 30.0
LEAVE_ALONE_S = 5.0
MAX_REST_S = 60.0
"""Longest idle time before a reuse; brokers close connections that are idle twice as long."""
AT_ONCE = 256
"""Number of requests sent before answers are read, so that neither side's buffers fill up."""


class ProgressCommits:
    """Writes changed offsets to the consumer group."""

    def __init__(self, cluster: SourceCluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._written: Offsets = {}
        self._announced: dict[str, float] = {}
        self._links: dict[str, tuple[Pipeline, float]] = {}
        """Connections by address, each with the time of its last use."""
        self._left_alone: dict[tuple[str, str | None], float] = {}
        """Pauses after failed writes: broker and topic (None for all topics) to the end time."""

    def report(self, committed: Offsets) -> None:
        """Write the committed offsets that have changed to their brokers."""
        changed: dict[tuple[str, str], Offsets] = {}
        for queue, offset in committed.items():
            if self._written.get(queue) != offset:
                changed.setdefault((queue.broker_name, queue.topic), {})[queue] = offset
        for (broker, topic), offsets in changed.items():
            troubles = [key for key in ((broker, None), (broker, topic)) if key in self._left_alone]
            if any(self._left_alone[key] > self._clock() for key in troubles):
                continue
            try:
                # A broker that failed before first gets a single offset.
                self._write(broker, topic, offsets, first=1 if troubles else AT_ONCE)
            except OrbitError as error:
                self._failed(broker, topic, error)
                continue
            for key in troubles:
                del self._left_alone[key]
                _log.info("broker %s accepts offsets again; progress is shown again", broker)

    def _failed(self, broker: str, topic: str, error: OrbitError) -> None:
        # A rejection concerns the topic; a missing answer concerns all topics of the broker.
        trouble = (broker, topic if isinstance(error, BrokerRefused) else None)
        if trouble not in self._left_alone:
            cluster = self._cluster
            reason = cluster.connection.hide_secrets(str(error))
            where = f"topic {topic!r} on broker {broker}"
            _log.warning("progress of %s in %s not shown for now: %s", cluster.group, where, reason)
        self._left_alone[trouble] = self._clock() + LEAVE_ALONE_S

    def _write(self, broker: str, topic: str, offsets: Offsets, first: int) -> None:
        address = self._cluster.address(topic, broker)
        if self._announced.get(address, 0.0) <= self._clock():
            self._announce(address, topic)
            self._announced[address] = self._clock() + ANNOUNCE_AGAIN_S
        link = self._link(address)
        try:
            some, left = [*offsets.items()][:first], [*offsets.items()][first:]
            while some:
                self._write_some(link, some)
                some, left = left[:AT_ONCE], left[AT_ONCE:]
        except OrbitError:
            link.close()  # late answers must not reach the next caller
            raise
        self._links[address] = (link, self._clock())

    def _link(self, address: str) -> Pipeline:
        link, used = self._links.pop(address, (None, 0.0))
        if link is not None and self._clock() - used < MAX_REST_S and not link.is_closed():
            return link
        if link is not None:
            link.close()
        return self._cluster.new_pipeline(address)

    def _write_some(self, link: Pipeline, offsets: Collection[tuple[MessageQueue, int]]) -> None:
        """Send all offsets, then read the answers, so that no write waits for another."""
        cluster = self._cluster
        asked = [
            link.send(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {
                    "consumerGroup": cluster.stored_group,
                    "topic": cluster.stored_name(queue.topic),
                    "queueId": str(queue.queue_id),
                    "commitOffset": str(offset),
                    "bname": queue.broker_name,
                },
            )
            for queue, offset in offsets
        ]
        for opaque, (queue, offset) in zip(asked, offsets, strict=True):
            response = link.receive(opaque)
            if response.code != ResponseCode.SUCCESS:
                raise BrokerRefused(response.code, response.remark, address=link.address)
            self._written[queue] = offset

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

    def close(self) -> None:
        """Close all connections."""
        for link, _ in self._links.values():
            link.close()
        self._links.clear()


def report_last(progress: Mapping[str, Any] | None, options: Mapping[str, str]) -> None:
    """Write the last offsets of a stopped query, if its source commits progress. ::

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
    cluster = SourceCluster(read.connection, read.group)
    commits = ProgressCommits(cluster, cluster.clock)
    try:
        commits.report(committed)
    finally:
        commits.close()
        cluster.close()
