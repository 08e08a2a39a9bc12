"""Every noun and verb against a cluster of two brokers: effects, and the keys of the JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message, MessageQueue
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run, await_true

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def filled(admin: Admin, producer: Producer) -> str:
    """A topic of two queues on each broker, five messages in one of them."""
    admin.create_topic("filled", queues=2)
    queue = MessageQueue("filled", "broker-a", 1)
    for number in range(5):
        message = Message(
            "filled", f"body {number}".encode(), keys=[f"k{number}"], tags=f"t{number % 2}"
        )
        producer.send(message, queue=queue)
    admin.set_offsets("reader", {queue: 2})
    admin.create_group("reader")
    return "filled"


@pytest.fixture(scope="module")
def consumer(cluster: LocalCluster, admin: Admin) -> Iterator[PushConsumer]:
    """A member of group ``members`` that subscribes to tags of topic ``wanted``."""
    admin.create_topic("wanted", queues=1)
    consumer = PushConsumer(cluster.address, group="members", consume_from="first")
    consumer.on("wanted", tags="a || b")(lambda message: None)
    consumer.start()
    await_true("the consumer has its queues", lambda: _queues(admin, "members"))
    yield consumer
    consumer.stop()


def _queues(admin: Admin, group: str) -> bool:
    members = admin.group_members(group)
    if members is None:
        return False
    return len(admin.running_info(group, members.members[0].client_id).queues) >= 2


# ---- Topics


def test_a_topic_is_created_updated_and_deleted(ask: Ask, run: Run) -> None:
    made = ask("topic", "create", "made", "--queues", "3", "--read-queues", "4")
    assert made == {
        "done": True,
        "topic": "made",
        "writeQueues": 3,
        "readQueues": 4,
        "perm": 6,
        "order": False,
        "brokers": ["broker-a", "broker-b"],
        "existed": [],
    }
    assert {"topic": "made"} in ask("topic", "list")
    changed = ask("topic", "update", "made", "--write-queues", "2", "-b", "broker-b")
    assert (changed["readQueues"], changed["brokers"]) == (4, ["broker-b"])
    configs = ask("topic", "config", "made")
    assert [one["writeQueues"] for one in configs] == [3, 2]
    assert ask("topic", "perm", "made", "r")["brokers"]["broker-a"] == {"from": 6, "to": 4}
    route = ask("topic", "route", "made")
    assert [one["perm"] for one in route] == [4, 4]
    assert set(route[0]) == {"broker", "cluster", "writeQueues", "readQueues", "perm", "addresses"}
    assert ask("topic", "clusters", "made") == [{"cluster": "DefaultCluster"}]
    assert ask("topic", "delete", "made")["done"]
    assert "no broker has topic made" in run("topic", "route", "made", code=5).err
    assert "no broker has topic made" in run("topic", "delete", "made", code=5).err


def test_an_update_changes_only_the_given_settings_on_each_broker(ask: Ask, run: Run) -> None:
    ask("topic", "create", "uneven", "--queues", "4", "-b", "broker-a", "--unit")
    ask("topic", "create", "uneven", "--queues", "6", "-b", "broker-b")
    changed = ask("topic", "update", "uneven", "--perm", "r")
    assert (changed["writeQueues"], changed["perm"]) == (None, 4)
    configs = ask("topic", "config", "uneven")
    assert [(one["writeQueues"], one["perm"]) for one in configs] == [(4, 4), (6, 4)]
    said = run("topic", "update", "uneven", "--write-queues", "0", "-b", "broker-b").out
    assert "0 queues to write and 6 to read on broker-b" in said
    assert [one["writeQueues"] for one in ask("topic", "config", "uneven")] == [4, 0]

    ask("topic", "create", "half", "-b", "broker-a")
    assert ask("topic", "update", "half", "--perm", "r")["brokers"] == ["broker-a"]
    assert [one["broker"] for one in ask("topic", "config", "half")] == ["broker-a"]
    run("topic", "update", "half", "-b", "broker-b", code=5)

    ask("group", "create", "uneven", "--retry-times", "3", "-b", "broker-a")
    ask("group", "create", "uneven", "--retry-times", "7", "-b", "broker-b")
    changed = ask("group", "update", "uneven", "--no-consume")
    assert (changed["retryMaxTimes"], changed["consumeEnable"]) == (None, False)
    said = run("group", "update", "uneven", "--no-consume").out
    assert "3 retries" in said
    assert "7 retries" in said
    groups = ask("group", "config", "uneven")
    retries = [(one["retryMaxTimes"], one["consumeEnable"]) for one in groups]
    assert retries == [(3, False), (7, False)]


def test_topic_commands_show_queues_groups_and_entries(ask: Ask, run: Run, filled: str) -> None:
    status = ask("topic", "status", filled)
    assert [one["messages"] for one in status] == [0, 5, 0, 0]
    assert set(status[1]) == {
        *("broker", "queue", "minOffset", "maxOffset", "messages", "lastUpdateMs"),
    }
    assert "5 messages in 4 queues" in run("topic", "status", filled).out
    assert ask("topic", "groups", filled) == [{"group": "reader"}]
    listed = ask("topic", "list", "--with-groups")
    assert {"topic": filled, "clusters": ["DefaultCluster"], "groups": ["reader"]} in listed
    entries = ask("topic", "entries", filled, "-b", "broker-a", "-q", "1", "--count", "2")
    assert [one["offset"] for one in entries] == [0, 1]
    assert entries[0]["tagsCode"] != entries[1]["tagsCode"]
    stats = ask("topic", "stats", filled)
    assert (stats[0]["group"], stats[0]["lag"]) == ("reader", 3)
    shares = ask("topic", "allocate", filled, "-i", "10.0.0.1,10.0.0.2")
    assert [one["client"] for one in shares] == ["10.0.0.1"] * 2 + ["10.0.0.2"] * 2


def test_the_order_of_a_topic_is_set_and_deleted(ask: Ask, run: Run, filled: str) -> None:
    run("topic", "order", filled, code=5)
    run("topic", "order", filled, "--set", "broker-a:2")
    assert ask("topic", "order", filled) == {"topic": filled, "order": "broker-a:2"}
    assert ask("nameserver", "kv-list", "ORDER_TOPIC_CONFIG") == [
        {"key": filled, "value": "broker-a:2"}
    ]
    run("topic", "order", filled, "--delete")
    run("topic", "order", filled, code=5)


# ---- Groups and offsets


def test_a_group_is_created_updated_and_deleted(ask: Ask, run: Run) -> None:
    assert ask("group", "create", "made", "--retry-times", "3")["retryMaxTimes"] == 3
    changed = ask("group", "update", "made", "--no-consume", "-b", "broker-a")
    assert (changed["consumeEnable"], changed["retryMaxTimes"]) == (False, 3)
    configs = ask("group", "config", "made")
    assert [one["consumeEnable"] for one in configs] == [False, True]
    assert {"group": "made", "brokers": ["broker-a", "broker-b"]} in ask("group", "list")
    run("group", "delete", "made")
    assert "no broker knows group made" in run("group", "delete", "made", code=5).err
    run("group", "config", "made", code=5)
    run("group", "update", "made", code=5)


def test_group_lag_is_shown_by_queue_and_group(ask: Ask, run: Run, filled: str) -> None:
    rows = ask("group", "lag", "reader")
    assert [one["lag"] for one in rows if one["broker"] == "broker-a"] == [0, 3]
    assert set(rows[0]) == {
        *("topic", "broker", "queue", "maxOffset", "consumerOffset", "lag", "lastConsumedMs"),
    }
    everyone = {one["group"]: one for one in ask("group", "lag")}
    assert (everyone["reader"]["lag"], everyone["reader"]["members"]) == (3, 0)
    assert "behind by 3" in run("group", "lag", "reader").out
    run("group", "lag", "nobody", code=5)
    of_broker = ask("broker", "lag", "-b", "broker-a", "--min-lag", "1")
    assert [(one["group"], one["lag"]) for one in of_broker] == [("reader", 3)]


def test_watching_prints_one_json_line_per_round(run: Run, filled: str) -> None:
    words = ("group", "lag", "reader", "--watch", "--every", "0.01", "--times", "3", "-o", "json")
    lines = run(*words).out.splitlines()
    assert [json.loads(line)[1]["lag"] for line in lines] == [3, 3, 3]
    assert run(*words[:-2]).out.count("behind by 3") == 3


def test_offsets_are_read_set_reset_and_cloned(ask: Ask, run: Run, filled: str) -> None:
    assert "no broker knows group mover" in run("offset", "get", "mover", filled, code=5).err
    ask("group", "create", "mover")
    run("offset", "set", "mover", filled, "-b", "broker-a", "-q", "1", "4")
    at = {"broker": "broker-a", "queue": 1, "offset": 4}
    assert at in ask("offset", "get", "mover", filled)
    run("offset", "set", "mover", filled, "-b", "broker-a", "-q", "7", "4", code=5)
    assert ask("offset", "reset", "mover", filled, "--to", "earliest")[1]["offset"] == 0
    assert ask("offset", "skip", "mover", filled)[1]["offset"] == 5
    assert ask("offset", "reset", "mover", filled, "--to", "1h", "--only-back")[1]["offset"] == 0
    assert ask("offset", "reset", "mover", filled, "--to", "now", "--only-back")[1]["offset"] == 0
    assert ask("offset", "at", filled, "latest")[1]["offset"] == 5
    run("offset", "clone", "reader", "twin", filled)
    assert {**at, "offset": 2} in ask("offset", "get", "twin", filled)
    assert "no moment" in run("offset", "at", filled, "soon", code=2).err


# ---- Clients


def test_members_and_their_running_info_are_shown(
    ask: Ask, run: Run, admin: Admin, consumer: PushConsumer
) -> None:
    found = ask("group", "members", "members")
    assert (found["consumeType"], found["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    wanted = {one["topic"]: one["expression"] for one in found["subscriptions"]}
    assert wanted["wanted"] == "a || b"
    client = found["members"][0]["clientId"]
    info = ask("group", "running-info", "members", "--stacks")
    assert info["client"] == client
    assert {one["topic"] for one in info["queues"]} >= {"wanted"}
    assert "Thread" in info["stacks"] or "orbitmq" in info["stacks"]
    admin.set_offsets("members", {MessageQueue("wanted", "broker-a", 0): 0})
    owners = ask("group", "lag", "members", "--clients")
    assert {one["client"] for one in owners if one["topic"] == "wanted"} == {client}
    run("group", "members", "nobody", code=5)


def test_producers_are_listed_with_their_members(
    ask: Ask, run: Run, producer: Producer, filled: str
) -> None:
    def listed() -> bool:
        return any(one["group"] == "tests" for one in ask("producer", "list"))

    await_true("the producer's heartbeat has come", listed)
    assert ask("producer", "members", "tests", filled)[0]["language"] == "PYTHON"
    run("producer", "members", "nobody", filled, code=5)


# ---- Brokers, nameservers and clusters


def test_broker_commands_read_and_change_brokers(ask: Ask, run: Run) -> None:
    version = ask("broker", "status", "-b", "broker-a", "--only", "versiondesc")
    assert version == [{"broker": "broker-a", "key": "brokerVersionDesc", "value": "V4_9_7"}]
    run("broker", "config", "-b", "broker-a", "--set", "fileReservedTime=24")
    kept = ask("broker", "config", "--only", "fileReservedTime")
    assert [one["value"] for one in kept] == ["24", "72"]
    assert "Say where" in run("broker", "config", "--set", "fileReservedTime=24", code=2).err
    for verb in ("clean-queues", "clean-topics", "clean-log"):
        run("broker", verb, "-c", "DefaultCluster")
    denied = ask("broker", "deny-writes", "broker-b")["topicsByNameserver"]
    assert min(denied.values()) > 0
    assert ask("broker", "allow-writes", "broker-b")["topicsByNameserver"] == denied
    run("broker", "deny-writes", "broker-z", code=5)
    checks = ask("broker", "send-check", "broker-a", "--amount", "3")
    assert [one["status"] for one in checks] == ["SEND_OK"] * 3


def test_nameserver_commands_change_kv_values_and_settings(ask: Ask, run: Run) -> None:
    run("nameserver", "kv-set", "shop", "currency", "NOK")
    assert ask("nameserver", "kv-get", "shop", "currency")["value"] == "NOK"
    assert ask("nameserver", "kv-list", "shop") == [{"key": "currency", "value": "NOK"}]
    run("nameserver", "kv-delete", "shop", "currency")
    run("nameserver", "kv-get", "shop", "currency", code=5)
    run("nameserver", "config", "--set", "orderMessageEnable=true")
    (setting,) = ask("nameserver", "config", "--only", "orderMessageEnable")
    assert setting["value"] == "true"


def test_cluster_commands_show_and_export_the_state(
    ask: Ask, run: Run, filled: str, tmp_path: Path
) -> None:
    assert [one["broker"] for one in ask("cluster", "list")] == ["broker-a", "broker-b"]
    status = ask("cluster", "status", "--more")
    assert [one["answers"] for one in status] == [True, True]
    assert status[0]["inToday"] >= 5
    checked = ask("cluster", "send-check", "--amount", "2")
    assert [(one["sent"], one["failed"]) for one in checked] == [(2, 0), (2, 0)]
    for what in ("metadata", "configs", "metrics"):
        run("cluster", "export", what, "--to", str(tmp_path / f"{what}.json"))
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["topics"][filled]["broker-a"]["writeQueueNums"] == 2
    assert "reader" in metadata["groups"]
    configs = json.loads((tmp_path / "configs.json").read_text())
    assert configs["brokers"]["broker-b"]["brokerName"] == "broker-b"
    assert "putTps" in json.loads((tmp_path / "metrics.json").read_text())["brokers"]["broker-a"]


# ---- The command line itself


def test_an_unreachable_nameserver_is_reported(run: Run) -> None:
    ran = run("topic", "list", "-n", "127.0.0.1:1", code=6)
    assert "no nameserver answers" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(run: Run, shell: str) -> None:
    assert "_ORBITMQ_COMPLETE" in run("completion", shell).out


def test_topic_names_are_completed(cluster: LocalCluster, filled: str, monkeypatch: Any) -> None:
    from click.shell_completion import ShellComplete

    from orbitmq.cli import main

    monkeypatch.setenv("NAMESRV_ADDR", cluster.address)
    shell = ShellComplete(main, {}, "orbitmq", "_ORBITMQ_COMPLETE")
    found = [one.value for one in shell.get_completions(["topic", "status"], "fil")]
    assert found == [filled]
    assert "status" in [one.value for one in shell.get_completions(["topic"], "st")]


def test_commands_shown_in_the_documentation_exist() -> None:
    import re

    import click

    from orbitmq.cli import main

    root = Path(__file__).parents[2]
    texts = [root / "README.md", root / "docs" / "cli.md", *(root / "src/orbitmq").rglob("*.py")]
    shown = {
        words
        for path in texts
        for words in re.findall(r"orbitmq ([a-z]+) ([a-z-]+)\b", path.read_text())
        if words[0] in main.list_commands(click.Context(main))
    }
    assert len(shown) > 60
    for noun, verb in shown:
        command = main.get_command(click.Context(main), noun)
        if isinstance(command, click.Group) and noun not in ("mqadmin", "broker", "nameserver"):
            assert verb in command.list_commands(click.Context(command)), (noun, verb)


@pytest.mark.parametrize(
    "where", [("broker", "config", "-c", "DefaultCluster"), ("nameserver", "config")]
)
@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("clientWorkerThread=9", "has no clientWorkerThread"),
        ("serverWorkerThreads=many", "serverWorkerThreads is 8, 'many' was not taken"),
        ("useEpollNativeSelector=yes", "useEpollNativeSelector is false, 'yes' was not taken"),
    ],
)
def test_a_change_that_a_server_ignores_is_an_error(
    run: Run, where: tuple[str, ...], setting: str, complaint: str
) -> None:
    assert complaint in run(*where, "--set", setting, code=1).err


def test_a_change_that_a_server_stores_in_another_spelling_succeeds(run: Run) -> None:
    run("broker", "config", "-b", "broker-a", "-s", "traceOn=TRUE", "-s", "fileReservedTime=+72")
