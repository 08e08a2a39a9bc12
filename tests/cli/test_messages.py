"""Messages from the command line: sending, finding, printing, consuming, tailing, tracing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run, await_true, run_command

Ask = Callable[..., Any]


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    name = f"T-{request.node.name}".replace("[", "-").replace("]", "")
    admin.create_topic(name, queues=2)
    return name


def test_a_sent_message_is_found_by_id_key_and_offset(ask: Ask, run: Run, topic: str) -> None:
    words = ("message", "send", topic, "--body", "hello", "-k", "k1", "--tag", "a", "-p", "shop=7")
    sent = ask(*words, "-b", "broker-a", "-q", "1")
    assert (sent["status"], sent["broker"], sent["queue"]) == ("SEND_OK", "broker-a", 1)
    found = ask("message", "get", sent["messageId"], "-t", topic)
    assert (found["body"], found["tags"], found["keys"]) == ("hello", "a", ["k1"])
    assert found["properties"]["shop"] == "7"
    assert ask("message", "get", sent["offsetId"]) == found
    assert [one["body"] for one in ask("message", "get", "-t", topic, "-k", "k1")] == ["hello"]
    place = ("-b", "broker-a", "-q", "1", "--offset", "0")
    assert ask("message", "get", "-t", topic, *place) == found
    run("message", "get", "-t", topic, *place[:-1], "9", code=5)
    run("message", "get", "-t", topic, "-k", "none", code=5)
    run("message", "get", sent["messageId"], code=5)
    run("message", "get", code=2)
    run("message", "send", topic, "--body", "x", "-q", "1", code=2)
    (row,) = ask("message", "decode-id", sent["offsetId"])
    assert row["physicalOffset"] == found["physicalOffset"]
    (row,) = ask("message", "decode-id", sent["messageId"])
    assert abs(row["bornMs"] - found["bornMs"]) < 60_000
    assert run("message", "decode-id", "nonsense", code=1).err


@pytest.mark.parametrize("more", [(), ("--sharding-key", "s")], ids=["together", "singly"])
def test_an_invalid_line_does_not_stop_the_others(
    run: Run, topic: str, more: tuple[str, ...]
) -> None:
    ran = run("produce", topic, *more, "-o", "json", stdin="a\n\nb\n", code=1)
    assert ran.json == {"done": True, "topic": topic, "sent": 2, "failed": 1}
    assert "body" in ran.err


@pytest.mark.parametrize(
    "bad",
    [
        "no JSON",
        '{"keys": ["no body"]}',
        '{"body": "x", "keys": 42}',
        '{"body": "x", "delayLevel": "3"}',
        '{"body": "x", "properties": {"KEYS": "ours"}}',
        '{"body": "\\ud83d"}',
    ],
)
def test_an_invalid_json_object_does_not_stop_the_others(run: Run, admin: Admin, bad: str) -> None:
    admin.create_topic("T-objects", queues=2)
    good = '{"body": "a"}'
    lines = f"{good}\n{bad}\n{good}\n"
    ran = run("produce", "T-objects", "--json", "-o", "json", stdin=lines, code=1)
    assert ran.json == {"done": True, "topic": "T-objects", "sent": 2, "failed": 1}
    assert ran.err.startswith("Error: ")


def test_produced_messages_are_printed_and_tailed(
    ask: Ask, run: Run, topic: str, tmp_path: Path
) -> None:
    lines = "".join(f"line {n}\n" for n in range(20))
    said = run("produce", topic, "--tag", "t", "-o", "json", stdin=lines).json
    assert said == {"done": True, "topic": topic, "sent": 20, "failed": 0}
    objects = [{"body": "j", "keys": ["a", "b"], "tag": "u"}, {"body": {"x": 1}}]
    run("produce", topic, "--json", stdin="".join(f"{json.dumps(one)}\n" for one in objects))
    (tmp_path / "whole").write_text("two\nlines\n")
    run("produce", topic, str(tmp_path / "whole"), "--whole", "--sharding-key", "s")
    assert 'no object with a "body"' in run("produce", topic, "--json", stdin="x", code=1).err

    rows = ask("message", "print", topic)
    bodies = {row["body"] for row in rows}
    assert bodies == {*lines.splitlines(), "j", '{"x": 1}', "two\nlines\n"}
    assert {"tag": "t", "count": 20} in ask("message", "print", topic, "--count-tags")
    (tagged,) = ask("message", "print", topic, "--tags", "u")
    assert tagged["keys"] == ["a", "b"]
    assert ask("message", "print", topic, "--begin", "now") == []
    assert ask("message", "print", topic, "--end", "1h") == []
    assert len(ask("message", "print", topic, "--begin", "1h", "--end", "now")) == 23
    place = ("-b", rows[0]["broker"], "-q", rows[0]["queue"])
    assert len(ask("message", "print", topic, *place, "--limit", "1")) == 1

    words = ("tail", topic, "--from", "earliest", "--no-follow")
    tailed = run(*words, "--format", "json").out.splitlines()
    assert {json.loads(line)["body"] for line in tailed} == bodies
    assert len(run(*words, "--limit", "3").out.splitlines()) == 3
    assert run("tail", topic, "--no-follow").out == ""


def test_lines_are_spread_over_all_queues(run: Run, admin: Admin, topic: str) -> None:
    run("produce", topic, stdin="x\n" * 100)
    counts = [ends.count for ends in admin.topic_ends(topic).values()]
    assert counts == [25] * 4
    run("produce", topic, "--sharding-key", "one", stdin="x\n" * 10)
    assert sorted(ends.count for ends in admin.topic_ends(topic).values()) == [25, 25, 25, 35]


def test_consumed_messages_are_committed(run: Run, admin: Admin, topic: str) -> None:
    run("produce", topic, stdin="a\nb\nc\n")
    words = ("consume", topic, "-g", "eater", "--from", "earliest", "--format", "body")
    assert sorted(run(*words, "--limit", "3").out.split()) == ["a", "b", "c"]
    assert admin.group_lag("eater", topic).total == 0
    assert run(*words, "--idle", "0.2").out == ""


def test_a_new_group_begins_at_the_end_with_from_latest(run: Run, admin: Admin, topic: str) -> None:
    run("produce", topic, stdin="old\n" * 20)
    words = ("consume", topic, "-g", f"late-{topic}", "--format", "body")
    assert run(*words, "--from", "latest", "--idle", "1").out == ""
    assert admin.group_lag(f"late-{topic}", topic).total == 0
    run("produce", topic, stdin="new\n")
    # The group is not new any more: it continues at its offsets, whatever the option says.
    assert run(*words, "--from", "latest", "--limit", "1").out == "new\n"

    words = ("consume", topic, "-g", f"now-{topic}", "--format", "body")
    # A time means the message stored nearest to it, in each of four queues.
    assert len(run(*words, "--from", "now", "--idle", "1").out.splitlines()) <= 4
    assert len(run("consume", topic, "-g", f"usual-{topic}", "--limit", "21").out.split("\n")) == 22


def test_all_members_of_a_new_group_begin_at_the_end(
    cluster: LocalCluster, run: Run, admin: Admin, topic: str
) -> None:
    run("produce", topic, stdin="old\n" * 20)
    group, seen = f"end-{topic}", set[bytes]()
    consumers = [
        PushConsumer(cluster.address, group=group, consume_from="end", rebalance_s=0.1)
        for _ in range(2)
    ]
    for consumer in consumers:
        consumer.on(topic)(lambda message: seen.add(message.body))
        consumer.start()
    try:
        await_true("all queues have an end", lambda: len(admin.group_lag(group, topic).queues) == 4)
        await_true("nothing old waits", lambda: admin.group_lag(group, topic).total == 0)
        run("produce", topic, stdin="".join(f"new {number}\n" for number in range(8)))
        await_true("all new ones came", lambda: {b"new %d" % n for n in range(8)} <= seen)
        assert b"old" not in seen
    finally:
        for consumer in consumers:
            consumer.stop()


def test_a_message_is_consumed_directly(
    cluster: LocalCluster, ask: Ask, run: Run, admin: Admin, topic: str
) -> None:
    handled: list[bytes] = []
    consumer = PushConsumer(cluster.address, group="direct", consume_from="last")
    consumer.on(topic, tags="none")(lambda message: handled.append(message.body))
    with consumer:
        await_true("it is a member", lambda: admin.group_members("direct"))
        sent = ask("message", "send", topic, "--body", "now")
        words = ("message", "consume-directly", sent["messageId"], "-t", topic)
        said = ask(*words, "-g", "direct")
        assert (said["result"], handled) == ("CR_SUCCESS", [b"now"])
        run(*words, "-g", "nobody", code=5)


def test_a_traced_message_shows_its_events(ask: Ask, run: Run, topic: str) -> None:
    sent = ask("message", "send", topic, "--body", "x", "--trace")
    run("message", "trace", "7F00000100002A139A55000000000009", code=5)

    def is_traced() -> bool:
        return run_command("message", "trace", sent["messageId"]).code == 0

    await_true("the trace is stored", is_traced)
    (event,) = ask("message", "trace", sent["messageId"])
    assert (event["event"], event["topic"], event["success"]) == ("sent", topic, True)


def test_bench_reports_rates_and_latencies(ask: Ask, topic: str) -> None:
    said = ask("bench", "-t", topic, "--seconds", "0.3", "--in-flight", "4")
    assert said["sent"] == said["received"] > 0
    assert said["failed"] == 0
    assert set(said["sendMs"]) == {"p50", "p99", "p999", "max"}


def test_the_help_imports_nothing_heavy() -> None:
    """No event loop, no client, no Spark, not even rich: only what the help needs."""
    code = (
        "import sys; from orbitmq.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'asyncio', 'rich', 'uvloop', 'ssl', 'pyspark', 'yaml', 'orbitmq.client'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stderr.strip() == "[]"
    assert "explain" in ran.stdout


def test_every_command_has_a_help_with_an_example(run: Run) -> None:
    import click

    from orbitmq.cli import main

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        context = click.Context(command)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                if words != ("mqadmin",):
                    walk(inner, (*words, name))
        if words and words not in (("pipeline",), ("mqadmin",)):
            assert command.help, words
            if not isinstance(command, click.Group):
                assert f"orbitmq {' '.join(words)}" in command.help, words

    walk(main, ())
    assert "Exit codes: 0 done" in run("topic", "list", "--help").out
