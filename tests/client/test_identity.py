"""Several members of one group in one process, each with its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orbitmq import AsyncConsumer, AsyncProducer, Consumer, Producer
from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
from orbitmq.errors import ClientError
from orbitmq.testing import LocalCluster
from tests.client.conftest import Seen, eventually

Make = Callable[..., Any]


@pytest.fixture
def make(way: Any, cluster: LocalCluster, group: str, topic: str) -> Make:
    """Create a push consumer of the group, of either kind."""

    def make(seen: Seen, **options: Any) -> Any:
        options = {"group": group, "consume_from": "first", "rebalance_s": 1} | options
        consumer = way(PushConsumer, AsyncPushConsumer)(cluster.address, **options)

        async def handle(message: Any) -> None:
            seen(message)

        consumer.on(topic)(handle if way.kind == "async" else seen)
        return consumer

    return make


def _queues(consumer: Any, topic: str) -> set[int]:
    return {queue.queue_id for queue in list(consumer._member.queues) if queue.topic == topic}


@pytest.mark.parametrize(
    ("one_name", "other_name"),
    [(None, None), ("one", "other"), ("one", None)],
    ids=["made up", "given", "one of them given"],
)
def test_two_members_split_the_queues(
    make: Make, send: Any, topic: str, one_name: str | None, other_name: str | None
) -> None:
    send("makes the topic")
    one_seen, other_seen = Seen(), Seen()
    with (
        make(one_seen, instance_name=one_name) as one,
        make(other_seen, instance_name=other_name) as other,
    ):
        assert one.client_id != other.client_id

        def is_split() -> bool:
            mine, others = _queues(one, topic), _queues(other, topic)
            return len(mine) == len(others) == 2 and not mine & others

        eventually(is_split)
        bodies = {str(number) for number in range(12)}
        send(*bodies)
        eventually(lambda: bodies <= {*one_seen.bodies, *other_seen.bodies})
        assert not bodies & {*one_seen.bodies} & {*other_seen.bodies}
        assert bodies & {*one_seen.bodies}
        assert bodies & {*other_seen.bodies}


def test_a_second_member_of_the_same_name_is_refused_with_advice(
    make: Make, send: Any, topic: str, seen: Seen
) -> None:
    send("before")
    with make(seen, instance_name="same"):
        seen.wait(1)
        second = make(Seen(), instance_name="same")
        with pytest.raises(ClientError, match="give one of them another instance_name"):
            second.start()
        assert not second.is_running
        send("after")
        assert seen.wait(2) == ["before", "after"], "the first one goes on"
    # The name is free again: the refused consumer can start now.
    with second:
        assert second.client_id.endswith("@same")


def test_broadcast_consumers_share_one_name_unless_one_is_given(
    make: Make, send: Any, tmp_path: Any, seen: Seen
) -> None:
    """Their offsets are kept in a file under that name, so it is not generated."""
    other = Seen()
    options: dict[str, Any] = {"broadcast": True, "offset_directory": tmp_path}
    send("to all")
    with make(seen, **options):
        with pytest.raises(ClientError, match="give one of them another instance_name"):
            make(other, **options).start()
        with make(other, **options, instance_name="other"):
            assert seen.wait(1) == other.wait(1) == ["to all"]


def test_readers_and_producers_of_the_same_name_are_refused(
    way: Any, cluster: LocalCluster, topic: str, group: str, send: Any
) -> None:
    send("makes the topic")
    settings: dict[str, Any] = {"group": group, "instance_name": "same"}
    with way(Consumer, AsyncConsumer)(cluster.address, topic, **settings) as reader:
        with pytest.raises(ClientError, match="another instance_name"):
            way(Consumer, AsyncConsumer)(cluster.address, topic, **settings).start()
        # A producer of that name is a different kind of member; so is one of another group.
        with way(Producer, AsyncProducer)(cluster.address, **settings):
            with pytest.raises(ClientError, match="another instance_name"):
                way(Producer, AsyncProducer)(cluster.address, **settings).start()
            settings["group"] = f"{group}-other"
            with way(Consumer, AsyncConsumer)(cluster.address, topic, **settings) as third:
                assert third.client_id == reader.client_id
