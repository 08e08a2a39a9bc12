"""Looking at messages: found by id, key or place, printed, traced; ids taken apart."""

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
    """Return the message with an id, or say that there is none."""
    found = admin.message_by_id(topic or "", message_id) if topic else admin.message_at(message_id)
    if found is None:
        hint = f"in topic {topic}" if topic else "at a broker; an id of a producer needs --topic"
        raise NothingFound(f"there is no message {message_id} {hint}")
    return found


@click.command("get", cls=Verb, short_help="Find a message by id, key or place")
@click.argument("message_id", required=False)
@click.option("-t", "--topic", help="Its topic.")
@click.option("-k", "--key", help="One of its keys.")
@click.option("-b", "--broker", metavar="NAME", help="The broker that has it.")
@click.option("-q", "--queue", "queue_id", type=int, help="Its queue.")
@click.option("--offset", type=int, help="Its place in the queue.")
@click.option("--begin", type=MOMENT, help="With a key: stored from then on.")
@click.option("--end", type=MOMENT, help="With a key: stored until then.")
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
    """Find a message by either of its ids, by a key, or by its place.

    An id that a broker gave says where the message is; one that a producer gave needs --topic.

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
@click.option("-b", "--broker", metavar="NAME", help="Only those on this broker.")
@click.option("-q", "--queue", "queue_id", type=int, help="Only those of this queue.")
@click.option("--tags", default="*", show_default=True, help="Only these: 'a || b'.")
@click.option("--begin", type=MOMENT, help="Only those stored from then on.")
@click.option("--end", type=MOMENT, help="Only those stored until then.")
@click.option("--offset", type=int, help="Only from this offset on.")
@click.option("--limit", type=click.IntRange(1), help="At most so many of each queue.")
@click.option("--body/--no-body", "with_body", default=True, help="With their bodies.")
@click.option("--count-tags", is_flag=True, help="Only count them, by tag.")
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
    """Print the messages of a topic, queue by queue; no group's offsets are touched.

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
            # Brokers return the nearest message to a time, which may be one before it.
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


@click.command("trace", cls=Verb, short_help="Show what clients traced of a message")
@click.argument("message_id")
@click.option("--trace-topic", default="RMQ_SYS_TRACE_TOPIC", show_default=True)
@admin_command()
def trace_command(admin: Admin, message_id: str, trace_topic: str) -> OutputTable:
    """Show who sent and who consumed a message, when, and how long it took them.

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


@click.command("decode-id", short_help="Take a message id apart")
@click.argument("message_ids", nargs=-1, required=True, metavar="ID...")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def decode_id_command(message_ids: tuple[str, ...], output: Output) -> None:
    """Take message ids apart: where a broker has stored a message, or when a producer made it.

    Both kinds look alike, so both readings are shown. No cluster is asked.

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
    """Return the time an id tells, of this month or, if that is yet to come, of the last one."""
    now = datetime.now(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    born = round(begin.timestamp() * 1000) + month_ms
    if born > time.time() * 1000 + 86_400_000:
        year, month = (now.year - 1, 12) if now.month == 1 else (now.year, now.month - 1)
        born = round(begin.replace(year=year, month=month).timestamp() * 1000) + month_ms
    return born


VERBS: Final = (get_command, print_command, trace_command, decode_id_command)
