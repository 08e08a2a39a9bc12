"""Copies of stored messages, to be stored again elsewhere.

A copy keeps the text of the properties as it is stored. Decoding it into a dict and encoding that
again would fail for what one side accepts and the other does not.
"""

from __future__ import annotations

from orbitmq._native import NewMessage, Record
from orbitmq.protocol.names import Property

__all__ = ["copy_of", "real_queue_id"]


def copy_of(
    record: Record,
    topic: str,
    queue_id: int,
    *,
    store_host: tuple[str, int] | None = None,
    flag: int | None = None,
    sys_flag: int | None = None,
    reconsume_times: int | None = None,
    prepared_transaction_offset: int = 0,
) -> NewMessage:
    """Return a stored message for another queue; what is not given stays as it is stored."""
    return NewMessage(
        topic,
        record.stored_body,
        queue_id=queue_id,
        properties=record.properties_text,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host if store_host is None else store_host,
        flag=record.flag if flag is None else flag,
        sys_flag=record.sys_flag if sys_flag is None else sys_flag,
        reconsume_times=record.reconsume_times if reconsume_times is None else reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
    )


def real_queue_id(record: Record) -> int:
    """Return the queue a held message belongs to; raises `ValueError` if it names none."""
    text = record.get_property(Property.REAL_QUEUE_ID)
    if text is None:
        return 0
    try:
        queue_id = int(text)
    except ValueError:
        queue_id = -1
    if not 0 <= queue_id < 1 << 31:
        raise ValueError(f"property {Property.REAL_QUEUE_ID} is {text[:50]!r}, which is no queue")
    return queue_id
