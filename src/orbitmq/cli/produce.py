"""``orbitmq produce``: sends lines, JSON objects or files as messages."""

from __future__ import annotations

import json
import operator
import random
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from orbitmq.cli.core.exits import exit_of
from orbitmq.cli.core.options import ExitCode, Verb, reaches
from orbitmq.cli.core.printing import Done, Output, present
from orbitmq.cli.core.progress import progress
from orbitmq.cli.core.send_test import TOOLS_GROUP
from orbitmq.cli.core.values import key_values, topic_argument
from orbitmq.errors import BadMessage, BrokerRefused, OrbitError, RemotingError, SendFailed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from orbitmq.cli.core.options import ClusterOptions
    from orbitmq.client.producer.producer import Producer
    from orbitmq.message import Message, MessageQueue, SendResult

__all__ = ["produce"]

LINGER_MS = 5
UNDER_WAY = 20_000
"""Largest number of messages without a result; input from a pipe may be endless."""
SHOWN_ERRORS = 5


@click.command(cls=Verb, short_help="Send lines or files as messages")
@topic_argument()
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("--whole", is_flag=True, help="Send each file as one message instead of each line.")
@click.option(
    "--json", "is_json", is_flag=True, help='Read each line as a JSON object with "body" and more.'
)
@click.option(
    "-k", "--key", "keys", multiple=True, help="Key of all messages; may be given several times."
)
@click.option("--tag", help="Tag of all messages.")
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE")
@click.option("--sharding-key", help="Send all messages in order to the queue chosen by this key.")
@click.option(
    "--delay-level",
    type=click.IntRange(0),
    default=0,
    help="Delay level of all messages, 1 to 18; 0 delivers at once.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest number of messages per second.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def produce(
    place: ClusterOptions,
    topic: str,
    files: tuple[IO[bytes], ...],
    whole: bool,
    is_json: bool,
    keys: tuple[str, ...],
    tag: str | None,
    properties: tuple[str, ...],
    sharding_key: str | None,
    delay_level: int,
    rate: float | None,
    output: Output,
) -> None:
    """Send each line of stdin, or of FILES, as a message to the queues of TOPIC in turn.

    With --json a line is an object with "body" and optionally "keys" (a list), "tag", "properties"
    and "delayLevel", which override the options. The exit code is 1 if some messages failed; the
    others are sent all the same.

    \b
    Examples:
      seq 100 | orbitmq produce orders
      orbitmq produce pictures --whole --tag png *.png
      echo '{"body": "hello", "keys": ["42"]}' | orbitmq produce orders --json
    """
    from orbitmq.client.producer.producer import Producer
    from orbitmq.message import Message

    given: dict[str, Any] = {
        "tags": tag,
        "keys": keys,
        "properties": key_values(properties),
        "delay_level": delay_level,
    }

    sources: Iterable[IO[bytes]] = files or (sys.stdin.buffer,)
    is_typed = not files and sys.stdin.isatty()  # no bar while the user types lines

    def message_of(body: bytes) -> Message:
        return _of_json(topic, body, given) if is_json else Message(topic, body, **given)

    sent, failed = 0, 0
    shown: list[str] = []
    codes: set[ExitCode] = set()
    linger_ms = None if sharding_key else LINGER_MS
    with Producer(place.settings(), group=TOOLS_GROUP, linger_ms=linger_ms) as producer:
        futures: deque[tuple[Message, Future[SendResult]]] = deque()
        spread = Spread(producer, topic)

        def count(error: BaseException | None) -> None:
            nonlocal sent, failed
            if error is None:
                sent += 1
                return
            failed += 1
            codes.add(exit_of(error))
            if failed <= SHOWN_ERRORS:
                shown.append(str(error))

        def settle(left: int) -> None:
            while len(futures) > left:
                message, future = futures.popleft()
                error = future.exception()
                if isinstance(error, SendFailed | RemotingError):
                    spread.forget()
                    error = again(message)
                count(error)

        def again(message: Message) -> OrbitError | None:
            """Send a message again, to any queue, after the chosen queue failed."""
            try:
                producer.send(message)
            except OrbitError as error:
                return error
            return None

        all_of_them = _paced(_bodies(sources, whole), rate)
        for body in all_of_them if is_typed else progress(all_of_them, None, "Sending"):
            try:
                message = message_of(body)
                if sharding_key:
                    producer.send(message, sharding_key=sharding_key)
                    count(None)
                else:
                    futures.append((message, producer.enqueue(message, queue=spread.next())))
                    settle(UNDER_WAY)
            except (BadMessage, BrokerRefused) as error:
                count(error)  # the others are sent all the same
        settle(0)
    for text in shown:
        click.echo(f"Error: {text}", err=True)
    values = {"topic": topic, "sent": sent, "failed": failed}
    present(Done(f"{sent} messages are in {topic}", values), output)
    if failed:
        sys.exit(codes.pop() if len(codes) == 1 and not sent else ExitCode.FAILED)


class Spread:
    """Chooses the queues of a topic in turn, so that a few lines are not one batch in one queue."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._queues: list[MessageQueue] = []
        self._next = 0

    def next(self) -> MessageQueue | None:
        """Return the next queue, or None for a new topic, which the first message creates."""
        from orbitmq.errors import NoRoute

        if not self._queues:
            try:
                self._queues = list(self._producer.queues(self._topic))
            except NoRoute as error:
                if error.cause != "no_topic":
                    raise
                return None
            self._next = random.randrange(len(self._queues))
        self._next = (self._next + 1) % len(self._queues)
        return self._queues[self._next]

    def forget(self) -> None:
        """Drop the list of queues, so that it is read again."""
        self._queues = []


def _bodies(files: Iterable[IO[bytes]], whole: bool) -> Iterator[bytes]:
    for file in files:
        if whole:
            yield file.read()
        else:
            yield from (line.rstrip(b"\r\n") for line in file)


def _of_json(topic: str, line: bytes, given: dict[str, Any]) -> Message:
    from orbitmq.message import Message

    shown = line.decode("utf-8", "replace")
    try:
        value = json.loads(line)
        body = value["body"]
    except (ValueError, KeyError, TypeError):
        raise BadMessage(f'a line is no object with a "body": {shown}') from None
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    try:
        return Message(
            topic,
            text.encode(),
            tags=value.get("tag", given["tags"]),
            keys=value.get("keys", given["keys"]),
            properties={**given["properties"], **(value.get("properties") or {})},
            delay_level=operator.index(value.get("delayLevel", given["delay_level"])),
        )
    except (TypeError, ValueError) as error:
        raise BadMessage(f"a line is no message, {error}: {shown}") from None


def _paced(bodies: Iterable[bytes], rate: float | None) -> Iterator[bytes]:
    began = time.monotonic()
    for number, body in enumerate(bodies):
        if rate is not None and (early := began + number / rate - time.monotonic()) > 0:
            time.sleep(early)
        yield body
