"""Records of the message trace: what was sent and consumed, by whom, how long it took.

Fields are separated by the character 1, records end with the character 2; a field that has no value
is ``null``. Java's tools read them by their positions.
"""

from __future__ import annotations

from orbitmq.message import Message

__all__ = [
    "DELAY_MESSAGE",
    "HALF_MESSAGE",
    "NORMAL_MESSAGE",
    "consumed",
    "consuming",
    "message_type",
    "produced",
    "transaction_ended",
]

NORMAL_MESSAGE, HALF_MESSAGE, COMMIT_MESSAGE, DELAY_MESSAGE = range(4)


def message_type(message: Message) -> int:
    """Return the number of a message's kind."""
    if message.system and message.system.get("TRAN_MSG") == "true":
        return HALF_MESSAGE
    if message.is_delayed or "__STARTDELIVERTIME" in message.properties:
        return DELAY_MESSAGE
    return NORMAL_MESSAGE


def _record(*fields: object) -> str:
    return "\1".join("null" if field is None else _text(field) for field in fields) + "\2"


def _text(field: object) -> str:
    return ("true" if field else "false") if isinstance(field, bool) else str(field)


def produced(
    *,
    timestamp_ms: int,
    region: str,
    group: str,
    message: Message,
    message_id: str,
    store_host: str,
    body_length: int,
    cost_ms: int,
    offset_id: str,
    success: bool,
) -> str:
    """Return the record of a send."""
    keys = " ".join(message.keys) if message.keys else None
    return _record(
        *("Pub", timestamp_ms, region, group, message.topic, message_id, message.tags, keys),
        *(store_host, body_length, cost_ms, message_type(message), offset_id, success),
    )


def consuming(
    *,
    timestamp_ms: int,
    region: str | None,
    group: str,
    request_id: str,
    message_id: str,
    retry_times: int,
    keys: str | None,
) -> str:
    """Return the record of a message that is given to a handler."""
    return _record(
        "SubBefore", timestamp_ms, region, group, request_id, message_id, retry_times, keys
    )


def consumed(
    *,
    request_id: str,
    message_id: str,
    cost_ms: int,
    success: bool,
    keys: str | None,
    context_code: int,
    timestamp_ms: int,
    group: str,
) -> str:
    """Return the record of a message that a handler has returned from."""
    return _record(
        *("SubAfter", request_id, message_id, cost_ms, success, keys, context_code),
        *(timestamp_ms, group),
    )


def transaction_ended(
    *,
    timestamp_ms: int,
    region: str,
    group: str,
    message: Message,
    message_id: str,
    store_host: str,
    transaction_id: str | None,
    state: str,
    from_check: bool,
) -> str:
    """Return the record of a transaction's end."""
    keys = " ".join(message.keys) if message.keys else None
    return _record(
        *("EndTransaction", timestamp_ms, region, group, message.topic, message_id),
        *(message.tags, keys, store_host, COMMIT_MESSAGE, transaction_id, state, from_check),
    )
