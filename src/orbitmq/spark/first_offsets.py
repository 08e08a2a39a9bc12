"""Where queues really begin.

A Java broker moves the first offset of a queue to the oldest message that is left. When none is
left it does not: the queue goes on saying that it begins where it once began. Who starts there
would read nothing, and would have to take every message of the queue for lost on the way. Our own
brokers tell the truth, so they are not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.features import BULK_READ
from orbitmq.spark.cluster import Cluster
from orbitmq.spark.offsets import Offsets, QueueEnds
from orbitmq.spark.pulling import REMOVING

__all__ = ["past_the_expired"]

_NOTHING = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def past_the_expired(
    cluster: Cluster, starts: Offsets, ends: Mapping[MessageQueue, QueueEnds]
) -> Offsets:
    """Return the starts; those of queues all of whose messages have expired are at the end."""
    return {
        queue: ends[queue].max_offset if _is_all_gone(cluster, queue, start, ends[queue]) else start
        for queue, start in starts.items()
    }


def _is_all_gone(cluster: Cluster, queue: MessageQueue, start: int, reach: QueueEnds) -> bool:
    if start != reach.min_offset or start == reach.max_offset:
        return False
    endpoint = cluster.endpoint(queue.topic, queue.broker_name)
    if BULK_READ in endpoint.features:
        return False
    # Files go from the oldest on: when the last message is gone, all are. While files go, the first
    # one may be and the last one not.
    for at in (start, reach.max_offset - 1):
        fields = cluster.pull_fields(queue, at, 1)
        answer = cluster.ask(endpoint.address, RequestCode.PULL_MESSAGE, fields, also=_NOTHING)
        if answer.remark != REMOVING:
            return False
    return True
