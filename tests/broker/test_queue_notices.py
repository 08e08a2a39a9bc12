"""Notices to consumer groups when the queues of a topic change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from orbitmq.broker import queue_notices
from orbitmq.broker.queue_notices import QueueNotices
from orbitmq.broker.state.clients import ClientInfo, ConsumerClients
from orbitmq.protocol.bodies import Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire
from .test_admin_topics import CREATE, create, route


def _joined(wire: Wire, group: str = "g", topic: str = "t") -> Wire:
    """Add a consumer and wait until the broker has announced its join."""
    wire.heartbeat(group, topic)
    assert wire.next_push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    return wire


def _read_queues(cluster: LocalCluster, topic: str) -> int:
    known = route(cluster, topic)
    assert known is not None
    (data,) = known["queueDatas"]
    count: int = data["readQueueNums"]
    return count


@pytest.mark.parametrize("queues", ["8", "2"])
def test_a_group_is_notified_at_once_when_the_queues_of_its_topic_change(
    connect: Callable[[], Wire], cluster: LocalCluster, queues: str
) -> None:
    admin, consumer = connect(), connect()
    create(admin)
    _joined(consumer)
    opaque = admin.post(RequestCode.UPDATE_AND_CREATE_TOPIC, CREATE | {"readQueueNums": queues})
    notice = consumer.next_notice()
    assert _read_queues(cluster, "t") == int(queues), "nameservers have it before the notice"
    assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert notice.ext == {"consumerGroup": "g", "orbitTopic": "t"}
    assert notice.is_oneway
    assert admin.answer(opaque).code == ResponseCode.SUCCESS


def test_no_notice_is_sent_when_consumers_would_see_no_difference(
    connect: Callable[[], Wire],
) -> None:
    admin, consumer = connect(), connect()
    create(admin)
    create(admin, topic="other")
    _joined(consumer)
    create(admin, writeQueueNums="7")
    create(admin, topic="other", readQueueNums="9")
    create(admin, readQueueNums="5", writeQueueNums="7")
    notice = consumer.next_notice()
    assert (notice.ext or {})["orbitTopic"] == "t"
    consumer.pull("t")
    assert not consumer.notices, "one notice, for the one change of queues that are read"


def test_a_group_with_notices_disabled_gets_none(
    connect: Callable[[], Wire], cluster: LocalCluster, on_broker: Callable[..., object]
) -> None:
    admin, quiet, other = connect(), connect(), connect()
    create(admin)
    (broker,) = cluster.brokers.values()

    def silence() -> None:
        group = broker.groups.find("quiet")
        assert group is not None
        group.notify_consumer_ids_changed_enable = False

    on_broker(silence)
    quiet.heartbeat("quiet", "t")
    _joined(other, "other")
    create(admin, readQueueNums="8")
    other.next_notice()
    quiet.pull("t", consumerGroup="quiet")
    assert not quiet.notices


def test_creating_and_deleting_a_topic_sends_notices(connect: Callable[[], Wire]) -> None:
    admin, consumer = connect(), connect()
    _joined(consumer)
    create(admin)
    assert (consumer.next_notice().ext or {})["orbitTopic"] == "t"
    admin.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    assert (consumer.next_notice().ext or {})["orbitTopic"] == "t"


class Notices:
    """Notices of one group that subscribes to `t`, recorded instead of sent."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        consumers = ConsumerClients()
        consumers.register(
            "g",
            object(),  # type: ignore[arg-type]
            ClientInfo("c1", "JAVA", 407, 0),
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscriptions=[Subscription.from_json({"topic": "t", "subString": "*"})],
        )
        self.notices = QueueNotices(consumers, lambda *notice: self.sent.put_nowait(notice))


def test_notices_are_repeated_for_clients_that_fetch_routes_by_a_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert queue_notices.REPEAT_AFTER_S[-1] > 30, "the period of Java's and Go's route refresh"
    monkeypatch.setattr(queue_notices, "REPEAT_AFTER_S", (0.01, 0.02))

    async def run() -> None:
        played = Notices()
        played.notices.changed("t")
        played.notices.changed("nobody-reads-this")
        played.notices.published(played.notices.take())
        seen = [await asyncio.wait_for(played.sent.get(), 20) for _ in range(3)]
        assert seen == [("g", "t")] * 3
        assert played.sent.empty()
        played.notices.close()

    asyncio.run(run())


def test_a_notice_waits_for_a_registration_that_a_nameserver_accepts() -> None:
    async def run() -> None:
        played = Notices()
        played.notices.changed("t")
        failed = played.notices.take()
        played.notices.put_back(failed)
        assert played.sent.empty()
        played.notices.published(played.notices.take())
        assert played.sent.get_nowait() == ("g", "t")
        played.notices.close()

    asyncio.run(run())


def test_a_stopped_broker_repeats_no_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_notices, "REPEAT_AFTER_S", (0.0,))

    async def run() -> None:
        played = Notices()
        played.notices.published({"t"})
        played.sent.get_nowait()
        played.notices.close()
        await asyncio.sleep(0.02)
        assert played.sent.empty()

    asyncio.run(run())
