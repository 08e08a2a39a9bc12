"""Requests of operators that brokers relay to a running consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq._native import Command, loads_lenient
from orbitmq.client import background
from orbitmq.client.consumer.push import PushConsumer
from orbitmq.client.producer.producer import Producer
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, eventually

Ask = Callable[..., Command]


@pytest.fixture
def ask(producer: Producer) -> Ask:
    instance = producer._instance
    assert instance is not None

    def ask(code: int, **ext: str) -> Command:
        address = instance.routes.master("broker-a") or ""
        work = instance.network.invoke(address, code, ext=ext, timeout_ms=10_000)
        return background.run(work)

    return ask


@pytest.fixture
def consumer(
    cluster: LocalCluster, group: str, topic: str, send: Any, seen: Seen
) -> Iterator[PushConsumer]:
    consumer = PushConsumer(
        cluster.address, group=group, consume_from="first", rebalance_s=1, offset_persist_s=0.1
    )

    @consumer.on(topic)
    def handle(message: Any) -> None:
        if message.body == b"bad" and message.reconsume_times == 0 and len(seen.messages) > 1:
            raise ValueError("no good")
        seen(message)

    send("bad", "good")
    with consumer:
        seen.wait(2)
        yield consumer


def test_the_running_info_of_a_consumer_is_returned(
    consumer: PushConsumer, ask: Ask, group: str, topic: str
) -> None:
    def running_info() -> dict[str, Any]:
        response = ask(
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            consumerGroup=group,
            clientId=consumer.client_id,
            jstackEnable="true",
        )
        assert response.code == 0, response.remark
        info: dict[str, Any] = loads_lenient(response.body)
        return info

    info = running_info()
    assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info["properties"]["PROP_CONSUMEORDERLY"] == "false"
    queues = [MessageQueue.from_json(key) for key in info["mqTable"]]
    assert sum(queue.topic == topic for queue in queues) == 4
    assert {each["topic"] for each in info["subscriptionSet"]} == {topic, f"%RETRY%{group}"}
    assert "orbitmq-background" in info["jstack"]

    def has_rates() -> bool:
        status = running_info()["statusTable"][topic]
        return all(status[rate] > 0 for rate in ("pullTPS", "pullRT", "consumeOKTPS", "consumeRT"))

    eventually(has_rates)  # A handler that has just returned is counted a moment later.
    retries = running_info()["statusTable"][f"%RETRY%{group}"]
    assert (retries["consumeOKTPS"], retries["consumeFailedMsgs"]) == (0, 0)


def test_a_message_is_consumed_directly_on_request(
    consumer: PushConsumer, ask: Ask, group: str, seen: Seen
) -> None:
    good = next(message for message in seen.messages if message.body == b"good")
    bad = next(message for message in seen.messages if message.body == b"bad")

    def direct(offset_id: str) -> dict[str, Any]:
        response = ask(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            consumerGroup=group,
            clientId=consumer.client_id,
            msgId=offset_id,
            brokerName="broker-a",
        )
        assert response.code == 0, response.remark
        result: dict[str, Any] = loads_lenient(response.body)
        return result

    answer = direct(good.offset_id)
    assert (answer["consumeResult"], answer["order"]) == ("CR_SUCCESS", False)
    assert seen.bodies.count("good") == 2
    answer = direct(bad.offset_id)
    assert answer["consumeResult"] == "CR_THROW_EXCEPTION"
    assert "no good" in answer["remark"]


def test_offsets_in_memory_are_returned(
    consumer: PushConsumer, ask: Ask, group: str, topic: str
) -> None:
    def total() -> int:
        response = ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic=topic, group=group)
        assert response.code == 0, response.remark
        (table,) = loads_lenient(response.body)["consumerTable"].values()
        return sum(table.values())

    eventually(lambda: total() == 2)


def test_a_reset_makes_messages_come_again(
    consumer: PushConsumer, ask: Ask, group: str, topic: str, seen: Seen
) -> None:
    def reset() -> bool:
        response = ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            topic=topic,
            group=group,
            timestamp="0",
            isForce="true",
        )
        return response.code == 0

    eventually(reset)  # The broker does not know a group without offsets.
    seen.wait_for(lambda: seen.bodies.count("good") == 2)
    assert consumer.is_running
