"""Resending of messages: dead letters to their group, or any message to its topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.send_test import TOOLS_GROUP
from orbitmq.cli.core.values import check_group

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.core.options import ClusterOptions
    from orbitmq.message import Message

__all__ = ["dead_letters", "send_again"]

REDRIVEN_FROM = "REDRIVEN_FROM"
"""Property with the position of the dead letter from which a message was made."""


def dead_letters(admin: Admin, group: str, limit: int | None) -> Iterator[ReceivedMessage]:
    """Yield the present dead letters of a group, at most `limit`.

    The ends of the queues are read once, so letters that arrive meanwhile are left out. A dead
    letter whose resent copy is a dead letter again is left out as well: otherwise one message would
    become two.
    """
    from orbitmq.cli.core.messages import messages_of_queue
    from orbitmq.errors import NoRoute
    from orbitmq.protocol.names import dlq_topic

    try:
        queues = admin.topic_ends(dlq_topic(group))
    except NoRoute as error:
        if error.cause != "no_topic":
            raise
        check_group(admin, group)
        return  # brokers create the topic with the first dead letter
    there = sum(ends.max_offset - ends.min_offset for ends in queues.values())

    def letters() -> Iterator[ReceivedMessage]:
        for queue, ends in queues.items():
            yield from messages_of_queue(admin, queue, ends.min_offset, ends.max_offset)

    # Read the letters twice instead of keeping them: there may be far more than the limit.
    redriven = {
        message.get_property(REDRIVEN_FROM) for message in progress(letters(), there, "Looking")
    }
    newest = (message for message in letters() if _place_of(message) not in redriven)
    total = there if limit is None else min(there, limit)
    yield from progress(islice(newest, limit), total, "Reading")


def send_again(
    place: ClusterOptions, messages: Sequence[ReceivedMessage], group: str | None
) -> tuple[list[str], list[dict[str, str]]]:
    """Send messages again, to their topics or to a group, where they have all retries again.

    Returns the new ids, and the positions and reasons of messages that can never be sent; these do
    not stop the others. For a group, messages go to its retry topic with their original topic in a
    property. Consumers of the group handle them as messages of that topic; other groups do not
    receive them.
    """
    from orbitmq.client.producer.producer import Producer
    from orbitmq.rpc.refusals import is_hopeless

    sent: list[str] = []
    failed: list[dict[str, str]] = []
    with Producer(place.settings(), group=TOOLS_GROUP) as producer:
        for message in progress(messages, len(messages), "Sending"):
            try:
                sent.append(producer.send(_again(message, group)).message_id)
            except Exception as error:
                if not is_hopeless(error):
                    raise
                failed.append(
                    {
                        "place": _place_of(message),
                        "messageId": message.message_id,
                        "reason": str(error),
                    }
                )
    return sent, failed


def _place_of(message: ReceivedMessage) -> str:
    queue = message.queue
    place = f"{message.stored_topic}/{queue.broker_name}/{queue.queue_id}"
    return f"{place}/{message.queue_offset}"


def _again(message: ReceivedMessage, group: str | None) -> Message:
    from orbitmq.client.producer.message import REDRIVEN_LIMIT
    from orbitmq.message import RESERVED_PROPERTIES, Message
    from orbitmq.protocol.names import Property, retry_topic

    origin = message.get_property(Property.RETRY_TOPIC) or message.topic
    own = {
        name: value for name, value in message.properties.items() if name not in RESERVED_PROPERTIES
    }
    own[REDRIVEN_FROM] = _place_of(message)
    again = Message(
        origin if group is None else retry_topic(group),
        message.body,
        tags=message.tags,
        keys=message.keys,
        properties=own,
    )
    if group is not None:
        again.system = {Property.RETRY_TOPIC: origin, "MAX_RECONSUME_TIMES": REDRIVEN_LIMIT}
    return again
