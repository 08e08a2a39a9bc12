"""Showing a query's progress as a consumer group's (``commitOffsets=progress``).

Offsets that Spark has committed are written to the group, so that its lag shows in ``mqadmin
consumerProgress`` and in dashboards. Nobody reads them back: Spark's checkpoint is the truth, and
a write that fails is a line in the log. Spark asks for offsets up to a hundred times a second, so
who has refused is left alone for a while, and told of once until it takes offsets again. Tools find
a group by its retry topic, which brokers make when they hear of the group for the first time; so it
is announced like a consumer that pulls.

A reader learns that a batch is committed when Spark asks it for the next one. Of the last batch
before a stop only the driver knows: `report_last` is for it, pipelines call it.
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
"""Brokers close what has been idle for twice as long."""
AT_ONCE = 256
"""How many requests are sent before answers are read: neither side's buffers may fill up."""


class ProgressCommits:
    """Writes offsets to the group, those that have changed."""

    def __init__(self, cluster: SourceCluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._written: Offsets = {}
        self._announced: dict[str, float] = {}
        self._links: dict[str, tuple[Pipeline, float]] = {}
        """The connections by address, and when each was last used."""
        self._left_alone: dict[tuple[str, str | None], float] = {}
        """Brokers that do not take offsets, all of them or a topic's, and until when."""

    def report(self, committed: Offsets) -> None:
        """Tell brokers how far the query is."""
        changed: dict[tuple[str, str], Offsets] = {}
        for queue, offset in committed.items():
            if self._written.get(queue) != offset:
                changed.setdefault((queue.broker_name, queue.topic), {})[queue] = offset
        for (broker, topic), offsets in changed.items():
            troubles = [key for key in ((broker, None), (broker, topic)) if key in self._left_alone]
            if any(self._left_alone[key] > self._clock() for key in troubles):
                continue
            try:
                # Who has refused before is tried with one.
                self._write(broker, topic, offsets, first=1 if troubles else AT_ONCE)
            except OrbitError as error:
                self._failed(broker, topic, error)
                continue
            for key in troubles:
                del self._left_alone[key]
                _log.info("progress on broker %s is shown again", broker)

    def _failed(self, broker: str, topic: str, error: OrbitError) -> None:
        # A refusal is about the topic; a broker that does not answer does not for any.
        trouble = (broker, topic if isinstance(error, BrokerRefused) else None)
        if trouble not in self._left_alone:
            cluster = self._cluster
            reason = cluster.connection.hide_secrets(str(error))
            where = f"topic {topic!r} on broker {broker}"
            _log.warning("progress of %s in %s is not shown: %s", cluster.group, where, reason)
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
            link.close()  # answers may be under way that nobody waits for
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
        """Write offsets, none waiting for the answer of another."""
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
    cluster = SourceCluster(read.connection, read.group)
    commits = ProgressCommits(cluster, cluster.clock)
    try:
        commits.report(committed)
    finally:
        commits.close()
        cluster.close()
