"""Faults seeded in a running cluster: each gets its verdict, a healthy group gets none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq._native import dumps_lenient
from orbitmq.admin.admin import Admin
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transaction import TransactionProducer, TransactionState
from orbitmq.message import Message, MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run, await_true, run_command

HOUR = " ".join(["1h"] * 18)
SETTINGS = {"messageDelayLevel": HOUR, "enablePropertyFilter": "true"}

Findings = list[dict[str, Any]]
Explain = Callable[..., Findings]
Consume = Callable[..., PushConsumer]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def explain(run: Run) -> Explain:
    """Explain with little patience; check the exit code and return the findings."""

    def explain(*words: str) -> Findings:
        quick = ("--watch-s", "0.1", "--patience", "0.05", "-o", "json")
        ran = run_command("explain", *words, *quick)
        assert ran.code in (0, 3, 5), ran
        findings: Findings = ran.json
        has_fault = any(one["severity"] == "fault" for one in findings)
        is_nowhere = [one["verdict"] for one in findings] == ["not-found"]
        assert ran.code == (5 if is_nowhere else 3 if has_fault else 0), ran
        return findings

    return explain


@pytest.fixture
def consume(cluster: LocalCluster, admin: Admin) -> Iterator[Consume]:
    """Start consumers and wait for their queues; they are stopped after the test."""
    started: list[PushConsumer] = []

    def consume(
        group: str, topic: str, handle: Callable[[Any], Any] = lambda message: None, **options: Any
    ) -> PushConsumer:
        of_topic = {name: options.pop(name) for name in ("tags", "sql") if name in options}
        settings = {"consume_from": "first", "rebalance_s": 0.1, "stop_timeout_s": 1.0, **options}
        consumer = PushConsumer(cluster.address, group=group, **settings)
        consumer.on(topic, **of_topic)(handle)
        started.append(consumer.start())
        members = sum(one.settings.group == group for one in started)

        def is_there() -> bool:
            found = admin.group_members(group)
            return found is not None and len(found.members) == members

        await_true(f"{group} has {members} members", is_there)
        return consumer

    yield consume
    for consumer in started:
        consumer.stop()


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """A topic of one queue."""
    name = f"T-{request.node.name}"
    admin.create_topic(name, queues=1)
    return name


def await_verdict(look: Callable[[], Findings], verdict: str) -> dict[str, Any]:
    """Repeat until a verdict is among the findings: a seeded fault takes a moment to show."""
    seen: list[Findings] = []

    def found() -> bool:
        seen.append(look())
        return verdict in [one["verdict"] for one in seen[-1]]

    try:
        await_true(f"the verdict {verdict}", found)
    except AssertionError:
        raise AssertionError(seen[-1]) from None
    return next(one for one in seen[-1] if one["verdict"] == verdict)


def is_done(admin: Admin, group: str, queue: MessageQueue, offset: int) -> bool:
    members = admin.group_members(group)
    if members is None:
        return False
    states = admin.running_info(group, members.members[0].client_id).queues
    return queue in states and states[queue].commit_offset >= offset


# ---- Healthy groups


def test_a_healthy_group_and_its_message_have_no_faults(
    run: Run, explain: Explain, consume: Consume, admin: Admin, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"x", keys=["42"]))
    consume("healthy", topic)
    await_true("it is consumed", lambda: is_done(admin, "healthy", sent.queue, 1))
    assert explain("group", "healthy") == []
    assert run("explain", "group", "healthy", "--watch-s", "0").out == "group healthy is healthy\n"
    for words in (("message", sent.message_id, "-t", topic), ("key", topic, "42")):
        (finding,) = explain(*words)
        assert (finding["verdict"], finding["severity"]) == ("consumed", "ok")
    (finding,) = explain("message", sent.offset_id)
    assert finding["verdict"] == "consumed"
    rows = run("cluster", "monitor", "--times", "1", "-o", "json").json
    assert rows == []


def test_an_unknown_group_is_reported(run: Run) -> None:
    assert "no broker has heard of" in run("explain", "group", "nobody", code=5).err


# ---- Groups that make no progress


def test_a_group_without_members_is_reported(
    explain: Explain, admin: Admin, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"x"))
    admin.set_offsets("absent", {sent.queue: 0})
    finding = explain("group", "absent")[0]
    assert finding["verdict"] == "nobody-online"
    assert finding["evidence"]["lag"] == 1
    assert [one["verdict"] for one in explain("message", sent.message_id, "-t", topic)] == [
        "waiting",
        "nobody-online",
    ]


def test_a_group_with_consumption_disabled_is_reported(
    explain: Explain, consume: Consume, admin: Admin, topic: str
) -> None:
    admin.create_group("disabled", consume_enable=False)
    consume("disabled", topic)
    finding = await_verdict(lambda: explain("group", "disabled"), "consuming-disabled")
    assert "group update disabled --consume" in finding["advice"]


def test_a_missing_topic_is_reported(explain: Explain, consume: Consume, topic: str) -> None:
    consumer = consume("seeker", topic)
    consumer.on("T-nowhere")(lambda message: None)
    finding = await_verdict(lambda: explain("group", "seeker"), "topic-missing")
    assert finding["evidence"] == {"topic": "T-nowhere"}


def test_an_unreadable_topic_is_reported(
    run: Run, explain: Explain, consume: Consume, topic: str
) -> None:
    consume("shut-out", topic)
    run("topic", "perm", topic, "w")
    finding = await_verdict(lambda: explain("group", "shut-out"), "topic-not-readable")
    assert finding["evidence"]["perm"] == 2


def test_different_subscriptions_in_one_group_are_reported(
    explain: Explain, consume: Consume, topic: str
) -> None:
    consume("fighting", topic, tags="a")
    consume("fighting", topic, tags="b")
    finding = await_verdict(lambda: explain("group", "fighting"), "subscriptions-differ")
    assert set(finding["evidence"]["versions"]) == {"TAG a", "TAG b"}


def test_more_consumers_than_queues_are_reported(
    explain: Explain, consume: Consume, topic: str
) -> None:
    consume("crowd", topic)
    consume("crowd", topic)
    finding = await_verdict(lambda: explain("group", "crowd"), "more-consumers-than-queues")
    assert finding["evidence"]["queues"] == 1
    assert len(finding["evidence"]["idle"]) == 1


def test_a_stuck_handler_is_reported_with_its_message(
    explain: Explain, consume: Consume, producer: Producer, topic: str
) -> None:
    first = producer.send(Message(topic, b"1"))
    second = producer.send(Message(topic, b"2"))
    let_go = threading.Event()
    consume("stuck", topic, lambda message: let_go.wait(120), concurrency=1)
    try:
        finding = await_verdict(lambda: explain("group", "stuck"), "stuck-on-message")
        assert finding["evidence"]["message"] == first.message_id
        assert finding["evidence"]["offset"] == 0
        verdicts = [one["verdict"] for one in explain("message", second.message_id, "-t", topic)]
        assert verdicts == ["waiting", "stuck-on-message"]
    finally:
        let_go.set()


def test_a_flow_controlled_consumer_is_reported(
    explain: Explain, consume: Consume, producer: Producer, topic: str
) -> None:
    producer.send_many([Message(topic, b"x") for _ in range(50)])
    let_go = threading.Event()
    options = {"concurrency": 1, "max_cached_messages": 8, "pull_batch_size": 8}
    consume("full", topic, lambda message: let_go.wait(120), **options)
    try:
        await_verdict(lambda: explain("group", "full"), "flow-controlled")
    finally:
        let_go.set()


def test_a_suspended_consumer_is_reported(
    explain: Explain, consume: Consume, admin: Admin, producer: Producer, topic: str
) -> None:
    consumer = consume("paused", topic)
    queue = MessageQueue(topic, "broker-a", 0)
    producer.send(Message(topic, b"x"))
    await_true("it consumes", lambda: is_done(admin, "paused", queue, 1))
    consumer.suspend()

    def look() -> Findings:
        # Earlier pulls are still answered; no later ones follow.
        producer.send(Message(topic, b"x"))
        return explain("group", "paused")

    finding = await_verdict(look, "not-pulling")
    members = admin.group_members("paused")
    assert members is not None
    assert finding["evidence"]["client"] == members.members[0].client_id


def test_an_offset_beyond_the_end_is_reported(
    run: Run, explain: Explain, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"x"))
    run("group", "create", "ahead")
    run("offset", "set", "ahead", topic, "-b", "broker-a", "-q", "0", "100")
    finding = explain("group", "ahead")[0]
    assert finding["verdict"] == "offset-ahead"
    assert (finding["evidence"]["consumerOffset"], finding["evidence"]["maxOffset"]) == (100, 1)


def test_a_misspelt_tag_is_reported(
    explain: Explain, consume: Consume, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"x", tags="created"))
    consume("slip", topic, tags="craeted")
    finding = await_verdict(lambda: explain("group", "slip"), "nothing-wanted")
    assert finding["severity"] == "note"
    assert finding["evidence"]["tags"] == ["created"]


# ---- States of a message


def test_messages_filtered_by_tag_or_sql_are_reported(
    explain: Explain, consume: Consume, admin: Admin, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"x", tags="b", properties={"price": "5"}))
    consume("by-tag", topic, tags="a")
    consume("by-sql", topic, sql="price > 10")
    look = lambda: explain("message", sent.message_id, "-t", topic)  # noqa: E731
    await_verdict(look, "filtered-by-tag")
    finding = await_verdict(look, "filtered-by-sql")
    assert finding["evidence"] == {"group": "by-sql", "expression": "price > 10", "tags": "b"}


def _fail(_message: Any) -> None:
    raise ValueError("no")


def test_a_message_in_retry_is_reported(
    explain: Explain, consume: Consume, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"x"))
    consume("retrier", topic, _fail)
    look = lambda: explain("message", sent.message_id, "-t", topic, "-g", "retrier")  # noqa: E731
    finding = await_verdict(look, "retrying")
    assert (finding["evidence"]["try"], finding["evidence"]["of"]) == (1, 16)
    assert finding["evidence"]["untilMs"] > time.time() * 1000 + 3_000_000


def test_a_dead_letter_is_reported_and_sent_again(
    run: Run, explain: Explain, consume: Consume, admin: Admin, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"x", keys=["dead"]))
    fails = threading.Event()
    handled = threading.Event()

    def handle(message: Any) -> None:
        if not fails.is_set():
            raise ValueError("no")
        handled.set()

    consume("quitter", topic, handle, max_reconsume_times=0)
    finding = await_verdict(lambda: explain("message", sent.message_id, "-t", topic), "dead-letter")
    assert finding["evidence"]["group"] == "quitter"
    assert await_verdict(lambda: explain("group", "quitter"), "has-dead-letters")
    assert "dead-letter" in [one["verdict"] for one in explain("key", topic, "dead")]
    dry_run = ("message", "resend", "-g", "quitter", "--all", "--dry-run", "-o", "json")
    # Nameservers list the dead-letter topic a moment after its first message.
    await_true("the dead letter is listed", lambda: run(*dry_run).json)
    listed = run(*dry_run).json
    assert [one["messageId"] for one in listed] == [sent.message_id]
    fails.set()
    again = run("message", "resend", sent.message_id, "-g", "quitter", "-o", "json").json
    assert again["count"] == 1
    assert handled.wait(60), "a dead letter that is sent back is handled again"


def test_resend_finds_nothing_for_a_group_without_dead_letters(run: Run) -> None:
    resend = ("message", "resend", "-g", "never-failed", "--all")
    assert "no broker knows group never-failed" in run(*resend, code=5).err
    run("group", "create", "never-failed")
    assert run(*resend, "-o", "json").json == {
        "done": True,
        "count": 0,
        "messageIds": [],
        "failed": [],
    }
    assert run(*resend, "--dry-run", "-o", "json").json == []
    assert "0 messages are sent again" in run(*resend).out


@pytest.fixture
def in_doubt(cluster: LocalCluster) -> Iterator[TransactionProducer]:
    producer = TransactionProducer(
        cluster.address, group="doubters", check=lambda message: TransactionState.UNKNOWN
    )
    with producer:
        yield producer


def test_a_half_message_is_reported(
    explain: Explain, in_doubt: TransactionProducer, topic: str
) -> None:
    result = in_doubt.send_in_transaction(
        Message(topic, b"x"), lambda message, sent: TransactionState.UNKNOWN
    )
    finding = await_verdict(
        lambda: explain("message", result.sent.message_id, "-t", topic), "half-message"
    )
    assert finding["evidence"]["producerGroup"] == "doubters"
    assert finding["evidence"]["checkMax"] == 15


def test_a_rolled_back_message_is_reported(
    explain: Explain, in_doubt: TransactionProducer, topic: str
) -> None:
    result = in_doubt.send_in_transaction(
        Message(topic, b"x"), lambda message, sent: TransactionState.ROLLBACK
    )
    await_verdict(lambda: explain("message", result.sent.message_id, "-t", topic), "rolled-back")


def test_delayed_messages_are_reported(explain: Explain, producer: Producer, topic: str) -> None:
    level = producer.send(Message(topic, b"x", delay_level=2))
    finding = await_verdict(lambda: explain("message", level.message_id, "-t", topic), "delayed")
    assert finding["severity"] == "note"
    due_ms = str(time.time_ns() // 1_000_000 + 3_600_000)
    timed = producer.send(Message(topic, b"x", properties={"TIMER_DELIVER_MS": due_ms}))
    finding = await_verdict(lambda: explain("message", timed.message_id, "-t", topic), "delayed")
    assert finding["evidence"]["dueMs"] == int(due_ms)


def test_unconsumed_and_unknown_messages_are_reported(
    explain: Explain, run: Run, producer: Producer, topic: str
) -> None:
    sent = producer.send(Message(topic, b"x"))
    (finding,) = explain("message", sent.message_id, "-t", topic)
    assert finding["verdict"] == "nobody-consumes"
    (finding,) = explain("message", "7F00000100002A139A55000000000009", "-t", topic)
    assert finding["verdict"] == "not-found"
    run("explain", "key", topic, "nokey", code=5)


def test_a_broker_that_does_not_answer_is_reported(
    run: Run, explain: Explain, cluster: LocalCluster
) -> None:
    """A broker that hangs stays registered as long as its connection is open."""
    network = BlockingNetwork()
    ext = {
        "brokerName": "broker-dead",
        "brokerAddr": "127.0.0.1:1",
        "clusterName": "DefaultCluster",
        "haServerAddr": "127.0.0.1:2",
        "brokerId": "0",
    }
    table = {"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": {}}
    body = dumps_lenient({"filterServerList": [], "topicConfigSerializeWrapper": table})
    code = RequestCode.REGISTER_BROKER
    answer = network.invoke(cluster.address, code, ext=ext, body=body, timeout_ms=10_000)
    assert answer.code == 0, answer.remark
    try:
        finding = await_verdict(lambda: explain("group", "TOOLS_CONSUMER"), "broker-down")
        assert finding["evidence"] == {"broker": "broker-dead", "address": "127.0.0.1:1"}
        rows = run("cluster", "status", "-o", "json").json
        assert {one["broker"]: one["answers"] for one in rows} == {
            "broker-a": True,
            "broker-dead": False,
        }
    finally:
        network.close()
    await_true("it is gone", lambda: len(run("cluster", "list", "-o", "json").json) == 1)


def test_a_message_of_a_stopped_broker_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster(brokers=2) as cluster:
        with Admin(cluster.address) as admin, Producer(cluster.address, group="p") as producer:
            admin.create_topic("T", queues=1)
            sent = producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-b", 0))
        cluster.stop_broker("broker-b")
        monkeypatch.setenv("NAMESRV_ADDR", cluster.address)
        said = run_command("explain", "message", sent.offset_id, "-o", "json")
        assert (said.code, [one["verdict"] for one in said.json]) == (3, ["broker-down"])


def test_a_unique_id_needs_a_topic(run: Run, producer: Producer, topic: str) -> None:
    sent = producer.send(Message(topic, b"x"))
    refused = run("explain", "message", sent.message_id, code=2)
    assert "is no id that a broker gives" in refused.err
    assert "--topic" in refused.err
    found = run("explain", "message", sent.offset_id, "--watch-s", "0")
    assert "nobody-consumes" in found.out
    elsewhere = "7F000001000000010000000000000000"
    unknown = run("explain", "message", elsewhere, "--watch-s", "0", code=3).out
    assert f"if a broker gave the id {elsewhere}, the message is on 127.0.0.1:1, which" in unknown


def test_a_key_is_explained_with_the_place_of_each_message(
    run: Run, admin: Admin, producer: Producer, topic: str
) -> None:
    for body in (b"one", b"two"):
        sent = producer.send(Message(topic, body, keys=["42", "extra"], tags="paid"))
    await_true("they are indexed", lambda: len(admin.messages_by_key(topic, "42")) == 2)
    words = ("explain", "key", topic, "42", "--watch-s", "0")
    said = run(*words).out
    assert said.startswith(f"2 messages of {topic} have the key 42\n")
    for offset in (0, 1):
        assert f"{topic}, broker-a, queue 0, offset {offset}: stored 20" in said
    assert f"keys 42 extra, tag paid, id {sent.message_id}\n" in said
    newest = run(*words, "--limit", "1").out
    assert newest.startswith(
        f"2 messages of {topic} have the key 42; 1 older: --limit 2 shows them"
    )
    assert "offset 0: stored" not in newest
    (row,) = run(*words, "--limit", "1", "-o", "json").json
    assert (row["verdict"], row["topic"], row["offset"]) == ("nobody-consumes", topic, 1)
    assert (row["keys"], row["broker"]) == (["42", "extra"], "broker-a")
