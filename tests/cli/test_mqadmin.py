"""mqadmin's command names and options, and their translation to our commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from orbitmq.admin.admin import Admin
from orbitmq.cli import main
from orbitmq.cli.mqadmin import translate
from orbitmq.cli.mqadmin.table import ALIASES, OTHER_NAMES
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message
from tests.cli.conftest import Run

Ask = Callable[..., Any]

OF_4_9_7 = json.loads((Path(__file__).parent / "mqadmin_4_9_7.json").read_text())
"""Command → letter → name, takes a value, is required; from MQAdminStartup."""


def test_every_command_of_mqadmin_has_an_alias() -> None:
    assert list(ALIASES) == list(OF_4_9_7)
    assert set(OTHER_NAMES.values()) <= set(ALIASES)


@pytest.mark.parametrize("name", ALIASES)
def test_every_option_of_mqadmin_is_accepted(name: str) -> None:
    ours = {
        option.letter: [option.name, option.takes_value, option.required]
        for option in ALIASES[name].options
    }
    assert ours == OF_4_9_7[name]


@pytest.mark.parametrize("name", ALIASES)
def test_every_alias_translates_to_a_valid_command_line(name: str) -> None:
    """All options at once: our command must be able to parse the translation."""
    values = {"topicPerms": "a=PUB", "method": "put", "perm": "6", "timestamp": "now", "key": "k"}
    words = []
    for option in ALIASES[name].options:
        words.append(f"-{option.letter}")
        if option.takes_value:
            default = "true" if option.is_switch else "PUB" if "Perm" in option.name else "7"
            words.append(values.get(option.name, default))
    noun, *rest = translate(name, ALIASES[name], words)
    context = main.make_context("orbitmq", [noun, *rest], resilient_parsing=True)
    command: click.Command | None = main.get_command(context, noun)
    while isinstance(command, click.Group):
        verb, *rest = rest
        command = command.get_command(context, verb)
    assert command is not None, (name, noun)
    command.make_context(name, rest, parent=context)


def test_missing_and_unknown_options_are_reported(run: Run) -> None:
    assert "needs -t" in run("mqadmin", "topicRoute", code=2).err
    assert "no option -z" in run("mqadmin", "topicList", "-z", code=2).err
    assert "No such command" in run("mqadmin", "noSuchCommand", code=2).err
    assert "--read-queues" in run("mqadmin", "updateTopic", "-h").out
    assert "consumerProgress" in run("mqadmin", "--help").out


def test_mqadmin_commands_change_and_query_a_cluster(
    run: Run, admin: Admin, producer: Producer
) -> None:
    def ask(*words: str) -> Any:
        return run("mqadmin", *words, "--output", "json").json

    ask("updateTopic", "-c", "DefaultCluster", "-t", "Old", "-r", "2", "-w", "2")
    sent = producer.send(Message("Old", b"hello", keys=["k"]))
    assert [one["body"] for one in ask("queryMsgByKey", "-t", "Old", "-k", "k")] == ["hello"]
    assert ask("queryMsgById", "-i", sent.offset_id)["messageId"] == sent.message_id
    assert ask("queryMsgByUniqueKey", "-t", "Old", "-i", sent.message_id)["body"] == "hello"
    again = ask("queryMsgById", "-i", sent.offset_id, "-s", "true")
    assert again["count"] == 1
    ask("updateSubGroup", "-c", "DefaultCluster", "-g", "OldGroup", "-r", "4", "-s", "false")
    assert ask("getConsumerConfig", "-g", "OldGroup")[0]["retryMaxTimes"] == 4
    assert {"topic": "Old"} in ask("topicList")
    ask("updateOrderConf", "-t", "Old", "-m", "put", "-v", "broker-a:2")
    assert ask("updateOrderConf", "-t", "Old", "-m", "get")["order"] == "broker-a:2"
    ask("updateOrderConf", "-t", "Old", "-m", "delete")
    ask("cleanExpiredCQ")
    ask("deleteSubGroup", "-c", "DefaultCluster", "-g", "OldGroup")
    ask("deleteTopic", "-c", "DefaultCluster", "-t", "Old")
    run("mqadmin", "topicRoute", "-t", "Old", code=5)


def test_the_option_n_of_mqadmin_names_the_nameserver(
    run: Run, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ";".join(admin.settings.nameservers)
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    run("mqadmin", "clusterList", code=6)
    assert "broker-a" in run("mqadmin", "clusterList", "-n", address).out


def test_the_documentation_lists_every_mqadmin_command() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for name, alias in ALIASES.items():
        assert f"| `{name}` | `orbitmq {' '.join(alias.verb)}` |" in text
