"""Decoding of the message in the body of a broker's request."""

from __future__ import annotations

from orbitmq._native import Command, ReceivedMessage, decode_messages
from orbitmq.errors import MalformedRecord
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["pushed_message"]


def pushed_message(request: Command, namespace: str, *, broker_name: str = "") -> ReceivedMessage:
    """Return the message of a request; raises `MalformedRecord` unless there is exactly one."""
    queue = MessageQueue("", broker_name, 0)
    messages = decode_messages(request.body, queue, namespace=namespace)
    if len(messages) != 1:
        raise MalformedRecord(f"request {request.code} has {len(messages)} messages, must have one")
    return messages[0]
