"""What must be true of a store after any crash.

- Every acknowledged message is where its writer was told, with the content it was given.
- Every message found is one that was written, whole: content, CRC, its own offsets.
- Queue offsets run on from 0 without holes or repeats.
- The index finds each message by each of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from compat.records import Record, decode_list
from crash.messages import Content
from crash.writer import Acknowledged, WriterSettings
from orbitmq._native import Store

READ_MESSAGES = 1_000
READ_BYTES = 8 << 20


def verify(store: Store, settings: WriterSettings, acknowledged: Iterable[Acknowledged]) -> int:
    """Check all of it; the number of messages in the store."""
    by_number: dict[int, Record] = {}
    for topic, queue_id in store.queues():
        for expected_offset, record in enumerate(_queue(store, topic, queue_id)):
            content = settings.maker.make(_number(record))
            assert (record.topic, record.queue_id) == (topic, queue_id)
            assert record.queue_offset == expected_offset, f"{topic}-{queue_id}: hole or repeat"
            assert content.number not in by_number, f"message {content.number} is there twice"
            _assert_whole(record, content)
            by_number[content.number] = record
    for message in acknowledged:
        found = by_number.get(message.number)
        assert found is not None, f"{message} was acknowledged and is lost"
        place = found.physical_offset, found.size, found.queue_offset, found.store_timestamp
        assert place == (
            message.physical_offset,
            message.size,
            message.queue_offset,
            message.store_timestamp,
        )
    for record in by_number.values():
        _assert_indexed(store, record)
    return len(by_number)


def _queue(store: Store, topic: str, queue_id: int) -> Iterable[Record]:
    offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    assert offset == 0
    while offset < end:
        result = store.read(
            topic, queue_id, offset, max_messages=READ_MESSAGES, max_bytes=READ_BYTES
        )
        assert result.status == "FOUND", f"{topic}-{queue_id} at {offset}: {result.status}"
        yield from decode_list(result.data)
        offset = result.next_offset


def _number(record: Record) -> int:
    assert record.unique_key is not None
    return int(record.unique_key[-12:], 16)


def _assert_whole(record: Record, content: Content) -> None:
    assert record.crc_holds
    assert record.body == content.body
    assert record.unique_key == content.unique_key
    assert record.keys == [content.unique_key, *content.keys]
    assert record.properties.get("TAGS", "") == content.tags
    assert record.flag == content.flag
    assert record.born_timestamp == content.born_timestamp
    assert (record.born_ip, record.born_port) == content.born_host


def _assert_indexed(store: Store, record: Record) -> None:
    for key in record.keys:
        offsets = [int.from_bytes(data[28:36]) for data in store.query(record.topic, key)]
        assert offsets.count(record.physical_offset) == 1, (
            f"the index finds {offsets} under {key}, not {record.physical_offset}"
        )
