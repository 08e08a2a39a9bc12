"""Sending messages again: dead letters to their group, or any message to its topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from orbitmq.cli.progress import progress
from orbitmq.cli.sending import TOOLS_GROUP

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.asking import Place

__all__ = ["dead_letters", "send_again"]


def dead_letters(admin: Admin, group: str, limit: int | None) -> Iterator[ReceivedMessage]:
    """Return the dead letters of a group that are there, at most so many."""
    from orbitmq.cli.reading import messages_of_queue
    from orbitmq.errors import NoRoute
    from orbitmq.protocol.names import dlq_topic

    try:
        queues = admin.topic_ends(dlq_topic(group))
    except NoRoute as error:
        if error.cause != "no_topic":
            raise
        return  # brokers make the topic when the first one comes
    there = sum(ends.max_offset - ends.min_offset for ends in queues.values())
    letters = (
        message
        for queue, ends in queues.items()
        for message in messages_of_queue(admin, queue, ends.min_offset, ends.max_offset)
    )
    total = there if limit is None else min(there, limit)
    yield from progress(islice(letters, limit), total, "Reading")


def send_again(place: Place, messages: Sequence[ReceivedMessage], group: str | None) -> list[str]:
    """Send messages again, to their topics, or as one more try of a group; returns their new ids.

    In a group's retry topic a message says which topic it is of; consumers of the group take it for
    one of that topic, nobody else sees it.
    """
    from orbitmq.client.producer import Producer
    from orbitmq.message import RESERVED_PROPERTIES, Message
    from orbitmq.protocol.names import Property, retry_topic

    sent = []
    with Producer(place.settings(), group=TOOLS_GROUP) as producer:
        for message in progress(messages, len(messages), "Sending"):
            origin = message.get_property(Property.RETRY_TOPIC) or message.topic
            own = {
                name: value
                for name, value in message.properties.items()
                if name not in RESERVED_PROPERTIES
            }
            queue = message.queue
            place_text = f"{message.stored_topic}/{queue.broker_name}/{queue.queue_id}"
            own["REDRIVEN_FROM"] = f"{place_text}/{message.queue_offset}"
            again = Message(
                origin if group is None else retry_topic(group),
                message.body,
                tags=message.tags,
                keys=message.keys,
                properties=own,
            )
            if group is not None:
                again.system = {Property.RETRY_TOPIC: origin}
            sent.append(producer.send(again).message_id)
    return sent
