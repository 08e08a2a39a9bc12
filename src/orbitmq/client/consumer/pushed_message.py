"""The message that a broker's request carries as its body."""

from __future__ import annotations

from orbitmq._native import Command, ReceivedMessage, decode_messages
from orbitmq.errors import MalformedRecord
from orbitmq.protocol.bodies import MessageQueue

__all__ = ["pushed_message"]


def pushed_message(request: Command, namespace: str, *, broker_name: str = "") -> ReceivedMessage:
    """Return the one message of a request; raises `MalformedRecord` for none or several."""
    queue = MessageQueue("", broker_name, 0)
    messages = decode_messages(request.body, queue, namespace=namespace)
    if len(messages) != 1:
        raise MalformedRecord(f"request {request.code} has {len(messages)} messages, must have one")
    return messages[0]
