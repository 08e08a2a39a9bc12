"""Reads ranges of queues in a task and returns Arrow batches.

Theory of operation. A range is cut into *segments* of a few thousand offsets. The requests of
several segments are under way at once on one connection per broker (`prefetch`). The answers of the
first segment are converted to columns while the other answers are under way. So a task does not
wait for a round trip per answer. Segments are returned in order.

A broker with bulk read sends a segment in one answer. Any other broker sends at most 32 messages (8
from its disk) per pull. A segment then sends pulls until it has passed its end. This also works
with filters, whose answers have holes.

```text
range ──► segment segment segment segment …        `prefetch` of them under way
             │       └─ requests on the broker's connection, answers in any order
             └─ answers ──► RecordColumns ──► batch when full
```

Bounds. The bytes of waiting answers are counted: beyond `MAX_WAITING_BYTES` only the first segment
sends requests. So a task's memory depends neither on the backlog nor on the size of messages.

Failures. After a broken connection, or if a broker is busy or restarts, the task pauses and
requests the route again. Then every segment continues where its last answer ended. `data_loss`
decides how long a task retries, and what happens to lost offsets. These are offsets that a broker
reports as lost, and offsets that an answer skips silently. A Java broker deletes an expired file
before it updates its consume queues, and until then skips the messages of that file. Files are
deleted from the oldest on, so the missing messages are the first ones of an answer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from orbitmq._native import ArrowBatch, Command, RecordColumns
from orbitmq.errors import BrokerBusy, BrokerRefused, MalformedBody, OrbitError
from orbitmq.protocol.bodies import MessageQueue, Subscription
from orbitmq.protocol.codes import NOT_NOW, RequestCode, ResponseCode
from orbitmq.protocol.features import BULK_READ
from orbitmq.protocol.flags import Version
from orbitmq.remoting.pipeline import Pipeline
from orbitmq.spark.cluster import Endpoint, SourceCluster
from orbitmq.spark.offsets import QueueRange
from orbitmq.spark.source.data_loss import DataLoss, place

__all__ = ["REMOVING", "Filter", "PullSettings", "RangeReader", "ahead"]

_log = logging.getLogger(__name__)

BULK_BYTES = 1 << 20
"""Size of a bulk answer: large compared with a round trip, small enough for parallel answers."""
MAX_WAITING_BYTES = 24 << 20
FIRST_GUESS_BYTES = 1024
PULL_ROUNDS = 8
"""Number of pulls per segment at brokers without bulk read."""
BATCH_ROWS = 8192
BATCH_BYTES = 4 << 20
BULK_PREFETCH, PULL_PREFETCH = 5, 16
MOST_DAMAGES_TOLD = 8
"""Number of damages a task names in its log: a topic may be full of them."""
REMOVING = "MESSAGE_WAS_REMOVING"
"""Remark of brokers on an answer without messages because their files were deleted."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter that brokers apply to messages, by tags or by SQL."""

    tags: str | None = None
    sql: str | None = None

    @property
    def tag_texts(self) -> list[str] | None:
        """Tags to filter by in the task too, because brokers compare hash codes only."""
        if self.tags is None:
            return None
        return list(Subscription.of_tags("", self.tags).tags) or None


@dataclass(frozen=True, slots=True)
class PullSettings:
    """Settings for the requests of a task and for its columns."""

    columns: tuple[str, ...]
    filter: Filter = Filter()
    pull_batch_size: int = 32
    pull_timeout_ms: int = 10_000
    prefetch: int | None = None
    bulk_read: bool = True
    fail_on_corruption: bool = True


@dataclass(slots=True)
class _Answer:
    body: bytes
    start: int
    expected: int
    """Number of records it should have from `start` on; 0 if unknown."""


@dataclass(slots=True, eq=False)
class _Segment:
    queue: MessageQueue
    start: int
    end: int
    next_offset: int
    answers: deque[_Answer] = field(default_factory=deque)
    opaque: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.next_offset >= self.end


class RangeReader:
    """Reads the ranges of one task; the process keeps the connections (see `cluster`)."""

    def __init__(
        self,
        cluster: SourceCluster,
        settings: PullSettings,
        endpoints: dict[str, Endpoint],
        losses: DataLoss,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._endpoints = dict(endpoints)
        self._losses = losses
        self._tags = settings.filter.tag_texts
        self._record_bytes = FIRST_GUESS_BYTES
        self._waiting_bytes = 0
        self._columns = RecordColumns(
            list(settings.columns),
            max_rows=BATCH_ROWS,
            max_bytes=BATCH_BYTES,
            keep_damaged=not settings.fail_on_corruption,
        )
        self._damages = 0

    def read(self, ranges: list[QueueRange]) -> Iterator[ArrowBatch]:
        """Yield the messages of the ranges, in order."""
        upcoming = self._segments(ranges)
        active: deque[_Segment] = deque()
        while True:
            self._top_up(active, upcoming)
            if not active:
                break
            head = active[0]
            while head.answers:
                answer = head.answers.popleft()
                self._waiting_bytes -= len(answer.body)
                yield from self._batches(head, answer)
            if head.is_whole:
                active.popleft()
                continue
            self._advance(active)
        if self._damages > MOST_DAMAGES_TOLD:
            _log.warning("bodies that cannot be read were left as stored: %d in all", self._damages)
        if self._columns.num_rows:
            yield self._columns.finish()

    def _segments(self, ranges: list[QueueRange]) -> Iterator[_Segment]:
        for each in ranges:
            at = each.start
            while at < each.end:
                end = min(at + self._segment_length(each.queue.broker_name), each.end)
                if each.end - end < (end - at) // 4:
                    end = each.end  # the rest is too short for a request of its own
                yield _Segment(each.queue, at, end, at)
                at = end

    def _segment_length(self, broker: str) -> int:
        if self._is_bulk(broker):
            return max(BULK_BYTES // self._record_bytes, 1)
        return self._settings.pull_batch_size * PULL_ROUNDS

    def _is_bulk(self, broker: str) -> bool:
        settings = self._settings
        return (
            settings.bulk_read
            and settings.filter.sql is None
            and BULK_READ in self._endpoints[broker].features
        )

    def _batches(self, segment: _Segment, answer: _Answer) -> Iterator[ArrowBatch]:
        at, seen_before = 0, self._columns.num_records
        while at < len(answer.body):
            at = self._append(segment, answer.body, at)
            if self._columns.is_full:
                yield self._columns.finish()
        missing = answer.expected - (self._columns.num_records - seen_before)
        if missing > 0:
            self._tell_expired(segment, answer.start, answer.start + missing)

    def _append(self, segment: _Segment, body: bytes, at: int) -> int:
        try:
            at = self._columns.append(
                body,
                at,
                broker_name=segment.queue.broker_name,
                topic=segment.queue.topic,
                from_offset=segment.start,
                to_offset=segment.end,
                tags=self._tags,
            )
        except MalformedBody as error:
            raise MalformedBody(
                f"{error}, on broker {segment.queue.broker_name}. To go on with such bodies as "
                "they are stored set option failOnCorruption to false"
            ) from None
        if not self._settings.fail_on_corruption:
            self._tell_damages()
        return at

    def _tell_damages(self) -> None:
        count, texts = self._columns.take_damages()
        for text in texts[: max(MOST_DAMAGES_TOLD - self._damages, 0)]:
            _log.warning("a body that cannot be read was left as stored: %s", text)
        self._damages += count

    # ---- Requests

    def _top_up(self, active: deque[_Segment], upcoming: Iterator[_Segment]) -> None:
        """Send requests until the allowed number is under way."""
        try:
            for segment in active:
                self._ask_for(segment, first=segment is active[0])
            while self._waiting_bytes < MAX_WAITING_BYTES:
                if active and len(active) >= self._prefetch(active[-1].queue.broker_name):
                    break
                more = next(upcoming, None)
                if more is None:
                    break
                active.append(more)
                self._ask_for(more, first=len(active) == 1)
        except OrbitError as error:
            self._recover(active, error)

    def _prefetch(self, broker: str) -> int:
        default = BULK_PREFETCH if self._is_bulk(broker) else PULL_PREFETCH
        return self._settings.prefetch or default

    def _ask_for(self, segment: _Segment, *, first: bool) -> None:
        if segment.opaque is not None or segment.is_whole:
            return
        if not first and self._waiting_bytes >= MAX_WAITING_BYTES:
            return
        broker = segment.queue.broker_name
        link = self._link(broker)
        if self._is_bulk(broker):
            segment.opaque = link.send(RequestCode.ORBIT_BULK_READ, self._bulk_fields(segment))
        else:
            segment.opaque = link.send(RequestCode.PULL_MESSAGE, self._pull_fields(segment))

    def _link(self, broker: str) -> Pipeline:
        return self._cluster.pipeline(
            self._endpoints[broker].address, self._settings.pull_timeout_ms
        )

    def _bulk_fields(self, segment: _Segment) -> dict[str, str]:
        fields = {
            "topic": self._cluster.stored_name(segment.queue.topic),
            "queueId": str(segment.queue.queue_id),
            "fromOffset": str(segment.next_offset),
            "toOffset": str(segment.end),
            "maxBytes": str(BULK_BYTES * 2),
            "consumerGroup": self._cluster.stored_group,
        }
        if self._settings.filter.tags is not None:
            fields["tags"] = self._settings.filter.tags
        return fields

    def _pull_fields(self, segment: _Segment) -> dict[str, str]:
        count = min(self._settings.pull_batch_size, segment.end - segment.next_offset)
        fields = self._cluster.pull_fields(segment.queue, segment.next_offset, count)
        wanted = self._settings.filter
        if wanted.sql is not None:
            fields |= {"subscription": wanted.sql, "expressionType": "SQL92", "subVersion": "1"}
        elif wanted.tags is not None:
            fields["subscription"] = wanted.tags
        return fields

    # ---- Answers

    def _advance(self, active: deque[_Segment]) -> None:
        """Wait for the next answer of the first segment."""
        head = active[0]
        if head.opaque is None:
            return  # a request failed; the next round sends it again
        try:
            link = self._link(head.queue.broker_name)
            response = link.receive(head.opaque)
            head.opaque = None
            self._take(head, response)
            self._losses.made_progress()
            # The other segments take their answers and send on before rows are made of the first.
            ready = link.poll() if link.waiting or link.has_answers else {}
            for segment in active:
                if segment.opaque in ready:
                    answer = ready[segment.opaque]
                    segment.opaque = None
                    self._take(segment, answer)
        except OrbitError as error:
            self._recover(active, error)

    def _take(self, segment: _Segment, response: Command) -> None:
        code, queue = response.code, segment.queue
        ext = response.ext or {}
        next_offset = int(ext.get("nextOffset") or ext.get("nextBeginOffset") or 0)
        if code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
            if next_offset <= segment.next_offset:
                raise BrokerBusy(code, f"no progress at {segment.next_offset} of {queue}")
            expected = next_offset - segment.next_offset if self._expects_all(response) else 0
            body = response.body
            if body:
                segment.answers.append(_Answer(body, segment.next_offset, expected))
                self._waiting_bytes += len(body)
                self._learn_size(len(body), int(ext.get("count") or 0))
            elif expected or response.remark == REMOVING:
                self._tell_expired(segment, segment.next_offset, next_offset)
            segment.next_offset = next_offset
        elif code == ResponseCode.PULL_OFFSET_MOVED and response.remark == REMOVING:
            if next_offset <= segment.next_offset:
                raise BrokerBusy(code, f"no progress at {segment.next_offset} of {queue}")
            self._tell_expired(segment, segment.next_offset, next_offset)
            segment.next_offset = next_offset
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            lost_until = self._losses.moved(
                queue, segment.next_offset, segment.end, int(ext.get("minOffset") or 0), next_offset
            )
            segment.next_offset = lost_until
        elif code == ResponseCode.PULL_NOT_FOUND:
            maximum = int(ext.get("maxOffset") or 0)
            segment.next_offset = self._losses.ended(
                queue, segment.next_offset, segment.end, maximum, next_offset
            )
        elif code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and self._is_bulk(queue.broker_name):
            # Another broker has this address now: `_recover` requests its features.
            raise BrokerBusy(code, response.remark, address=str(queue.broker_name))
        elif code in NOT_NOW:
            raise BrokerBusy(code, response.remark, address=str(queue.broker_name))
        else:
            hint = None
            if self._settings.filter.sql is not None:
                hint = "Option sql needs brokers with enablePropertyFilter=true."
            raise BrokerRefused(code, response.remark, address=str(queue.broker_name), hint=hint)

    def _expects_all(self, response: Command) -> bool:
        """Return True if an answer should have a record for each offset that it covers."""
        wanted = self._settings.filter
        has_holes = response.version >= Version.V5_0_0_SNAPSHOT
        return wanted.tags is None and wanted.sql is None and not has_holes

    def _tell_expired(self, segment: _Segment, start: int, end: int) -> None:
        last = min(end, segment.end) - 1
        self._losses.report("expired", f"offsets {start} to {last} of {place(segment.queue)}")

    def _learn_size(self, total_bytes: int, count: int) -> None:
        if count:
            self._record_bytes = max((self._record_bytes + total_bytes // count) // 2, 100)

    def _recover(self, active: deque[_Segment], error: OrbitError) -> None:
        """Drop all connections, pause and continue; raise if retries are used up."""
        if not error.retriable:
            raise error
        for segment in active:
            segment.opaque = None
        # Closed before anything can raise: the next task must not get these answers.
        self._cluster.close_pipelines()
        self._losses.had_trouble(error)
        self._cluster.forget_routes()
        for queue in {segment.queue.broker_name: segment.queue for segment in active}.values():
            self._cluster.forget_features(self._endpoints[queue.broker_name].address)
            try:
                endpoint = self._cluster.endpoint(queue.topic, queue.broker_name)
            except OrbitError as trouble:
                if not trouble.retriable:
                    raise
                continue
            self._endpoints[queue.broker_name] = endpoint


# ---- Read-ahead of one batch
#
# Theory of operation. The next batch is made while Spark reads the last one. A worker makes a batch
# and writes it to the JVM. The write takes as long as the JVM needs to read, because a batch has
# megabytes and the buffers in between are small. Both making and writing release the GIL. With a
# thread for making, the two run in parallel, and a task waits for neither its broker nor the JVM
# while it could work. Only one batch is made ahead, so memory stays bounded. Read-ahead does not
# speed up batches of a store directory, which come from no broker.

T = TypeVar("T")


def ahead(batches: Iterator[T]) -> Generator[T, None, None]:
    """Yield the same batches, each made in a thread while the caller uses the one before.

    Closing the generator waits for the batch in the making. So the caller and the thread never use
    the source of the batches at the same time.
    """
    with ThreadPoolExecutor(1, "orbitmq-ahead") as thread:
        upcoming = thread.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = thread.submit(next, batches, None)
            yield batch
