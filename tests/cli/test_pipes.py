"""Commands whose output goes to a pipe that is closed early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.cli import main
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message
from orbitmq.testing import LocalCluster

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def topic(admin: Admin, producer: Producer) -> str:
    admin.create_topic("unread", queues=1)
    for _ in range(5):
        producer.send(Message("unread", b"x" * 100_000, keys=["k"]))  # More than a pipe holds.
    admin.set_offsets("unreading", dict.fromkeys(admin.topic_ends("unread"), 0))
    return "unread"


def unread(cluster: LocalCluster, *words: str, program: str = "orbitmq") -> tuple[int, str]:
    """Run a command whose reader has already closed the pipe; return its code and stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [str(BIN / program), *words],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            env=os.environ | {"NAMESRV_ADDR": cluster.address},
            text=True,
            timeout=120,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "topic list",
        "topic list -o json",
        "topic route unread",
        "topic status unread --watch --times 2 --every 0.01",
        "topic status unread --watch --times 2 --every 0.01 -o json",
        "tail unread --from earliest --no-follow",
        "consume unread -g fresh --from earliest --limit 5",
        "message print unread",
        "produce unread",
        "mqadmin topicList",
        "mqadmin updateTopic -h",
        "completion bash",
        "broker --print-config",
    ],
)
def test_a_command_ends_quietly_when_its_output_is_not_read(
    cluster: LocalCluster, topic: str, words: str
) -> None:
    assert unread(cluster, "-q", *words.split()) == (0, "")


def test_the_exit_code_stays_when_the_output_is_not_read(cluster: LocalCluster, topic: str) -> None:
    code, said = unread(cluster, "-q", "explain", "group", "unreading", "--watch-s", "0")
    assert (code, said) == (3, "")
    code, said = unread(cluster, "-q", "topic", "route", "nowhere")
    assert (code, said.count("\n")) == (5, 1)


def test_rocketmqs_programs_end_quietly_when_their_output_is_not_read(
    cluster: LocalCluster,
) -> None:
    assert unread(cluster, "-p", program="mqbroker") == (0, "")
    assert unread(cluster, "--help", program="mqnamesrv") == (0, "")
    assert unread(cluster, "topicList", program="mqadmin") == (0, "")


def test_unprinted_messages_are_not_committed_when_the_reader_is_gone(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    unread(cluster, "-q", "consume", topic, "-g", "unprinted", "--from", "earliest")
    assert admin.group_lag("unprinted", topic).total > 0


def test_a_broken_pipe_that_is_not_stdout_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    def broken(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("orbitmq.cli.completion.completion.callback", broken)
    assert CliRunner().invoke(main, ["completion", "bash"]).exit_code != 0
