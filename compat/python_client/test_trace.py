"""Traces of our clients, read by Java's own tool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.java_client import Cluster
from compat.nameserver.tools import JavaTools
from compat.python_client.shared import Catcher, Listen, Way, await_true
from orbitmq.admin.admin import Admin
from orbitmq.client.producer.async_producer import AsyncProducer
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transaction import TransactionProducer, TransactionState
from orbitmq.errors import NoRoute
from orbitmq.message import Message
from orbitmq.protocol.names import TRACE_TOPIC

Tool = Callable[..., str]


@pytest.fixture(scope="session")
def tools(java_peer_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTools]:
    """One warm JVM with Java's mqadmin."""
    tools = JavaTools(tmp_path_factory.mktemp("mqadmin"))
    yield tools
    tools.close()


@pytest.fixture
def mqadmin(tools: JavaTools, cluster: Cluster) -> Tool:
    """Run a command of Java's mqadmin and return what it prints."""
    return lambda *arguments: tools.mqadmin(*arguments, "-n", cluster.address)


def traced(admin: Admin, key: str, topic: str = TRACE_TOPIC, *, wanted: int = 1) -> list[str]:
    """Return a number of records about a message: each may be in its own trace message."""
    found: list[str] = []

    def look() -> bool:
        with contextlib.suppress(NoRoute):  # The first record creates the topic.
            found[:] = [
                record
                for message in admin.messages_by_key(topic, key)
                for record in message.body.decode().split("\2")
                if key in record
            ]
        return len(found) >= wanted

    await_true(f"{key} is in the trace", look)
    return found


def test_java_reads_the_trace_of_a_producer(
    cluster: Cluster, way: Way, group: str, topic: str, admin: Admin, mqadmin: Tool
) -> None:
    make = way(Producer, AsyncProducer)
    with make(cluster.address, group=group, trace=True, timeout_ms=10_000) as producer:
        result = producer.send(Message(topic, b"12345", tags="t", keys=["k1", "k2"]))
        plain = producer.send(Message(topic, b"x"))
    [record] = traced(admin, result.message_id)
    fields = record.split("\1")
    assert fields[0] == "Pub"
    assert fields[2:8] == ["DefaultRegion", group, topic, result.message_id, "t", "k1 k2"]
    assert fields[9] == "5"
    assert fields[11:] == ["0", result.offset_id, "true"]
    # Nothing stands for nothing, and the message's own key finds its record.
    assert traced(admin, plain.message_id)[0].split("\1")[6:8] == ["null", "null"]
    await_true("k2 is indexed", lambda: admin.messages_by_key(TRACE_TOPIC, "k2"))

    printed = mqadmin("queryMsgTraceById", "-i", result.message_id)
    lines = [line for line in printed.splitlines() if line.startswith("Pub")]
    assert lines, printed
    assert group in lines[0]
    assert "success" in lines[0]


def test_java_reads_the_trace_of_a_consumer(
    topic: str, group: str, producer: Producer, listen: Listen, admin: Admin, mqadmin: Tool
) -> None:
    catcher = Catcher()
    sent = producer.send(Message(topic, b"x", keys=["k"]))
    consumer = listen(topic, catcher.add, trace=True)
    catcher.wait(1)
    consumer.stop()  # This sends its records.
    records = [record.split("\1") for record in traced(admin, sent.message_id, wanted=2)]
    by_kind = {record[0]: record for record in records}
    assert by_kind["SubBefore"][3] == group
    assert by_kind["SubAfter"][4] == "true"
    assert by_kind["SubBefore"][4] == by_kind["SubAfter"][1], "one request id for both"
    lines = mqadmin("queryMsgTraceById", "-i", sent.message_id).splitlines()
    [line] = [line for line in lines if line.startswith("Sub")]
    assert group in line
    assert "success" in line


def test_a_trace_goes_to_its_own_topic_and_is_not_traced_itself(
    cluster: Cluster, way: Way, group: str, topic: str, mark: str, admin: Admin
) -> None:
    own = f"trace-{mark}"
    admin.create_topic(own, queues=1)
    make = way(Producer, AsyncProducer)
    with make(cluster.address, group=group, trace=own, timeout_ms=10_000) as producer:
        unseen = producer.send(Message(own, b"a trace is not traced"))
        batch = producer.send_many([Message(topic, b"1"), Message(topic, b"2")])
    first = batch.message_id.split(",")[0]
    assert traced(admin, first, own)
    # Closing has flushed; had the other been traced it would be there, too.
    assert not [
        message
        for message in admin.messages_by_key(own, unseen.message_id)
        if message.properties["UNIQ_KEY"] != unseen.message_id
    ]


def test_the_end_of_a_transaction_is_traced(
    cluster: Cluster, group: str, topic: str, admin: Admin
) -> None:
    with TransactionProducer(
        cluster.address, group=group, check=lambda _message: None, trace=True, timeout_ms=10_000
    ) as producer:
        result = producer.send_in_transaction(
            Message(topic, b"x", keys=["k"]), lambda _message, _sent: TransactionState.COMMIT
        )
    message_id = result.sent.message_id
    records = [record.split("\1") for record in traced(admin, message_id, wanted=2)]
    by_kind = {record[0]: record for record in records}
    assert by_kind["Pub"][11] == "1"
    ended = by_kind["EndTransaction"]
    assert ended[3:8] == [group, topic, message_id, "null", "k"]
    assert ended[9:] == ["2", message_id, "COMMIT_MESSAGE", "false"]
