"""A consumer as a program: a signal ends it with everything committed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq import Message, Producer
from orbitmq.testing import LocalCluster

LIMIT_S = 60

BLOCKING = """
import sys, time
from orbitmq import PushConsumer

consumer = PushConsumer(sys.argv[1], group=sys.argv[3], consume_from="first", offset_persist_s=600)

@consumer.on(sys.argv[2])
def handle(message):
    print("begun", flush=True)
    time.sleep(0.3)

consumer.run()
print("ended", flush=True)
"""
AWAITING = """
import asyncio, sys
from orbitmq import AsyncPushConsumer

consumer = AsyncPushConsumer(
    sys.argv[1], group=sys.argv[3], consume_from="first", offset_persist_s=600
)

@consumer.on(sys.argv[2])
async def handle(message):
    print("begun", flush=True)
    await asyncio.sleep(0.3)

try:
    asyncio.run(consumer.run())
except KeyboardInterrupt:
    pass
print("ended", flush=True)
"""


EARLY = """
import asyncio, os, sys, threading
from orbitmq import PushConsumer

consumer = PushConsumer(sys.argv[1], group=sys.argv[3], consume_from="first")
told, join = threading.Event(), consumer._join

async def join_slowly(*args):
    member = await join(*args)
    assert await asyncio.to_thread(told.wait, 30)
    return member

consumer._join = join_slowly

@consumer.on(sys.argv[2])
def handle(message):
    os.kill(os.getpid(), int(sys.argv[4]))
    told.set()

consumer.run()
print("ended", flush=True)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    programs: list[subprocess.Popen[str]] = []
    yield programs
    for program in programs:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("text", [BLOCKING, AWAITING], ids=["sync", "async"])
def test_a_signal_ends_run_after_the_running_handler(
    cluster: LocalCluster,
    producer: Producer,
    topic: str,
    group: str,
    text: str,
    number: signal.Signals,
    started: list[subprocess.Popen[str]],
) -> None:
    sent = producer.send(Message(topic, b"x"))
    assert sent.queue is not None
    command = [sys.executable, "-c", text, cluster.address, topic, group]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started.append(program)
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    program.send_signal(number)
    output, _ = program.communicate(timeout=LIMIT_S)
    assert output == "ended\n"
    assert program.returncode == 0
    # The handler was running: it could finish, and its offset is committed.
    (broker,) = cluster.brokers.values()
    assert broker.offsets.of_group(topic, group)[sent.queue.queue_id] == sent.queue_offset + 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_before_the_start_ends_run(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, number: signal.Signals
) -> None:
    producer.send(Message(topic, b"x"))
    command = [sys.executable, "-c", EARLY, cluster.address, topic, group, str(int(number))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ended\n"), ran.stderr
