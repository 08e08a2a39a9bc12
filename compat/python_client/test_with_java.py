"""Our clients and Java's together: exchanged messages, and shared groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compat.python_client.shared import Catcher, Java, Listen, await_true, pattern, sha1
from orbitmq.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.message import Message

SENT: list[dict[str, Any]] = [
    {"text": "plain"},
    {"text": "with all", "tags": "T1", "keys": "k1 k2", "properties": {"näme": "wért", "n": "1"}},
    {"body_size": 10_000, "tags": "T2"},  # Compressed.
    {"body_size": 4 << 20, "tags": "big"},
]


def body_of(message: dict[str, Any]) -> bytes:
    return message["text"].encode() if "text" in message else pattern(message["body_size"])


def test_messages_of_java_are_received(topic: str, java: Java, listen: Listen) -> None:
    ids = java("send_list", topic=topic, messages=SENT)
    catcher = Catcher()
    listen(topic, catcher.add)
    got = {message.message_id: message for message in catcher.wait(len(SENT))}
    assert set(got) == set(ids)
    for sent, message_id in zip(SENT, ids, strict=True):
        message = got[message_id]
        assert message.body == body_of(sent)
        assert message.tags == sent.get("tags")
        assert message.keys == tuple(str(sent.get("keys", "")).split())
        properties: Any = sent.get("properties", {})
        assert {name: message.get_property(name) for name in properties} == properties


def test_java_receives_our_messages(topic: str, group: str, java: Java, producer: Producer) -> None:
    results = {
        producer.send(
            Message(
                topic,
                body_of(sent),
                tags=str(sent.get("tags", "none")),
                keys=str(sent.get("keys", "key")).split(),
                properties=sent.get("properties"),
            )
        ).message_id: sent
        for sent in SENT
    }
    got = java("receive", topic=topic, group=group, tags="T1 || T2 || big || none", count=len(SENT))
    assert {message["id"] for message in got} == set(results)
    for message in got:
        sent = results[message["id"]]
        assert message["body_sha1"] == sha1(body_of(sent))
        assert message["tags"] == sent.get("tags", "none")
        assert message["keys"] == sent.get("keys", "key")
        properties: Any = sent.get("properties", {})
        assert {name: message["properties"][name] for name in properties} == properties


@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
def test_java_and_python_members_share_one_group(
    topic: str,
    mark: str,
    java: Java,
    listen: Listen,
    producer: Producer,
    admin: Admin,
    tmp_path: Path,
    kind: str,
) -> None:
    """Each has half of the queues, and no message is handled by both."""
    log = tmp_path / "java.notes"
    log.touch()
    group = f"members-{kind}_{mark}"
    java("join", topic=topic, member=f"java-{mark}", log=str(log))
    ours = Catcher()
    listen(topic, ours.add, group=group, orderly=kind == "orderly")
    await_true("both are members", lambda: len(_members(admin, group)) == 2)
    queues = producer.queues(topic)
    rounds = 0

    def by_java(number: int) -> set[str]:
        lines = (line.split() for line in log.read_text().splitlines())
        return {line[2] + line[3] for line in lines if line[1] == kind and line[5] == str(number)}

    def by_us(number: int) -> set[str]:
        text = b"%d" % number
        found = [message.queue for message in list(ours.messages) if message.body == text]
        return {queue.broker_name + str(queue.queue_id) for queue in found}

    def is_shared() -> bool:
        nonlocal rounds
        rounds += 1
        for queue in queues:
            producer.send(Message(topic, b"%d" % rounds), queue=queue)
        await_true("all came", lambda: len(by_java(rounds) | by_us(rounds)) == len(queues))
        return len(by_java(rounds)) == len(by_us(rounds)) == len(queues) // 2

    try:
        # One such round may be chance, while the queues are still being shared out.
        await_true("each has half of the queues", lambda: is_shared() and is_shared())
        settled = rounds
        share = by_us(settled)
        for _ in range(5):
            assert is_shared()
            assert by_us(rounds) == share
            assert not by_us(rounds) & by_java(rounds)
        # After the division, no message came twice.
        since = [message.body for message in ours.messages if int(message.body) > settled]
        assert len(since) == 5 * len(share)
    finally:
        java("leave", member=f"java-{mark}")
    await_true("ours takes over", lambda: not is_shared() and len(by_us(rounds)) == len(queues))


def _members(admin: Admin, group: str) -> tuple[Any, ...]:
    found = admin.group_members(group)
    return () if found is None else found.members
