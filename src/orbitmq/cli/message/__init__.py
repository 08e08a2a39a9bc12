"""``orbitmq message``: find, print, send, test and resend messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.exits import ExitCode, NothingFound, fail
from orbitmq.cli.core.messages import message_rows
from orbitmq.cli.core.options import Verb, admin_command, reaches
from orbitmq.cli.core.printing import Done, Facts, Output, OutputTable, present
from orbitmq.cli.core.send_test import TOOLS_GROUP
from orbitmq.cli.core.values import key_values, topic_argument
from orbitmq.cli.message.show import VERBS as LOOKS
from orbitmq.cli.message.show import find_message

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["message"]


@click.group(short_help="Find, print, send and resend messages")
def message() -> None:
    """Find, print, send, test and resend messages."""


@click.command("send", cls=Verb, short_help="Send a message")
@topic_argument()
@click.option("--body", help="Body of the message as text; read from stdin by default.")
@click.option(
    "-k",
    "--key",
    "keys",
    multiple=True,
    help="Key to find the message by; may be given several times.",
)
@click.option("--tag", help="Tag of the message.")
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE")
@click.option(
    "--delay-level",
    type=click.IntRange(0),
    default=0,
    help="Delay level of the message, 1 to 18; 0 delivers at once.",
)
@click.option("-b", "--broker", metavar="NAME", help="Name of the broker to send to.")
@click.option(
    "-q", "--queue", "queue_id", type=int, help="Id of the queue to send to; needs --broker."
)
@click.option("--trace", is_flag=True, help="Write message trace for the message.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def send_command(
    place: ClusterOptions,
    topic: str,
    body: str | None,
    keys: tuple[str, ...],
    tag: str | None,
    properties: tuple[str, ...],
    delay_level: int,
    broker: str | None,
    queue_id: int | None,
    trace: bool,
    output: Output,
) -> None:
    """Send one message and show where it is stored.

    \b
    Examples:
      orbitmq message send orders --body '{"id": 42}' --key 42 --tag created
      echo hello | orbitmq message send orders
    """
    from orbitmq.client.producer.producer import Producer
    from orbitmq.message import Message, MessageQueue

    if queue_id is not None and broker is None:
        raise click.UsageError("A queue needs its broker: --broker NAME --queue N.")
    data = sys.stdin.buffer.read() if body is None else body.encode()
    message = Message(
        topic,
        data,
        tags=tag,
        keys=keys,
        properties=key_values(properties),
        delay_level=delay_level,
    )
    queue = MessageQueue(topic, broker, queue_id or 0) if broker is not None else None
    with Producer(place.settings(), group=TOOLS_GROUP, trace=trace) as producer:
        sent = producer.send(message, queue=queue)
    values = {
        "status": sent.status.name,
        "messageId": sent.message_id,
        "offsetId": sent.offset_id,
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "offset": sent.queue_offset,
    }
    present(Facts(values), output)


@click.command("consume-directly", cls=Verb, short_help="Have a consumer handle a message now")
@click.argument("message_id")
@click.option("-t", "--topic", help="The message's topic, if the id is its producer's.")
@click.option("-g", "--group", required=True, help="The consumer group.")
@click.option(
    "-i", "--client", "client_id", help="Client id of the member; by default the first member."
)
@admin_command()
def consume_directly_command(
    admin: Admin, message_id: str, topic: str | None, group: str, client_id: str | None
) -> Facts:
    """Have a consumer handle a message now, and show the result; offsets do not change.

    \b
    Example:
      orbitmq message consume-directly 7F0000010000… --topic orders --group billing
    """
    found = find_message(admin, message_id, topic)
    if client_id is None:
        members = admin.group_members(group)
        if members is None:
            raise NothingFound(f"nobody is connected as a member of group {group}")
        client_id = members.members[0].client_id
    result = admin.consume_directly(group, client_id, found)
    return Facts(
        {
            "messageId": found.message_id,
            "client": client_id,
            "result": result.result,
            "spentMs": result.spent_ms,
            "remark": result.remark,
        }
    )


@click.command("resend", cls=Verb, short_help="Send messages or dead letters again")
@click.argument("message_id", required=False)
@click.option("-t", "--topic", help="The message's topic, if the id is its producer's.")
@click.option("-g", "--group", help="The group whose dead letters are sent again.")
@click.option("--all", "everything", is_flag=True, help="Send all dead letters of the group again.")
@click.option("--to", type=click.Choice(["group", "topic"]), default="group", show_default=True)
@click.option("--limit", type=click.IntRange(1), help="Largest number of messages to send.")
@click.option("--dry-run", is_flag=True, help="Only list the messages, without sending them.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def resend_command(
    place: ClusterOptions,
    message_id: str | None,
    topic: str | None,
    group: str | None,
    everything: bool,
    to: str,
    limit: int | None,
    dry_run: bool,
    output: Output,
) -> None:
    """Send a message again, or send dead letters back to their group.

    With --to group only this group receives a dead letter again, with all its retries. With --to
    topic it is a new message for all groups. Dead letters stay in their topic; the new messages
    have the property REDRIVEN_FROM. If a resent message has become a dead letter again, --all sends
    only the newest copy.

    \b
    Examples:
      orbitmq message resend 7F0000010000… --topic orders
      orbitmq message resend 7F0000010000… --group billing
      orbitmq message resend --group billing --all --dry-run
    """
    from orbitmq.cli.message.resend import dead_letters, send_again
    from orbitmq.protocol.names import dlq_topic

    if (message_id is None) == (not everything) or (everything and group is None):
        raise click.UsageError("Name a message, or a --group and --all of its dead letters.")
    if group is None and to == "group":
        to = "topic"
    with place.admin() as admin:
        if message_id is not None:
            where = dlq_topic(group) if group is not None else topic
            found = [find_message(admin, message_id, where)]
        else:
            assert group is not None
            found = list(dead_letters(admin, group, limit))
    if dry_run:
        present(OutputTable(*message_rows(found)), output)
        return
    sent, failed = send_again(place, found, group if to == "group" else None)
    values: dict[str, Any] = {"count": len(sent), "messageIds": sent, "failed": failed}
    present(Done(f"{len(sent)} messages are sent again", values), output)
    for one in failed:
        click.echo(f"Message {one['messageId']} at {one['place']}: {one['reason']}", err=True)
    if failed:
        fail(
            f"{len(failed)} messages cannot be sent again and stay where they are", ExitCode.FAILED
        )


for _verb in (*LOOKS, send_command, consume_directly_command, resend_command):
    message.add_command(_verb)
