"""ORBIT_BULK_READ: the records of an offset range of a queue, as many as fit into one answer.

A consumer pulls messages as it handles them, 32 at a time. A reader of millions of messages (Spark)
would spend its time on round trips. It therefore requests the range from `fromOffset` (inclusive)
to `toOffset` (exclusive). The answer contains the records one after another, as stored in the log,
up to `maxBytes`. The next request begins at `nextOffset`. The request is never held, commits no
offset and needs no group.

A thread reads the bytes unless they are in memory, as in `handlers/pull.py`. Two limits apply:

- The server bounds the answers per connection. It stops reading from a peer whose answers pile up,
  and closes peers that read nothing if there are too many of them (see `remoting/limits.py`).
- `MAX_COLD_READS` bounds the concurrent reads from disk of all connections.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from orbitmq._native import Command, ReadResult, Store
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.errors import HeaderFault
from orbitmq.protocol.bodies import Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import Permission
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import FAQ
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Refused, Router, without_content

__all__ = ["BulkReadHandlers", "BulkReadHeader"]

MAX_BYTES = 12 << 20
"""Maximum size of an answer with several records: a frame has 16 MiB, a record up to 4 MiB."""
MAX_COLD_READS = 4
RESIDENT_BYTES = 32 << 20
"""Size of the log's end that is assumed to be in memory, because it was just written."""

_CODES = {
    "FOUND": ResponseCode.SUCCESS,
    "NO_MATCHED_MESSAGE": ResponseCode.SUCCESS,
    "MESSAGE_WAS_REMOVING": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_TOO_SMALL": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_OVERFLOW_BADLY": ResponseCode.PULL_OFFSET_MOVED,
}
"""Response codes by read status; any other status means that the offset has no message yet."""


class BulkReadHeader(Header):
    """Header of a bulk read: an offset range of a queue, with limits."""

    strict = True

    topic: str
    queue_id: int
    from_offset: Long
    to_offset: Long
    max_bytes: int
    tags: str | None = None
    """Tag expression; the broker compares the hash codes, the reader compares the texts."""
    consumer_group: str | None = None
    """Group for which the messages are counted."""


@dataclass(slots=True)
class BulkReadHandlers:
    """Handles the requests of bulk readers."""

    config: BrokerConfig
    store: Store
    topics: TopicTable
    stats: BrokerStats
    _cold_reads: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_COLD_READS), init=False
    )

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.read, [RequestCode.ORBIT_BULK_READ])

    def read(self, request: Command, _connection: Connection) -> Answer:
        """Return the records of an offset range."""
        header = BulkReadHeader.decode(request)
        tag_codes = self._checked(header)
        result = self._read(header, tag_codes, RESIDENT_BYTES)
        if result.status == "NOT_RESIDENT":
            return self._read_from_disk(without_content(request), header, tag_codes)
        return self._answer(request, header, result)

    async def _read_from_disk(
        self, request: Command, header: BulkReadHeader, tag_codes: tuple[int, ...] | None
    ) -> Command:
        async with self._cold_reads:
            result = await asyncio.to_thread(self._read, header, tag_codes, None)
        return self._answer(request, header, result)

    def _checked(self, header: BulkReadHeader) -> tuple[int, ...] | None:
        """Check a request; return the requested tag codes, None for all messages."""
        if not self.config.broker_permission & Permission.READ:
            raise Refused(ResponseCode.NO_PERMISSION, "reading from this broker is forbidden")
        topic = self.topics.find(header.topic)
        if topic is None:
            remark = f"topic[{header.topic}] not exist, apply first please! {FAQ}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        if not topic.is_readable:
            remark = f"reading the topic[{header.topic}] is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            remark = f"topic[{header.topic}] has {topic.read_queue_nums} queues to read"
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{remark}, not queueId[{header.queue_id}]")
        if not 0 <= header.from_offset < header.to_offset:
            raise HeaderFault(
                f"fields fromOffset and toOffset are no stretch: {header.from_offset} to "
                f"{header.to_offset}"
            )
        if header.max_bytes <= 0:
            raise HeaderFault(f"field maxBytes is {header.max_bytes}")
        try:
            return Subscription.of_tags(header.topic, header.tags).wanted_codes
        except ValueError as error:
            raise HeaderFault(f"field tags: {error}") from None

    def _read(
        self,
        header: BulkReadHeader,
        tag_codes: tuple[int, ...] | None,
        resident_beyond: int | None,
    ) -> ReadResult:
        max_messages = header.to_offset - header.from_offset
        max_bytes = min(header.max_bytes, MAX_BYTES)
        return self.store.read(
            header.topic,
            header.queue_id,
            header.from_offset,
            max_messages=max_messages,
            max_bytes=max_bytes,
            tag_codes=tag_codes,
            max_messages_on_disk=max_messages,
            max_bytes_on_disk=max_bytes,
            resident_beyond=resident_beyond,
        )

    def _answer(self, request: Command, header: BulkReadHeader, result: ReadResult) -> Command:
        code = _CODES.get(result.status, ResponseCode.PULL_NOT_FOUND)
        body = None
        if result.count:
            body = result.data
            group = header.consumer_group or "ORBIT_BULK_READ"
            self.stats.got(header.topic, group, result.count, len(body))
        ext = {
            "nextOffset": str(result.next_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
            "count": str(result.count),
        }
        return request.respond(code, result.status, ext, body)
