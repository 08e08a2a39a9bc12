"""Conditions that a store must satisfy after any crash.

- Every acknowledged message is where its writer was told, with the content it was given.
- Every message found is one that was written, whole: content, CRC, its own offsets.
- Queue offsets run on from 0 without holes or repeats.
- The index finds each message by each of its keys.

After a power cut the second holds only as far as the format can tell. A record's CRC covers its
body alone: one that was never acknowledged may come back with other properties, or another topic.
"""

from __future__ import annotations

from collections.abc import Iterable

from compat.records import Record, decode_list
from crash.messages import Content
from crash.writer import Acknowledged, WriterSettings
from orbitmq._native import Store

READ_MESSAGES = 1_000
READ_BYTES = 8 << 20


def verify(
    store: Store,
    settings: WriterSettings,
    acknowledged: Iterable[Acknowledged],
    *,
    after_power_cut: bool,
) -> int:
    """Verify all conditions; return the number of messages in the store."""
    expected = {message.number: message for message in acknowledged}
    found: dict[int, Record] = {}
    records = []
    for topic, queue_id in store.queues():
        for expected_offset, record in enumerate(_queue(store, topic, queue_id)):
            assert (record.topic, record.queue_id) == (topic, queue_id)
            assert record.queue_offset == expected_offset, f"{topic}-{queue_id}: hole or repeat"
            assert record.crc_holds
            records.append(record)
            number = _number(record)
            if number not in expected and after_power_cut:
                continue
            assert number is not None, f"not a message of ours: {record}"
            assert number not in found, f"message {number} is there twice"
            found[number] = record
            _assert_whole(record, settings.maker.make(number))
    for message in expected.values():
        assert message.number in found, f"{message} was acknowledged and is lost"
        record = found[message.number]
        assert record.physical_offset == message.physical_offset
        assert record.queue_offset == message.queue_offset
        assert record.size == message.size
        assert record.store_timestamp == message.store_timestamp
    for record in records:
        _assert_indexed(store, record)
    return len(records)


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


def _number(record: Record) -> int | None:
    try:
        return int((record.unique_key or "")[-12:], 16)
    except ValueError:
        return None


def _assert_whole(record: Record, content: Content) -> None:
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
