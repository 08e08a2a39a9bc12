"""The README's Python snippets run as written, and its shell commands exist with their options."""

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from orbitmq import Message, NewMessage, Producer, Store
from orbitmq.testing import LocalCluster

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
SEND_AND_RECEIVE, ITERATE, CLUSTER, READ_STORE = SNIPPETS
LIMIT_S = 30


def lines_of(snippet: str, cluster: LocalCluster, wanted: int) -> list[str]:
    """Run a snippet that would go on for ever until it has printed so many lines."""
    program = snippet.replace("127.0.0.1:9876", cluster.address)
    assert program != snippet
    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            return [process.stdout.readline().rstrip() for _ in range(wanted)]
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def test_sending_and_receiving() -> None:
    with LocalCluster() as cluster:
        sent, received = lines_of(SEND_AND_RECEIVE, cluster, 2)
    message_id = sent.removeprefix("sent ")
    assert received == f"received {message_id} b'42 apples'"


def test_iterating() -> None:
    with LocalCluster() as cluster:
        with Producer(cluster.address, group="p") as producer:
            queue = producer.send(Message("orders", b"1")).queue
            producer.send(Message("orders", b"2"), queue=queue)
        lines = lines_of(ITERATE, cluster, 2)
    assert lines == [f"{queue.queue_id} 0 b'1'", f"{queue.queue_id} 1 b'2'"]


def test_a_cluster_tells_where_it_is() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CLUSTER], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"point any RocketMQ client at 127\.0\.0\.1:\d+\n", run.stdout)


def test_the_store_snippet_prints_every_message(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(100)]
    with Store.open(tmp_path, create=True) as store:
        store.append_many(
            [NewMessage("orders", body, queue_id=1, properties={"KEYS": "k"}) for body in bodies]
        )
    run = subprocess.run(
        [sys.executable, "-c", READ_STORE, tmp_path], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [
        f"orders 1 {number} ('k',) {body!r}" for number, body in enumerate(bodies)
    ]


# ---- shell blocks: what they name exists --------------------------------------------------------

PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PROGRAMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
SYSTEM_PROGRAMS = {".", "awk", "cd", "echo", "eval", "export", "git", "jq", "nohup", "printf"}
SYSTEM_PROGRAMS |= {"python3", "seq", "source", "tail"}
SAVED_FILES = set(re.findall(r"`([\w-]+\.(?:py|toml))`", README.read_text()))


def commands_of(page: Path) -> list[str]:
    """Return the single commands of a page's shell blocks, without comments, pipes and loops.

    Of a block without a language only lines that begin with a command of ours count. Lines with
    brackets, and there also those with a word in capitals, are synopses, not commands.
    """
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        if language not in ("bash", ""):
            continue
        for line in block.splitlines():
            command = re.sub(r"(^|\s)#.*", "", line)
            if language == "" and (
                not re.match(r"(make|orbitmq|mqadmin|pip)\b", command)
                or re.search(r"\s[A-Z]{4,}\b", command)
            ):
                continue
            if re.search(r"(^|\s)\[", command):
                continue
            parts = re.split(r"\s(?:\||&&|&)(?:\s|$)", re.sub(r"<\s*\S+", "", command))
            found += [part.strip() for part in parts if part.strip()]
    return found


def check(command: str) -> None:
    """Raise an error if a command cannot be run as it is written."""
    words = shlex.split(command)
    program, arguments = words[0], words[1:]
    if program == "make":
        wanted = {word for word in arguments if "=" not in word}
        assert wanted <= TARGETS, f"no such make target: {wanted - TARGETS}"
    elif program in PROGRAMS:
        module, _, name = PROGRAMS[program].partition(":")
        command_object = getattr(importlib.import_module(module), name)
        if isinstance(command_object, click.Command):  # RocketMQ's own scripts are plain functions
            parse(command_object, arguments)
    elif program == "python":
        file = arguments[0]
        assert (ROOT / file).is_file() or file in SAVED_FILES, f"no such file: {file}"
    elif program.endswith("pip"):
        assert arguments[0] == "install"
        assert all(".build/wheel/" in package for package in arguments[1:]), (
            "no registry has the package; name the wheel"
        )
    else:
        assert program in SYSTEM_PROGRAMS, f"unknown program: {program}"


def parse(command: click.Command, arguments: list[str]) -> None:
    """Parse a command line as the program would, without running the command."""
    with command.make_context(command.name, list(arguments)) as context:
        if not isinstance(command, click.Group):
            return
        rest = [*context._protected_args, *context.args]
        name, chosen, left = command.resolve_command(context, rest)
        assert name is not None
        assert chosen is not None
        parse(chosen, left)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_blocks_name_existing_targets_programs_and_options(page: Path) -> None:
    wrong = []
    for command in commands_of(page):
        try:
            check(command)
        except (AssertionError, ValueError, click.ClickException) as error:
            wrong.append(f"{command}: {error}")
    assert wrong == []


def test_the_readme_has_shell_blocks_with_our_commands() -> None:
    programs = [command.split()[0] for command in commands_of(README)]
    assert programs.count("orbitmq") > 10
    assert programs.count("make") > 3


@pytest.mark.parametrize(
    "command",
    [
        "make uppp",
        "orbitmq topik list",
        "orbitmq topic create",
        "orbitmq topic create orders --quues 16",
        "orbitmq topic create orders --queues many",
        "python no_such_file.py",
        "pip install 'orbitmq[spark]'",
        "orbit up",
    ],
)
def test_a_command_that_does_not_work_is_found(command: str) -> None:
    with pytest.raises((AssertionError, click.ClickException)):
        check(command)
