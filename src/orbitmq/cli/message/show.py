"""Verbs that show messages: find by id, key or position, print, trace, and decode ids."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import click

from orbitmq.cli.core.exits import NothingFound
from orbitmq.cli.core.messages import message_facts, message_rows, messages_of_queue
from orbitmq.cli.core.options import Verb, admin_command
from orbitmq.cli.core.printing import Column, Facts, Output, OutputTable, present
from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.values import MOMENT, moment_ms, topic_argument

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.admin.admin import Admin
    from orbitmq.protocol.bodies import MessageQueue

__all__ = ["VERBS", "find_message"]

END_OF_TIME_MS = 2**63 - 1


def find_message(admin: Admin, message_id: str, topic: str | None) -> ReceivedMessage:
    """Return the message with an id; raise `NothingFound` if it does not exist."""
    found = admin.message_by_id(topic or "", message_id) if topic else admin.message_at(message_id)
    if found is None:
        hint = f"in topic {topic}" if topic else "at a broker; an id of a producer needs --topic"
        raise NothingFound(f"there is no message {message_id} {hint}")
    return found


@click.command("get", cls=Verb, short_help="Find a message by id, key or position")
@click.argument("message_id", required=False)
@click.option("-t", "--topic", help="Topic of the message.")
@click.option("-k", "--key", help="One of the message's keys.")
@click.option("-b", "--broker", metavar="NAME", help="Name of the broker with the message.")
@click.option("-q", "--queue", "queue_id", type=int, help="Queue id of the message.")
@click.option("--offset", type=int, help="Offset of the message in its queue.")
@click.option(
    "--begin", type=MOMENT, help="With --key: find only messages stored at this time or later."
)
@click.option(
    "--end", type=MOMENT, help="With --key: find only messages stored at this time or earlier."
)
@click.option("--limit", type=click.IntRange(1), default=64, show_default=True)
@admin_command()
def get_command(
    admin: Admin,
    message_id: str | None,
    topic: str | None,
    key: str | None,
    broker: str | None,
    queue_id: int | None,
    offset: int | None,
    begin: Any,
    end: Any,
    limit: int,
) -> OutputTable | Facts:
    """Find a message by one of its ids, by a key, or by broker, queue and offset.

    An id assigned by a broker contains the position of the message. An id assigned by a producer
    needs --topic.

    \b
    Examples:
      orbitmq message get 7F0000010000… --topic orders
      orbitmq message get --topic orders --key 42
      orbitmq message get --topic orders --broker broker-a --queue 3 --offset 1024
    """
    if message_id is not None:
        return message_facts(find_message(admin, message_id, topic))
    if topic is None:
        raise click.UsageError("Name a message's id, or its --topic and a --key or a place.")
    if key is not None:
        found = admin.messages_by_key(
            topic,
            key,
            max_messages=limit,
            begin_ms=moment_ms(begin, default=0),
            end_ms=moment_ms(end, default=END_OF_TIME_MS),
        )
        if not found:
            raise NothingFound(f"no message of {topic} has the key {key}")
        return OutputTable(*message_rows(found))
    if broker is None or queue_id is None or offset is None:
        raise click.UsageError("A place is --broker, --queue and --offset, all three.")
    return message_facts(_at_place(admin, topic, broker, queue_id, offset))


def _at_place(admin: Admin, topic: str, broker: str, queue_id: int, offset: int) -> ReceivedMessage:
    from orbitmq.protocol.bodies import MessageQueue

    queue = MessageQueue(topic, broker, queue_id)
    for found in messages_of_queue(admin, queue, offset, offset + 1):
        return found
    raise NothingFound(f"queue {queue_id} of {topic} on {broker} has no message {offset}")


@click.command("print", cls=Verb, short_help="Print the messages of a topic")
@topic_argument()
@click.option("-b", "--broker", metavar="NAME", help="Print only messages on this broker.")
@click.option(
    "-q", "--queue", "queue_id", type=int, help="Print only messages in queues with this id."
)
@click.option(
    "--tags",
    default="*",
    show_default=True,
    help="Print only messages with one of these tags, such as 'a || b'.",
)
@click.option("--begin", type=MOMENT, help="Print only messages stored at this time or later.")
@click.option("--end", type=MOMENT, help="Print only messages stored at this time or earlier.")
@click.option("--offset", type=int, help="First offset to print in each queue.")
@click.option("--limit", type=click.IntRange(1), help="Largest number of messages from each queue.")
@click.option(
    "--body/--no-body",
    "with_body",
    default=True,
    help="Print the bodies of the messages. [default: yes]",
)
@click.option("--count-tags", is_flag=True, help="Print the number of messages by tag instead.")
@admin_command()
def print_command(
    admin: Admin,
    topic: str,
    broker: str | None,
    queue_id: int | None,
    tags: str,
    begin: Any,
    end: Any,
    offset: int | None,
    limit: int | None,
    with_body: bool,
    count_tags: bool,
) -> OutputTable:
    """Print the messages of a topic, queue by queue; no offset is committed.

    \b
    Examples:
      orbitmq message print orders --begin 10m
      orbitmq message print orders --broker broker-a --queue 0 --offset 100 --limit 20
      orbitmq message print orders --count-tags
    """
    ends = {
        queue: one
        for queue, one in admin.topic_ends(topic).items()
        if (broker is None or queue.broker_name == broker)
        and (queue_id is None or queue.queue_id == queue_id)
    }
    if not ends:
        raise NothingFound(f"topic {topic} has no such queue")
    first = {queue: one.min_offset for queue, one in ends.items()}
    last = {queue: one.max_offset for queue, one in ends.items()}
    if begin is not None and begin != "latest":
        first |= {
            queue: at for queue, at in admin.offsets_at(topic, begin).items() if queue in ends
        }
    if isinstance(end, int):
        behind = admin.offsets_at(topic, end + 1)
        last = {queue: min(one, behind.get(queue, one) + 1) for queue, one in last.items()}
    end_ms = moment_ms(end, default=END_OF_TIME_MS)

    def wanted(queue: MessageQueue) -> Iterator[ReceivedMessage]:
        start = max(first[queue], offset or 0)
        messages = (
            message
            for message in messages_of_queue(admin, queue, start, last[queue], tags=tags)
            # Brokers return the message nearest to a time, which may be an earlier one.
            if moment_ms(begin, default=0) <= message.store_timestamp <= end_ms
        )
        return islice(messages, limit)

    there = [max(last[queue] - max(first[queue], offset or 0), 0) for queue in ends]
    total = sum(there if limit is None else (min(one, limit) for one in there))
    found = list(progress(chain.from_iterable(map(wanted, ends)), total, "Reading"))
    if count_tags:
        counts = Counter(message.tags for message in found)
        rows = [{"tag": tag, "count": count} for tag, count in counts.most_common()]
        return OutputTable([Column("tag", "Tag"), Column("count", "Messages", "number")], rows)
    return OutputTable(*message_rows(found, with_body=with_body), note=f"{len(found):,} messages")


@click.command("trace", cls=Verb, short_help="Show the trace of a message")
@click.argument("message_id")
@click.option("--trace-topic", default="RMQ_SYS_TRACE_TOPIC", show_default=True)
@admin_command()
def trace_command(admin: Admin, message_id: str, trace_topic: str) -> OutputTable:
    """Show when a message was sent and consumed, by which groups, and how long this took.

    \b
    Example:
      orbitmq message trace 7F0000010000…
    """
    events = admin.message_trace(message_id, trace_topic)
    if not events:
        raise NothingFound(f"nothing was traced of message {message_id}; is tracing on?")
    rows = [
        {
            "timeMs": event.timestamp_ms,
            "event": event.kind,
            "group": event.group,
            "topic": event.topic or None,
            "success": event.success,
            "outcome": event.outcome or None,
            "costMs": event.cost_ms,
            "retryTimes": event.retry_times,
        }
        for event in events
    ]
    columns = [
        Column("timeMs", "Time", "time"),
        Column("event", "Event"),
        Column("group", "Group"),
        Column("topic", "Topic"),
        Column("success", "OK"),
        Column("outcome", "Outcome"),
        Column("costMs", "ms", "number"),
        Column("retryTimes", "Retry", "number"),
    ]
    return OutputTable(columns, rows)


@click.command("decode-id", short_help="Decode message ids")
@click.argument("message_ids", nargs=-1, required=True, metavar="ID...")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def decode_id_command(message_ids: tuple[str, ...], output: Output) -> None:
    """Decode message ids: the position at a broker, or the producer and the time of creation.

    Both kinds of id look alike, so both interpretations are shown. No cluster is needed.

    \b
    Example:
      orbitmq message decode-id 7F0000010000…
    """
    from orbitmq._native import decode_offset_id, decode_unique_id
    from orbitmq.errors import MalformedId

    rows = []
    for message_id in message_ids:
        row: dict[str, Any] = {"messageId": message_id}
        try:
            (host, port), physical_offset = decode_offset_id(message_id)
            row |= {"broker": f"{host}:{port}", "physicalOffset": physical_offset}
        except MalformedId:
            pass
        try:
            ip, pid, _, month_ms, counter = decode_unique_id(message_id)
            row |= {"producer": ip, "pid": pid, "bornMs": _born(month_ms), "counter": counter}
        except MalformedId as error:
            if "broker" not in row:
                raise click.ClickException(str(error)) from error
        rows.append(row)
    columns = [
        Column("messageId", "Message"),
        Column("broker", "If a broker's: at"),
        Column("physicalOffset", "In the log", "number"),
        Column("producer", "If a producer's: of"),
        Column("pid", "Process"),
        Column("bornMs", "Born", "time"),
        Column("counter", "Number", "number"),
    ]
    present(OutputTable(columns, rows), output)


def _born(month_ms: int) -> int:
    """Return the time in an id, which lies in this month or, if that is the future, the last."""
    now = datetime.now(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    born = round(begin.timestamp() * 1000) + month_ms
    if born > time.time() * 1000 + 86_400_000:
        year, month = (now.year - 1, 12) if now.month == 1 else (now.year, now.month - 1)
        born = round(begin.replace(year=year, month=month).timestamp() * 1000) + month_ms
    return born


VERBS: Final = (get_command, print_command, trace_command, decode_id_command)
