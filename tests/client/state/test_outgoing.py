"""Encoding of outgoing messages, and messages that are refused."""

from __future__ import annotations

import time

import pytest

from orbitmq._native import decode_batch, decode_properties, decode_unique_id, decompress
from orbitmq.client.producer import message as unique_ids
from orbitmq.client.producer.batch import (
    LingeringBatches,
    can_linger,
    make_batch,
    make_part,
    results_of_each,
)
from orbitmq.client.producer.message import (
    OutgoingMessage,
    SendPolicy,
    make_outgoing,
    make_unique_id,
)
from orbitmq.errors import BadMessage
from orbitmq.message import Message, MessageQueue, SendResult, SendStatus

POLICY = SendPolicy()


def outgoing(message: Message, namespace: str | None = None) -> OutgoingMessage:
    return make_outgoing(message, "g", POLICY, namespace)


def properties(made: OutgoingMessage) -> dict[str, str]:
    return decode_properties(made.ext["i"])


def test_an_outgoing_message_has_javas_fields_and_properties() -> None:
    message = Message(
        "T", b"x", tags="a", keys=["k1", "k2"], properties={"shop": "7"}, flag=3, delay_level=2
    )
    made = outgoing(message)
    assert made.code == 310
    assert made.ext["b"] == "T"
    assert made.ext["c"] == "TBW102"
    assert made.ext["d"] == "4"
    assert made.ext["f"] == "0"
    assert made.ext["h"] == "3"
    assert made.ext["m"] == "false"
    assert properties(made) == {
        "UNIQ_KEY": made.message_id,
        "WAIT": "true",
        "TAGS": "a",
        "KEYS": "k1 k2",
        "DELAY": "2",
        "shop": "7",
    }
    queue = MessageQueue("T", "broker-a", 5)
    assert made.ext_for(queue)["e"] == "5"
    assert made.ext_for(queue)["n"] == "broker-a"
    # The message is unchanged and can be sent again under another id.
    assert message.properties == {"shop": "7"}
    assert outgoing(message).message_id != made.message_id


def test_long_bodies_are_compressed() -> None:
    body = b"abc" * 2000
    made = outgoing(Message("T", body))
    assert made.ext["f"] == str(0x301)
    assert decompress(made.body, "zlib") == body
    for codec, flag in (("lz4", 0x101), ("zstd", 0x201)):
        policy = SendPolicy(codec=codec)  # type: ignore[arg-type]
        made = make_outgoing(Message("T", body), "g", policy)
        assert made.ext["f"] == str(flag)
        assert decompress(made.body, codec) == body  # type: ignore[arg-type]
    assert outgoing(Message("T", b"x" * 4095)).ext["f"] == "0"


def test_a_namespace_is_put_before_the_topic() -> None:
    made = outgoing(Message("T", b"x"), "ns")
    assert made.topic == made.ext["b"] == "ns%T"
    assert properties(made)["INSTANCE_ID"] == "ns"


def test_half_messages_and_replies_have_their_flags_and_codes() -> None:
    half = Message("T", b"x")
    half.system = {"TRAN_MSG": "true", "PGROUP": "g"}
    assert outgoing(half).ext["f"] == "4"
    reply = Message("C_REPLY_TOPIC", b"x")
    reply.system = {"MSG_TYPE": "reply"}
    assert outgoing(reply).code == 325


def test_reconsume_times_of_a_retry_are_fields() -> None:
    retry = Message("%RETRY%g", b"x")
    retry.system = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "RETRY_TOPIC": "T"}
    made = outgoing(retry)
    assert (made.ext["j"], made.ext["l"]) == ("3", "16")
    assert "RECONSUME_TIME" not in properties(made)
    assert properties(made)["RETRY_TOPIC"] == "T"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Message("", b"x"), "blank"),
        (Message("a b", b"x"), "illegal characters"),
        (Message("t" * 128, b"x"), "longer than"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "the broker's own"),
        (Message("T", b""), "body is empty"),
        (Message("T", bytes((4 << 20) + 1)), "max_message_bytes=4194304"),
        (Message("T", b"x", properties={"a": ""}), "may be empty"),
        (Message("T", b"x", properties={"": "a"}), "may be empty"),
        (Message("T", b"x", properties={"a\1": "b"}), "names the character 1"),
        (Message("T", b"x", properties={"a": "b\2c"}), "the character 2"),
        (Message("T", b"x", properties={"a\2": "b"}), "the character 2"),
        (Message("T", b"x", tags="a\2b"), "the character 2"),
        (Message("T", b"x", properties={"a": "ö" * 17000}), "more than 32767 bytes"),
    ],
)
def test_messages_no_broker_accepts_are_refused(message: Message, words: str) -> None:
    with pytest.raises(BadMessage, match=words):
        outgoing(message)


def test_a_value_may_contain_the_character_1_as_with_java() -> None:
    text = outgoing(Message("T", b"x", tags="a\1b", properties={"k": "v\1w"})).ext["i"]
    properties = decode_properties(text)
    assert (properties["TAGS"], properties["k"]) == ("a\1b", "v\1w")


def test_an_invalid_message_is_refused_when_it_is_created() -> None:
    with pytest.raises(BadMessage, match="KEYS, TAGS is RocketMQ's own"):
        Message("T", b"x", properties={"TAGS": "a", "KEYS": "b"})
    with pytest.raises(BadMessage, match="encode it"):
        Message("T", "text")  # type: ignore[arg-type]
    assert Message("T", bytearray(b"x")).body == b"x"
    assert Message("T", b"x", keys="one").keys == ("one",)


def test_a_batch_carries_each_message_with_its_own_id() -> None:
    batch = make_batch([Message("T", b"1", tags="a"), Message("T", b"2")], "g", POLICY, "ns")
    assert batch.code == 320
    assert batch.ext["m"] == "true"
    assert batch.topic == "ns%T"
    assert decode_properties(batch.ext["i"]) == {"WAIT": "true", "INSTANCE_ID": "ns"}
    inner = decode_batch(batch.body)
    assert [body for _, body, _ in inner] == [b"1", b"2"]
    ids = [decode_properties(text)["UNIQ_KEY"] for _, _, text in inner]
    assert batch.message_id == ",".join(ids)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one"),
        ([Message("T", b"1"), Message("U", b"2")], "one topic"),
        ([Message("T", b"1"), Message("T", b"2", wait_store_ok=False)], "wait_store_ok"),
        ([Message("T", b"1", delay_level=1)], "delayed"),
        ([Message("%RETRY%g", b"1")], "retry topic"),
        ([Message("T", bytes(3 << 20)), Message("T", bytes(3 << 20))], "send fewer"),
        ([Message("T", b"1"), Message("T", b"")], "empty"),
    ],
)
def test_messages_that_cannot_share_a_batch_are_refused(
    messages: list[Message], words: str
) -> None:
    with pytest.raises(BadMessage, match=words):
        make_batch(messages, "g", POLICY)


def test_each_message_of_a_batch_has_its_result() -> None:
    queue = MessageQueue("T", "a", 1)
    one, two = results_of_each(SendResult(SendStatus.SEND_OK, "A,B", "C,D", queue, 7), 2)
    assert (one.message_id, one.offset_id, one.queue_offset) == ("A", "C", 7)
    assert (two.message_id, two.offset_id, two.queue_offset) == ("B", "D", 8)


def test_messages_linger_per_topic_until_a_batch_is_full() -> None:
    lingering: LingeringBatches[int] = LingeringBatches(max_bytes=10_000, max_messages=3)

    def add(topic: str, waiter: int, size: int = 1) -> tuple[bool, list[int] | None]:
        message = Message(topic, bytes(size))
        first, full = lingering.add(message, make_part(message, POLICY), waiter)
        return first, None if full is None else full.waiters

    assert add("T", 1) == (True, None)
    assert add("U", 2) == (True, None)
    assert add("T", 3) == (False, None)
    assert add("T", 4) == (False, [1, 3, 4])
    assert len(lingering) == 1
    # A message that does not fit pushes the others out and waits itself.
    assert add("U", 5, 9_900) == (True, [2])
    assert [gathered.waiters for gathered in lingering.take_all()] == [[5]]
    assert not lingering.take_all()


def test_messages_that_cannot_be_batched_do_not_linger() -> None:
    assert can_linger(Message("T", b"x"), POLICY)
    assert not can_linger(Message("T", b"x", delay_level=1), POLICY)
    assert not can_linger(Message("T", bytes(4096)), POLICY)
    half = Message("T", b"x")
    half.system = {"TRAN_MSG": "true"}
    assert not can_linger(half, POLICY)


def test_unique_ids_have_javas_form_and_stay_unique_over_a_month_change() -> None:
    december = 1_767_139_200_000  # 2025-12-31
    ids = {make_unique_id(december + step) for step in range(0, 5 * 86_400_000, 43_200_000)}
    ids |= {make_unique_id() for _ in range(1000)}
    assert len(ids) == 1010
    ip, pid, _, month_ms, counter = decode_unique_id(make_unique_id())
    assert ip.count(".") == 3
    assert pid >= 0
    assert 0 <= month_ms < 31 * 86_400_000
    assert counter > 0
    _, begins_ms, ends_ms = unique_ids._month
    assert begins_ms <= time.time_ns() // 1_000_000 < ends_ms
