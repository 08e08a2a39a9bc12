"""The command line: help, settings, start and stop of a nameserver."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from orbitmq import __version__
from orbitmq._native import Command
from orbitmq.cli import COMMANDS, main
from orbitmq.cli.core.process import explain
from orbitmq.config import parse_properties

ORBITMQ = [sys.executable, "-m", "orbitmq.cli"]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore the root logger, which the command configures and other tests read."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@contextmanager
def nameserver(home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A nameserver process and what it printed up to its address."""
    process = subprocess.Popen(
        [*ORBITMQ, "nameserver", "--host", "127.0.0.1", *arguments],
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("NAMESRV_ADDR="):
                break
        yield process, lines
    finally:
        process.kill()
        process.communicate()


def ask(address: str, code: int, **ext: str) -> bytes:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(Command(code, ext=ext).encode())
        with connection.makefile("rb") as stream:
            return stream.read(int.from_bytes(stream.read(4), "big"))


def test_the_help_lists_commands_and_variables() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert COMMANDS["Run"]["nameserver"] in result.output
    assert "NAMESRV_ADDR" in result.output


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"orbitmq {__version__}\n"


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["nameservr"])
    assert result.exit_code == 2
    assert "nameservr" in result.output


def test_nameserver_settings_are_printed(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=19876\nautoCreateTopicEnable=false\n")
    result = CliRunner().invoke(main, ["-q", "nameserver", "-c", str(conf), "--print-config"])
    assert result.exit_code == 0
    printed = parse_properties(result.stdout)
    assert printed["listenPort"] == "19876"
    assert printed["autoCreateTopicEnable"] == "false"
    assert printed["configStorePath"] == str(conf)
    overridden = CliRunner().invoke(
        main, ["-q", "nameserver", "-c", str(conf), "-p", "7", "--print-config"]
    )
    assert parse_properties(overridden.stdout)["listenPort"] == "7"


def test_a_broken_file_is_reported_in_one_line(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("a=\\uXX")
    result = CliRunner().invoke(main, ["nameserver", "-c", str(conf)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: \\u without four hexadecimal digits")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_nameserver_runs_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=0\nuseStaticSubscription=true\n")
    with nameserver(tmp_path, "-c", str(conf)) as (process, lines):
        assert lines[0] == f"load config properties file OK, {conf}"
        assert lines[1] == "The Name Server boot success. serializeType=JSON"
        address = lines[2].removeprefix("NAMESRV_ADDR=")
        assert b'"topicList":[]' in ask(address, 206)
        ask(address, 100, namespace="N", key="k", value="v")
        process.send_signal(number)
        _, talk = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "useStaticSubscription is a setting of RocketMQ that has no effect here" in talk
    kept = json.loads((tmp_path / "namesrv" / "kvConfig.json").read_text())
    assert kept == {"configTable": {"N": {"k": "v"}}}


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*ORBITMQ, "nameserver", "--host", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"Error: 127.0.0.1:{port} is already in use; another process listens there\n"
    )


def test_other_errors_are_reported_unchanged() -> None:
    assert explain(OSError(5, "broken disk")) == "[Errno 5] broken disk"
