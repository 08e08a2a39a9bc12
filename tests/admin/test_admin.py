"""Every verb against a cluster of two brokers, with `Admin` and with `AsyncAdmin`."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from orbitmq import Consumer, Message, Producer, ReceivedMessage
from orbitmq._native import Command
from orbitmq.admin.admin import Admin
from orbitmq.admin.async_admin import AsyncAdmin
from orbitmq.errors import BrokerRefused, ConfigError, NoRoute
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.testing import LocalCluster
from tests.both_ways import LoopThread, way_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, nameservers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Admin]]:
    thread = LoopThread()
    yield way_of(request.param, thread)(Admin, AsyncAdmin)
    thread.close()


@pytest.fixture
def admin(cluster: LocalCluster, make: Callable[..., Admin]) -> Iterator[Admin]:
    with make(cluster.address) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W+", "-", request.node.name)
    admin.create_topic(name, queues=2)
    yield name
    admin.delete_topic(name)


@pytest.fixture
def network() -> Iterator[BlockingNetwork]:
    network = BlockingNetwork()
    yield network
    network.close()


Send = Callable[..., Command]


@pytest.fixture
def send(admin: Admin, network: BlockingNetwork) -> Send:
    def send(topic: str, body: bytes, *, queue: int = 0, properties: str = "") -> Command:
        address = admin.cluster_info().brokers["broker-a"].master
        assert address is not None
        ext = {
            "producerGroup": "p",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": str(queue),
            "sysFlag": "0",
            "bornTimestamp": str(time.time_ns() // 1_000_000),
            "flag": "0",
            "properties": properties,
        }
        response = network.invoke(address, RequestCode.SEND_MESSAGE, ext=ext, body=body)
        assert response.code == 0, response.remark
        return response

    return send


def first(topic: str, queue_id: int = 0) -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


# ---- the cluster


def test_cluster_info(admin: Admin) -> None:
    info = admin.cluster_info()
    assert sorted(info.brokers) == ["broker-a", "broker-b"]
    assert list(info.clusters.values()) == [("broker-a", "broker-b")]
    assert all(places.master == places.any_address for places in info.brokers.values())


def test_a_broker_tells_of_itself(admin: Admin) -> None:
    address = admin.cluster_info().brokers["broker-b"].master
    assert address is not None
    assert admin.broker_runtime_info(address)["brokerVersionDesc"] == "V4_9_7"
    assert admin.broker_config(address)["brokerName"] == "broker-b"
    admin.update_broker_config(address, {"fileReservedTime": "36"})
    assert admin.broker_config(address)["fileReservedTime"] == "36"


def test_a_nameserver_that_is_not_there(make: Callable[..., Admin]) -> None:
    with make("127.0.0.1:1") as admin, pytest.raises(NoRoute) as caught:
        admin.cluster_info()
    assert caught.value.cause == "no_nameserver"
    assert "127.0.0.1:1" in str(caught.value)


def test_the_next_nameserver_is_asked(make: Callable[..., Admin], cluster: LocalCluster) -> None:
    with make(["127.0.0.1:1", cluster.address.split(";")[0]]) as admin:
        assert len(admin.cluster_info().brokers) == 2


def test_no_nameserver_at_all(make: Callable[..., Admin], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        make()


# ---- topics


def test_create_change_and_delete_a_topic(admin: Admin) -> None:
    admin.create_topic("Coming", queues=3)
    assert len(admin.topic_route("Coming").subscribe_queues) == 6
    assert "Coming" in admin.topic_names()
    (cluster,) = admin.cluster_info().clusters
    assert "Coming" in admin.topic_names(cluster)
    assert admin.topic_names("nowhere") == []

    admin.update_topic("Coming", queues=5, brokers=["broker-b"])
    configs = admin.topic_configs("Coming")
    assert {name: one.write_queue_nums for name, one in configs.items()} == {
        "broker-a": 3,
        "broker-b": 5,
    }
    admin.delete_topic("Coming")
    assert "Coming" not in admin.topic_names()
    with pytest.raises(NoRoute, match="Coming") as caught:
        admin.topic_route("Coming")
    assert caught.value.cause == "no_topic"


def test_a_topic_brokers_refuse(admin: Admin) -> None:
    with pytest.raises(BrokerRefused, match="illegal characters"):
        admin.create_topic("no spaces please")


def test_brokers_and_clusters_that_are_not_there(admin: Admin) -> None:
    with pytest.raises(NoRoute, match="broker-z") as caught:
        admin.create_topic("T", brokers=["broker-a", "broker-z"])
    assert caught.value.cause == "no_broker"
    with pytest.raises(NoRoute, match="elsewhere"):
        admin.create_topic("T", cluster="elsewhere")
    assert "T" not in admin.topic_names()


def test_ends_of_queues(admin: Admin, topic: str, send: Send) -> None:
    for _ in range(3):
        send(topic, b"x", queue=1)
    ends = admin.topic_ends(topic)
    assert len(ends) == 4
    assert ends[first(topic, 1)].count == 3
    assert ends[first(topic, 1)].last_update_ms > 0
    assert sum(one.count for one in ends.values()) == 3


def test_names_in_a_namespace(make: Callable[..., Admin], cluster: LocalCluster) -> None:
    with make(cluster.address, namespace="tenant") as admin, make(cluster.address) as outside:
        admin.create_topic("Own", queues=1)
        outside.create_topic("Other", queues=1)
        admin.create_group("readers")
        outside.create_group("others")
        assert "tenant%Own" in outside.topic_names()
        assert "Own" in admin.topic_names()
        assert "Other" not in admin.topic_names()
        assert "tenant%readers" in outside.group_configs()
        assert set(admin.group_configs()) == {"readers"}
        assert admin.group_configs()["readers"]["broker-a"].group_name == "readers"
        assert admin.topic_configs("Own")["broker-a"].topic_name == "Own"
        queues = [MessageQueue("Own", "broker-a", 0), MessageQueue("Own", "broker-b", 0)]
        route = admin.topic_route("Own")
        assert (route.topic, list(route.subscribe_queues)) == ("Own", queues)
        assert list(admin.topic_ends("Own")) == list(admin.offsets_at("Own", "latest")) == queues
        assert admin.groups_of_topic("Own") == []

        with Producer(cluster.address, group="senders", namespace="tenant") as producer:
            sent = producer.send(Message("Own", b"x", keys=["k"], tags="t"), queue=queues[0])
        admin.set_offsets("readers", dict.fromkeys(queues, 0))
        assert outside.committed_offsets("tenant%readers", "tenant%Own") == {
            MessageQueue("tenant%Own", queue.broker_name, 0): 0 for queue in queues
        }
        assert admin.committed_offsets("readers", "Own") == dict.fromkeys(queues, 0)
        assert admin.groups_of_topic("Own") == ["readers"]
        lag = admin.group_lag("readers", "Own")
        assert (lag.group, lag.of_topic("Own"), sorted(lag.queues)) == ("readers", 1, queues)
        assert admin.reset_offsets("readers", "Own", "latest") == {queues[0]: 1, queues[1]: 0}
        for found in (
            admin.message_by_id("Own", sent.message_id),
            *admin.messages_by_key("Own", "k"),
        ):
            assert found is not None
            assert (found.topic, found.queue, found.tags) == ("Own", queues[0], "t")

        admin.delete_topic("Own")
        admin.delete_group("readers")
        assert "Own" not in admin.topic_names()
        outside.delete_topic("Other")
        outside.delete_group("others")


def test_members_in_a_namespace(make: Callable[..., Admin], cluster: LocalCluster) -> None:
    with make(cluster.address, namespace="tenant") as admin:
        admin.create_topic("Read", queues=1)
        with Consumer(cluster.address, "Read", group="readers", namespace="tenant"):
            members = admin.group_members("readers")
        assert members is not None
        assert {topic: one.topic for topic, one in members.subscriptions.items()} == {
            "Read": "Read"
        }
        admin.delete_topic("Read")


# ---- groups


def test_create_change_and_delete_a_group(admin: Admin) -> None:
    admin.create_group("billing", retry_max_times=3)
    admin.update_group("billing", retry_max_times=5, brokers=["broker-b"])
    configs = admin.group_configs()["billing"]
    assert {name: one.retry_max_times for name, one in configs.items()} == {
        "broker-a": 3,
        "broker-b": 5,
    }
    admin.delete_group("billing")
    assert "billing" not in admin.group_configs()
    assert admin.group_members("billing") is None


def test_retries_and_dead_letters_go_with_their_group(admin: Admin) -> None:
    for name in ("%RETRY%leaving", "%DLQ%leaving", "%DLQ%staying"):
        admin.create_topic(name, queues=1)
    admin.create_group("leaving")
    admin.create_group("staying")
    admin.delete_group("leaving")
    admin.delete_group("staying", keep_topics=True)
    names = admin.topic_names()
    assert "%DLQ%staying" in names
    assert "%RETRY%leaving" not in names
    assert "%DLQ%leaving" not in names
    admin.delete_topic("%DLQ%staying")


# ---- offsets


def test_lag_and_committed_offsets(admin: Admin, topic: str, send: Send) -> None:
    for _ in range(10):
        send(topic, b"x")
    admin.set_offsets("slow", {first(topic): 4})
    assert admin.committed_offsets("slow", topic)[first(topic)] == 4
    lag = admin.group_lag("slow", topic)
    assert lag.queues[first(topic)].consumer_offset == 4
    assert lag.queues[first(topic)].lag == 6
    assert lag.total == lag.of_topic(topic) == 6
    assert admin.group_lag("slow").total == 6
    assert admin.groups_of_topic(topic) == ["slow"]
    admin.delete_group("slow")


def test_reset_to_ends_and_to_a_time(admin: Admin, topic: str, send: Send) -> None:
    sent_at = []
    for _ in range(3):
        send(topic, b"x")
        sent_at.append(admin.topic_ends(topic)[first(topic)].last_update_ms)
        while time.time_ns() // 1_000_000 <= sent_at[-1]:
            pass  # the next message is to be stored in another millisecond
    assert admin.reset_offsets("mover", topic, "latest")[first(topic)] == 3
    assert admin.committed_offsets("mover", topic)[first(topic)] == 3
    assert admin.reset_offsets("mover", topic, "earliest")[first(topic)] == 0
    assert admin.reset_offsets("mover", topic, sent_at[1])[first(topic)] == 1
    assert admin.committed_offsets("mover", topic)[first(topic)] == 1
    last = datetime.fromtimestamp(sent_at[2] / 1000, UTC)
    assert admin.offsets_at(topic, last)[first(topic)] == 2
    admin.delete_group("mover")


# ---- messages


def test_messages_by_id_and_by_key(admin: Admin, topic: str, send: Send) -> None:
    key = "KEYS\x01order-7 customer-3\x02UNIQ_KEY\x017F00000100002A139A5500000000{:04X}\x02"
    sent = [send(topic, b"%d" % number, properties=key.format(number)) for number in range(3)]
    by_key = admin.messages_by_key(topic, "customer-3")
    assert sorted(one.body for one in by_key) == [b"0", b"1", b"2"]
    assert admin.messages_by_key(topic, "customer") == []
    assert len(admin.messages_by_key(topic, "order-7", max_messages=2)) == 2

    by_place = admin.message_by_id(topic, sent[1].get_ext("msgId") or "")
    assert by_place is not None
    # As a consumer would have got it.
    assert isinstance(by_place, ReceivedMessage)
    assert (by_place.body, by_place.keys) == (b"1", ("order-7", "customer-3"))
    assert by_place.message_id == "7F00000100002A139A55000000000001"
    assert by_place.queue == first(topic)
    assert by_place.topic == topic
    by_name = admin.message_by_id(topic, "7F00000100002A139A55000000000002")
    assert by_name is not None
    assert by_name.body == b"2"
    assert admin.message_by_id(topic, "7F00000100002A139A55000000000009") is None
    assert admin.message_by_id(topic, "no id at all") is None


# ---- the twins


def test_the_twins_have_the_same_verbs() -> None:
    def verbs(kind: type) -> dict[str, object]:
        return {
            name: (inspect.signature(member), inspect.getdoc(member))
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") and name != "close"
        }

    assert verbs(Admin) == verbs(AsyncAdmin)
    assert inspect.signature(Admin.__init__) == inspect.signature(AsyncAdmin.__init__)
    for name in verbs(Admin):
        assert inspect.iscoroutinefunction(getattr(AsyncAdmin, name)), name
