"""The documented loop of the pull consumers ends exactly at the end of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq import Message, MessageQueue, Producer, PullConsumer, PullStatus
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.pull import AsyncPullConsumer
from orbitmq.testing import LocalCluster

UNWANTED = 10_000
BATCH = 1000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"enablePropertyFilter": "true"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def queue(cluster: LocalCluster) -> MessageQueue:
    """A queue with ten thousand messages that do not match, then one that does."""
    with Producer(cluster.address, group="fill") as producer:
        queue = producer.send(Message("long", b"first", tags="no", properties={"n": "1"})).queue
        for begin in range(1, UNWANTED, BATCH):
            count = min(BATCH, UNWANTED - begin)
            unwanted = [Message("long", b"-", tags="no", properties={"n": "1"})] * count
            producer.send_many(unwanted, queue=queue)
        producer.send(Message("long", b"wanted", tags="yes", properties={"n": "2"}), queue=queue)
    return queue


@pytest.mark.parametrize("wanted", [{"tags": "yes"}, {"sql": "n = 2"}])
def test_the_documented_loop_skips_messages_that_do_not_match(
    way: Any, cluster: LocalCluster, queue: MessageQueue, wanted: dict[str, str]
) -> None:
    bodies, statuses = [], set()
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group="loop") as consumer:
        offset = consumer.begin_offset(queue)
        while True:
            result = consumer.pull(queue, offset, 100, **wanted)
            if result.status is PullStatus.NO_NEW_MESSAGE:
                break
            statuses.add(result.status)
            bodies += [message.body for message in result.messages]
            offset = result.next_offset
    assert bodies == [b"wanted"]
    assert statuses == {PullStatus.NO_MATCHED_MESSAGE, PullStatus.FOUND}
    assert offset == UNWANTED + 1


def test_tags_with_equal_hash_codes_do_not_match(way: Any, cluster: LocalCluster) -> None:
    with Admin(cluster.address) as admin:
        admin.create_topic("hashes")
    with Producer(cluster.address, group="fill") as producer:
        sent = producer.send(Message("hashes", b"x", tags="BB"))
    with way(PullConsumer, AsyncPullConsumer)(cluster.address, group="loop") as consumer:
        same_hash = consumer.pull(sent.queue, sent.queue_offset, tags="Aa")
        assert same_hash.status is PullStatus.NO_MATCHED_MESSAGE
        assert same_hash.next_offset > sent.queue_offset
