"""``orbitmq bench``: puts load on a cluster; shows rates meanwhile and latencies at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from orbitmq.cli.core.options import ExitCode, Verb, reaches
from orbitmq.cli.core.printing import Facts, Output, present
from orbitmq.cli.core.progress import bar
from orbitmq.cli.core.send_test import TOOLS_GROUP

if TYPE_CHECKING:
    from orbitmq._native import ReceivedMessage
    from orbitmq.cli.core.options import ClusterOptions
    from orbitmq.client.producer.async_producer import AsyncProducer
    from orbitmq.client.settings import ClientSettings

__all__ = ["bench"]

DRAIN_S = 10.0
"""Seconds that the consumer has for the remaining messages after the last send."""


@dataclass(slots=True)
class Tally:
    """Counts and latencies measured so far."""

    sent: int = 0
    failed: int = 0
    received: int = 0
    send_ms: list[float] = field(default_factory=list)
    delivery_ms: list[float] = field(default_factory=list)
    last_error: str | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


@click.command(cls=Verb, short_help="Measure a cluster under load")
@click.option(
    "-t",
    "--topic",
    default="orbitmq-bench",
    show_default=True,
    help="Topic to send to; created if it does not exist.",
)
@click.option(
    "--seconds",
    type=float,
    default=10.0,
    show_default=True,
    help="Duration of sending, in seconds.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="Bytes of each message's body.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Number of concurrent sends.",
)
@click.option(
    "--linger-ms",
    type=float,
    help="Send batches: milliseconds that a message waits for others.",
)
@click.option(
    "--queues",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Number of queues per broker, if the topic is created.",
)
@click.option(
    "--consume/--no-consume",
    "consumes",
    default=True,
    help="Also consume the messages. [default: yes]",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@reaches
def bench(place: ClusterOptions, output: Output, **load: Any) -> None:
    """Send and consume messages as fast as possible, and show rates and latencies.

    The rates are those of a single client process; several processes may reach more. The exit code
    is 3 if a message was not sent or not received. The topic is kept, the group is deleted.

    \b
    Examples:
      orbitmq bench --seconds 30
      orbitmq bench --size 1024 --in-flight 256 --no-consume
      orbitmq bench --linger-ms 2 -o json
    """
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        values = runner.run(_bench(place, **load))
    present(Facts(values), output)
    if values["failed"] or (load["consumes"] and values["received"] < values["sent"]):
        sys.exit(ExitCode.NOT_IN_ORDER)


async def _bench(
    place: ClusterOptions,
    topic: str,
    seconds: float,
    size: int,
    in_flight: int,
    linger_ms: float | None,
    queues: int,
    consumes: bool,
) -> dict[str, Any]:
    from orbitmq.admin.async_admin import AsyncAdmin
    from orbitmq.client.consumer.push import AsyncPushConsumer
    from orbitmq.client.producer.async_producer import AsyncProducer

    settings, tally, group = place.settings(), Tally(), f"orbitmq-bench-{os.getpid()}"
    async with AsyncAdmin(settings) as admin:
        if topic not in await admin.topic_names():
            await admin.create_topic(topic, queues=queues)
        consumer = AsyncPushConsumer(settings, group=group, consume_from="last")
        if consumes:
            await _start(admin, consumer, settings, topic, group, tally)
        sending = AsyncProducer(
            settings, group=TOOLS_GROUP, max_in_flight=in_flight, linger_ms=linger_ms
        )
        async with sending as producer:
            began = time.perf_counter()
            shown = asyncio.create_task(_show(tally, began, seconds))
            senders = [
                _send(producer, topic, size, began + seconds, tally) for _ in range(in_flight)
            ]
            await asyncio.gather(*senders)
            took_s = time.perf_counter() - began
        if consumes:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_drained(tally), DRAIN_S)
        shown.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await shown  # so that the bar is removed before the answer is printed
        if consumes:
            await consumer.stop()
            await admin.delete_group(group)
    return _summary(tally, took_s)


async def _start(
    admin: Any, consumer: Any, settings: ClientSettings, topic: str, group: str, tally: Tally
) -> None:
    """Start consuming at the end of the topic."""
    ends = await admin.offsets_at(topic, "latest")
    await admin.create_group(group)
    await admin.set_offsets(group, ends)

    async def handle(messages: list[ReceivedMessage]) -> None:
        now_ms = time.time() * 1000
        tally.received += len(messages)
        tally.arrived.set()
        tally.delivery_ms += [now_ms - message.born_timestamp for message in messages]

    consumer.on(topic, batch=64)(handle)
    await consumer.start()


async def _send(
    producer: AsyncProducer, topic: str, size: int, deadline: float, tally: Tally
) -> None:
    from orbitmq.errors import OrbitError
    from orbitmq.message import Message

    message = Message(topic, os.urandom(size))
    clock = time.perf_counter
    while (began := clock()) < deadline:
        try:
            await producer.send(message)
        except OrbitError as error:
            tally.failed += 1
            tally.last_error = str(error)
        else:
            tally.sent += 1
            tally.send_ms.append((clock() - began) * 1000)


async def _drained(tally: Tally) -> None:
    """Wait until all sent messages are received."""
    while tally.received < tally.sent:
        tally.arrived.clear()
        await tally.arrived.wait()


async def _show(tally: Tally, began: float, seconds: float) -> None:
    """Print the rates to stderr every second; on a terminal as text of a progress bar."""
    sent = received = 0
    with bar() or contextlib.nullcontext() as shown:
        task = None if shown is None else shown.add_task("Sending", total=max(round(seconds), 1))
        while True:
            await asyncio.sleep(1)
            passed_s = time.perf_counter() - began
            text = (
                f"sent {tally.sent - sent:>9,}/s   "
                f"received {tally.received - received:>9,}/s   failed {tally.failed:,}"
            )
            if shown is None or task is None:
                click.echo(f"{passed_s:5.0f} s   {text}", err=True)
            else:
                shown.update(task, completed=min(round(passed_s), seconds), description=text)
            sent, received = tally.sent, tally.received


def _summary(tally: Tally, took_s: float) -> dict[str, Any]:
    return {
        "seconds": round(took_s, 2),
        "sent": tally.sent,
        "failed": tally.failed,
        "received": tally.received,
        "sentPerSecond": round(tally.sent / took_s, 1),
        "sendMs": _percentiles(tally.send_ms),
        "deliveryMs": _percentiles(tally.delivery_ms),
        "lastError": tally.last_error,
    }


def _percentiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    values.sort()
    last = len(values) - 1
    marks = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {name: round(values[round(last * share)], 3) for name, share in marks.items()}
