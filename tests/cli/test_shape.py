"""Properties common to all commands: JSON, watching, and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from orbitmq import Message, Producer
from orbitmq.admin.admin import Admin
from orbitmq.cli import main
from orbitmq.cli.core.exits import ExitCode, exit_code_for_errors
from orbitmq.cli.mqadmin.table import ALIASES
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run, await_true, run_command

SERVERS = {("up",), ("nameserver",), ("broker",)}
"""Commands that run until they are stopped."""
STREAMS = {("consume",), ("tail",)}
"""Commands that print a line per message, JSON if requested; there is no single answer."""
TEXTS = {("completion",), ("pipeline", "init")}
"""Commands that print a script, or write a file."""

NUMBERS_MOVE = {
    *(("topic", "status"), ("topic", "stats"), ("group", "lag"), ("group", "members")),
    *(("group", "running-info"), ("offset", "get"), ("producer", "list"), ("producer", "members")),
    *(("broker", "status"), ("broker", "lag"), ("cluster", "status"), ("cluster", "send-check")),
}


def commands(
    command: click.Command = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return all commands with their words, without the aliases."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        if name != "mqadmin":
            yield from commands(inner, (*words, name))


ALL = dict(commands())


def options(command: click.Command) -> dict[str, click.Parameter]:
    return {text: one for one in command.params for text in one.opts}


def test_every_command_offers_json() -> None:
    assert len(ALL) > 60
    for words, command in ALL.items():
        if words in SERVERS | TEXTS:
            continue
        given = options(command)
        choice = given["--format" if words in STREAMS else "--output"]
        assert isinstance(choice.type, click.Choice), words
        assert "json" in choice.type.choices, words
        if words not in STREAMS:
            assert "-o" in choice.opts, words


def test_commands_with_changing_numbers_can_be_watched() -> None:
    watched = {words for words, command in ALL.items() if "--watch" in options(command)}
    assert watched == NUMBERS_MOVE
    for words in watched:
        assert {"-w", "--every", "--times"} <= options(ALL[words]).keys(), words
    assert "--every" in options(ALL["cluster", "monitor"]), "which does nothing but watch"


def test_every_command_has_the_connection_options() -> None:
    alone = {("stop",), ("message", "decode-id"), *(one for one in ALL if one[0] == "pipeline")}
    for words, command in ALL.items():
        if words in SERVERS | TEXTS | alone:
            continue
        assert {"-n", "--access-key", "--secret-key", "--tls", "--tls-ca"} <= options(
            command
        ).keys()


def test_every_mqadmin_alias_names_an_orbitmq_command() -> None:
    """The list of mqadmin's own commands is compared with `ALIASES` in test_mqadmin."""
    for name, alias in ALIASES.items():
        words = tuple(word for word in alias.verb if not word.startswith("-"))
        assert words[:2] in ALL, (name, words)


def test_exit_codes_follow_the_outcome(run: Run, admin: Admin) -> None:
    admin.create_topic("there", queues=1)
    run("topic", "route", "there", code=ExitCode.DONE)
    refused = ("broker", "config", "-b", "broker-a", "--set", "storePathRootDir=/elsewhere")
    assert "storePathRootDir" in run(*refused, code=ExitCode.FAILED).err
    run("topic", "route", code=ExitCode.NOT_STARTED)
    run("topic", "route", "there", "--tls-key", "/no/such/file", code=ExitCode.NOT_STARTED)
    run("topic", "route", "nowhere", code=ExitCode.NOT_FOUND)
    run("group", "lag", "nobody", code=ExitCode.NOT_FOUND)
    run("topic", "list", "-n", "127.0.0.1:1", code=ExitCode.NOBODY_ANSWERS)
    run("mqadmin", "topicRoute", "-t", "nowhere", code=ExitCode.NOT_FOUND)
    run("mqadmin", "topicList", "-n", "127.0.0.1:1", code=ExitCode.NOBODY_ANSWERS)
    admin.create_group("stuck")
    admin.set_offsets("stuck", dict.fromkeys(admin.topic_ends("there"), 7))
    run("explain", "group", "stuck", "--watch-s", "0", code=ExitCode.NOT_IN_ORDER)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_an_unfinished_command(
    cluster: LocalCluster, admin: Admin, number: signal.Signals
) -> None:
    topic = f"interrupted-{number.name}-{time.time_ns()}"  # unique in each attempt
    admin.create_topic(topic, queues=1)
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli", "produce", topic],
        env=os.environ | {"NAMESRV_ADDR": cluster.address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(b"line\n" * 10_000)  # More than a buffer of stdin.

        def has_come() -> bool:
            return sum(ends.max_offset for ends in admin.topic_ends(topic).values()) > 0

        await_true("it is at work", has_come)
        process.send_signal(number)
        process.wait(timeout=60)  # While there may be more to read.
        out, err = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (ExitCode.INTERRUPTED, b"")
    assert err.endswith(b"Error: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["tail"], ["consume", "--group", "endless"]], ids=lambda w: w[0])
def test_a_signal_ends_an_endless_command_successfully(
    cluster: LocalCluster, admin: Admin, words: list[str], number: signal.Signals
) -> None:
    topic = f"endless-{words[0]}-{number.name}-{time.time_ns()}"
    admin.create_topic(topic, queues=1)
    with Producer(cluster.address, group="endless") as producer:
        producer.send(Message(topic, b"hello"))
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli", "-q", *words, topic, "--from", "earliest"],
        env=os.environ | {"NAMESRV_ADDR": cluster.address, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(b"hello\n")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (ExitCode.DONE, b"", b"")


def test_a_signal_is_deferred_while_a_lock_is_taken() -> None:
    entering = SimpleNamespace(f_code=threading.Condition.__enter__.__code__)

    def work() -> None:
        with exit_code_for_errors():
            handler = signal.getsignal(signal.SIGTERM)
            assert callable(handler)
            handler(signal.SIGTERM, entering)  # type: ignore[arg-type]
            threading.Event().wait(30)  # A moment later the signal is delivered.
            pytest.fail("nobody was interrupted")

    with pytest.raises(SystemExit) as ended:
        work()
    assert ended.value.code == ExitCode.INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_just_before_a_wait_is_not_lost() -> None:
    """The signal comes just before a wait; here because another thread receives it."""
    reading, writing = os.pipe()
    bystander = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
    rescuer = threading.Timer(30, os.write, (writing, b"!"))
    bystander.start()
    rescuer.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with pytest.raises(SystemExit) as ended, exit_code_for_errors():
            os.read(reading, 1)
        assert rescuer.is_alive(), "it came only when there was something to read"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        rescuer.cancel()
        os.close(reading)
        os.close(writing)
    assert ended.value.code == ExitCode.INTERRUPTED
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0), "nothing ticks on"


def test_a_refused_start_leaves_no_signal_handler_behind(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    words = ("up", "--data", str(tmp_path), "--port", "0", "--set", "brokerRole=SLAVE")
    assert run_command(*words).code == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
