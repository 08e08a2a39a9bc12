"""Messages: found by the producer's id, the broker's id, or a key."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq._native import (
    Command,
    ReceivedMessage,
    Record,
    decode_messages,
    decode_offset_id,
    decode_records,
)
from orbitmq.admin.clusters import cluster_info
from orbitmq.admin.requests import QUERY_TIMEOUT_MS, ask
from orbitmq.admin.topics import address_of, brokers_of, topic_route
from orbitmq.client.consumer.pull_flow import decode_whole
from orbitmq.errors import BrokerRefused, MalformedId
from orbitmq.message import MessageQueue
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import Property
from orbitmq.rpc.flow import Flow
from orbitmq.rpc.namespace import unwrap
from orbitmq.rpc.refusals import access_hint

__all__ = ["message_at", "message_by_id", "messages_by_key"]

END_OF_TIME_MS = 2**63 - 1
MAX_OF_ONE_ID = 32


def message_by_id(
    nameservers: Sequence[str], topic: str, message_id: str, namespace: str | None = None
) -> Flow[ReceivedMessage | None]:
    """Return the message with an id of its producer or of a broker.

    Both look alike. An id counts as a broker's if it contains the address of a broker.
    """
    try:
        host, physical_offset = decode_offset_id(message_id)
    except MalformedId:
        place = None
    else:
        place = f"{host[0]}:{host[1]}"
    info = yield from cluster_info(nameservers)
    names = {
        address: name for name, one in info.brokers.items() for address in one.addresses.values()
    }
    if place is not None and place in names:
        found = yield from _at(place, physical_offset)
        if found is not None:
            return _as_received(found, names[place], namespace)
    records = yield from _query(nameservers, topic, message_id, MAX_OF_ONE_ID, unique=True)
    same = [
        (record, broker)
        for record, broker in records
        if record.get_property(Property.UNIQUE_KEY) == message_id
    ]
    if not same:
        return None
    record, broker = min(same, key=lambda found: found[0].store_timestamp)
    return _as_received(record, broker, namespace)


def message_at(
    nameservers: Sequence[str], offset_id: str, namespace: str | None = None
) -> Flow[ReceivedMessage | None]:
    """Return the message with a broker's id; requests go to registered brokers only."""
    try:
        (host, port), physical_offset = decode_offset_id(offset_id)
    except MalformedId:
        return None
    info = yield from cluster_info(nameservers)
    for name, places in info.brokers.items():
        if f"{host}:{port}" in places.addresses.values():
            found = yield from _at(f"{host}:{port}", physical_offset)
            return None if found is None else _as_received(found, name, namespace)
    return None


def _as_received(record: Record, broker: str, namespace: str | None) -> ReceivedMessage:
    """Return a stored message in the form that consumers receive."""
    queue = MessageQueue(unwrap(namespace, record.topic), broker, record.queue_id)
    (message,) = decode_messages(record.encoded, queue, namespace=namespace or "")
    return message


def _at(address: str, physical_offset: int) -> Flow[Record | None]:
    ext = {"offset": str(physical_offset)}
    try:
        response = yield from ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ext)
    except BrokerRefused as error:
        if error.code != ResponseCode.SYSTEM_ERROR or access_hint(error.remark) is not None:
            raise
        return None
    records = decode_records(response.body)
    return records[0] if records else None


def messages_by_key(
    nameservers: Sequence[str],
    topic: str,
    key: str,
    *,
    max_messages: int = 64,
    begin_ms: int = 0,
    end_ms: int = END_OF_TIME_MS,
    namespace: str | None = None,
) -> Flow[list[ReceivedMessage]]:
    """Return messages of a topic with a key by time, at most `max_messages` of each broker."""
    records = yield from _query(
        nameservers, topic, key, max_messages, begin_ms=begin_ms, end_ms=end_ms
    )
    # Brokers search by hash, and two keys may have the same hash.
    found = [
        _as_received(record, broker, namespace)
        for record, broker in records
        if record.topic == topic and key in record.keys
    ]
    return sorted(found, key=lambda message: message.store_timestamp)


def _query(
    nameservers: Sequence[str],
    topic: str,
    key: str,
    max_messages: int,
    *,
    unique: bool = False,
    begin_ms: int = 0,
    end_ms: int = END_OF_TIME_MS,
) -> Flow[list[tuple[Record, str]]]:
    """Return the records that brokers of a topic find, each with the name of its broker."""
    route = yield from topic_route(nameservers, topic)
    ext = {
        "topic": topic,
        "key": key,
        "maxNum": str(max_messages),
        "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms),
    }
    if unique:
        ext["_UNIQUE_KEY_QUERY"] = "true"
    records: list[tuple[Record, str]] = []
    for broker in brokers_of(route):
        response: Command = yield from ask(
            address_of(route, broker),
            RequestCode.QUERY_MESSAGE,
            ext,
            also=(ResponseCode.QUERY_NOT_FOUND,),
            timeout_ms=QUERY_TIMEOUT_MS,
        )
        if response.code == ResponseCode.SUCCESS:
            found = decode_whole(response.body, decode_records, f"topic {topic}")
            records += [(record, broker) for record in found]
    return records
