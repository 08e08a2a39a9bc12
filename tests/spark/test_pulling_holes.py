"""Answers that skip offsets without their records, as brokers send them while files expire.

A broker that drops a log file before its queues know of it cannot be had at will, so these answers
are made up, as Java's broker and ours make them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from orbitmq._native import Command, encode_record
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.features import BULK_READ
from orbitmq.spark.cluster import Endpoint
from orbitmq.spark.offsets import OffsetBounds, QueueRange
from orbitmq.spark.source.data_loss import DataLoss, MessagesLost
from orbitmq.spark.source.range_reader import Filter, PullSettings, RangeReader
from orbitmq.spark.source.start_offsets import skip_expired

QUEUE = MessageQueue("t", "b", 0)
EVERYTHING = Filter()
JAVA, OURS = Endpoint("java:1", frozenset()), Endpoint("ours:1", frozenset([BULK_READ]))


class Link:
    """A connection with prepared answers."""

    waiting = ()
    has_answers = False

    def __init__(self, answers: Iterable[Command]) -> None:
        self.answers = list(answers)

    def send(self, _code: int, _fields: dict[str, str]) -> int:
        return 1

    def receive(self, _opaque: int) -> Command:
        return self.answers.pop(0)


class Cluster:
    """The part of a cluster that a task uses."""

    stored_group = "g"

    def __init__(self, answers: Iterable[Command], endpoint: Endpoint = JAVA) -> None:
        self.link = Link(answers)
        self._endpoint = endpoint

    def pipeline(self, _address: str, _timeout_ms: float) -> Link:
        return self.link

    def stored_name(self, topic: str) -> str:
        return topic

    def pull_fields(self, _queue: MessageQueue, offset: int, _count: int) -> dict[str, str]:
        return {"queueOffset": str(offset)}

    def endpoint(self, _topic: str, _broker: str) -> Endpoint:
        return self._endpoint

    def ask(self, *_args: Any, **_options: Any) -> Command:
        return self.link.answers.pop(0)


def answer(
    code: int,
    remark: str,
    next_offset: int,
    found: Iterable[int] = (),
    *,
    min_offset: int = 0,
    version: int = 407,
) -> Command:
    """An answer to a request from offset 0; both kinds have the next offset."""
    host = ("127.0.0.1", 1)
    records = [
        encode_record("t", b"%d" % at, queue_offset=at, born_host=host, store_host=host)
        for at in found
    ]
    ext = {
        "nextOffset": str(next_offset),
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": "10",
        "count": str(len(records)),
    }
    body = b"".join(records) or None
    return Command(code, opaque=1, flag=1, remark=remark, ext=ext, body=body, version=version)


def read(
    endpoint: Endpoint, answers: list[Command], *, fail: bool, wanted: Filter = EVERYTHING
) -> list[int]:
    """Return the offsets that a task reads from the answers, of ten."""
    cluster: Any = Cluster(answers, endpoint)
    losses = DataLoss(fail=fail, retries=0)
    task = RangeReader(cluster, PullSettings(("queueOffset",), wanted), {"b": endpoint}, losses)
    batches = [pa.record_batch(batch) for batch in task.read([QueueRange(QUEUE, 0, 10)])]
    assert cluster.link.answers == []
    return [at for batch in batches for at in batch.column(0).to_pylist()]


FOUND, RETRY = ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY
MOVED = ResponseCode.PULL_OFFSET_MOVED
REMOVING = "MESSAGE_WAS_REMOVING"

HOLES = {
    "half of a pull": (JAVA, [answer(FOUND, "FOUND", 10, range(5, 10))], 4),
    "half of a bulk read": (OURS, [answer(FOUND, "FOUND", 10, range(5, 10))], 4),
    "all of a pull": (
        JAVA,
        [answer(RETRY, REMOVING, 5), answer(FOUND, "FOUND", 10, range(5, 10))],
        4,
    ),
    "all of a bulk read": (
        OURS,
        [answer(MOVED, REMOVING, 5), answer(FOUND, "FOUND", 10, range(5, 10))],
        4,
    ),
}


@pytest.mark.parametrize(("endpoint", "answers", "last"), HOLES.values(), ids=HOLES)
def test_messages_that_expire_during_the_read_are_a_loss(
    endpoint: Endpoint,
    answers: list[Command],
    last: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(MessagesLost, match=f"offsets 0 to {last} of queue 0") as caught:
        read(endpoint, list(answers), fail=True)
    assert caught.value.cause == "expired"
    with caplog.at_level(logging.WARNING):
        assert read(endpoint, list(answers), fail=False) == [5, 6, 7, 8, 9]
    assert len(caplog.records) == 1
    assert f"messages are lost (expired). offsets 0 to {last}" in caplog.text


@pytest.mark.parametrize("wanted", [Filter(tags="a"), Filter(sql="n > 3")])
def test_deleted_files_are_reported_even_when_a_filter_makes_holes(wanted: Filter) -> None:
    filtered = [answer(RETRY, "NO_MATCHED_MESSAGE", 5), answer(RETRY, "NO_MATCHED_MESSAGE", 10)]
    assert read(JAVA, filtered, fail=True, wanted=wanted) == []
    with pytest.raises(MessagesLost, match="offsets 0 to 4 ") as caught:
        read(JAVA, [answer(RETRY, REMOVING, 5)], fail=True, wanted=wanted)
    assert caught.value.cause == "expired"


def test_queues_of_later_versions_may_have_holes() -> None:
    compacted = answer(FOUND, "FOUND", 10, [3, 7, 9], version=435)
    assert read(JAVA, [compacted], fail=True) == [3, 7, 9]


def test_a_wholly_expired_queue_begins_at_its_end() -> None:
    ends = {QUEUE: OffsetBounds(0, 10)}
    gone = [answer(RETRY, REMOVING, 10), answer(RETRY, REMOVING, 10)]
    going = [answer(RETRY, REMOVING, 5), answer(FOUND, "FOUND", 10, [9])]
    there = [answer(FOUND, "FOUND", 1, [0])]

    def begins(answers: list[Command], start: int = 0, endpoint: Endpoint = JAVA) -> int:
        cluster: Any = Cluster(answers, endpoint)
        starts = skip_expired(cluster, {QUEUE: start}, ends)
        assert cluster.link.answers == []
        return starts[QUEUE]

    assert begins(gone) == 10
    assert begins(going) == 0
    assert begins(there) == 0
    assert begins([], start=3) == 3, "who names an offset is told that it is gone"
    assert begins([], endpoint=OURS) == 0
