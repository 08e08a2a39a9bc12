"""Queries: messages by key and by physical offset, queue offsets by time."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq._native import Command, Record, Store, decode_records
from orbitmq.acl.demands import NeedsAdmin
from orbitmq.config import BrokerConfig
from orbitmq.errors import HeaderFault
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header, Long
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond

__all__ = ["QueryHandlers"]


class QueryHeader(Header):
    """A topic, a key, and the time range in which its messages were stored."""

    wire_names = {"is_unique_key": "_UNIQUE_KEY_QUERY"}  # noqa: RUF012

    topic: str
    key: str
    max_num: int | None = None
    begin_timestamp: Long
    end_timestamp: Long
    is_unique_key: bool = False


class PlaceHeader(Header):
    """A physical offset."""

    offset: Long


class QueueHeader(Header):
    """A queue."""

    topic: str
    queue_id: int


class QueueTimeHeader(QueueHeader):
    """A queue and a time."""

    timestamp: Long


@dataclass(slots=True)
class QueryHandlers:
    """Handles queries for messages and offsets."""

    config: BrokerConfig
    store: Store

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.by_key, [RequestCode.QUERY_MESSAGE])
        router.add(self.by_offset, [RequestCode.VIEW_MESSAGE_BY_ID])
        router.add(self.offset_by_time, [RequestCode.SEARCH_OFFSET_BY_TIMESTAMP])
        router.add(self.max_offset, [RequestCode.GET_MAX_OFFSET])
        router.add(self.min_offset, [RequestCode.GET_MIN_OFFSET])
        router.add(self.earliest_time, [RequestCode.GET_EARLIEST_MSG_STORETIME])

    def by_key(self, request: Command, _connection: Connection) -> Command:
        """Return the messages of a topic that have a key, or a key of the same hash."""
        header = QueryHeader.decode(request)
        if header.is_unique_key:
            max_messages = self.config.default_query_max_num
        elif header.max_num is None or header.max_num < 0:
            raise HeaderFault(f"field maxNum is {header.max_num}")
        else:
            max_messages = min(header.max_num, self.config.max_msgs_num_batch)
        records = self.store.query(
            header.topic,
            header.key,
            max_messages=max_messages,
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        # The index contains hashes only: a key of another topic may have the same hash.
        records = [record for record in records if _topic_of(record) == header.topic]
        store_time, physical_offset = self.store.index_last_update if records else (0, 0)
        ext = {
            "indexLastUpdateTimestamp": str(store_time),
            "indexLastUpdatePhyoffset": str(physical_offset),
        }
        if not records:
            remark = "can not find message, maybe time range not correct"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark, ext)
        return respond(request, ext=ext, body=b"".join(records))

    def by_offset(self, request: Command, _connection: Connection) -> Command:
        """Return the message at a physical offset."""
        offset = PlaceHeader.decode(request).offset
        record = self.store.record_at(offset)
        if record is None:
            remark = f"can not find message by the offset, {offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return respond(request, body=record)

    def message_at(self, physical_offset: int) -> Record | None:
        """Return the message at a physical offset, for checks of the rights to it.

        A client can send a message whose body contains bytes that look like other messages. These
        can have any topic, and a length that reaches into the next messages. Therefore the method
        raises `NeedsAdmin` if no queue entry points to this offset.
        """
        data = self.store.record_at(physical_offset)
        if data is None:
            return None
        (record,) = decode_records(data, check_crc=False)
        unit = self.store.unit_at(record.topic, record.queue_id, record.queue_offset)
        if unit is None or unit[:2] != (physical_offset, len(data)):
            raise NeedsAdmin
        return record

    def offset_by_time(self, request: Command, _connection: Connection) -> Command:
        """Return the queue offset for a store time."""
        header = QueueTimeHeader.decode(request)
        offset = self.store.offset_by_time(header.topic, header.queue_id, header.timestamp)
        return respond(request, ext={"offset": str(offset)})

    def max_offset(self, request: Command, _connection: Connection) -> Command:
        """Return the offset of the queue's next message."""
        header = QueueHeader.decode(request)
        offset = self.store.max_offset(header.topic, header.queue_id)
        return respond(request, ext={"offset": str(offset)})

    def min_offset(self, request: Command, _connection: Connection) -> Command:
        """Return the queue's oldest offset."""
        header = QueueHeader.decode(request)
        offset = self.store.min_offset(header.topic, header.queue_id)
        return respond(request, ext={"offset": str(offset)})

    def earliest_time(self, request: Command, _connection: Connection) -> Command:
        """Return the store time of the queue's oldest message."""
        header = QueueHeader.decode(request)
        stored = self.store.earliest_store_time(header.topic, header.queue_id)
        return respond(request, ext={"timestamp": str(-1 if stored is None else stored)})


def _topic_of(data: bytes) -> str:
    (record,) = decode_records(data, check_crc=False)
    return record.topic
