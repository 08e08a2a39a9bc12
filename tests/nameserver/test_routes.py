"""The rules of the route tables, without sockets and with a test clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orbitmq.nameserver.routes import EXPIRY_MS, Registration, Routes
from orbitmq.protocol.bodies import DataVersion, TopicConfig

V1, V2 = DataVersion(1000, 1), DataVersion(2000, 2)
A = Registration(
    cluster="C1",
    broker_name="broker-a",
    broker_id=0,
    address="10.0.0.1:10911",
    ha_address="10.0.0.1:10912",
    version=V1,
    topics=[TopicConfig("T1", 4, 4), TopicConfig("T2", 8, 8, 7, topic_sys_flag=2)],
    filter_servers=[],
)
SLAVE = replace(A, broker_id=1, address="10.0.0.2:10911", ha_address="10.0.0.2:10912", topics=[])
B = replace(A, broker_name="broker-b", address="10.0.0.3:10911", topics=[TopicConfig("T1", 2, 2)])


class Conn:
    """Stands for a connection; only its identity matters."""


@pytest.fixture
def routes() -> Routes:
    routes = Routes()
    routes.register(A, Conn(), 0)
    return routes


def addresses(routes: Routes, topic: str) -> dict[str, dict[int, str]] | None:
    route = routes.route(topic)
    return None if route is None else {b.broker_name: b.addresses for b in route.brokers}


def perms(routes: Routes, topic: str) -> list[int]:
    route = routes.route(topic)
    assert route is not None
    return [queues.perm for queues in route.queues]


def test_a_registration_becomes_a_route(routes: Routes) -> None:
    route = routes.route("T2")
    assert route is not None
    (queues,) = route.queues
    assert (queues.read_queue_nums, queues.perm, queues.topic_sys_flag) == (8, 7, 2)
    assert addresses(routes, "T1") == {"broker-a": {0: "10.0.0.1:10911"}}
    assert routes.route("T3") is None
    assert routes.clusters() == {"C1": ["broker-a"]}


def test_topics_of_an_unchanged_version_are_ignored(routes: Routes) -> None:
    more = replace(A, topics=[TopicConfig("T3")])
    routes.register(more, Conn(), 1)
    assert routes.topics() == ["T1", "T2"]
    routes.register(replace(more, version=V2), Conn(), 2)
    assert routes.topics() == ["T1", "T2", "T3"], "topics that are no longer named stay"


def test_topics_of_a_new_broker_id_are_taken_at_any_version(routes: Routes) -> None:
    routes.register(SLAVE, Conn(), 0)
    routes.unregister("C1", "broker-a", 0, "somebody:else")
    assert addresses(routes, "T1") == {"broker-a": {1: SLAVE.address}}
    routes.register(replace(A, topics=[TopicConfig("T3")]), Conn(), 1)
    assert "T3" in routes.topics()


def test_slaves_register_no_queues(routes: Routes) -> None:
    routes.register(replace(SLAVE, topics=[TopicConfig("T9")]), Conn(), 0)
    assert "T9" not in routes.topics()


def test_a_slave_gets_the_address_of_its_master(routes: Routes) -> None:
    assert routes.register(SLAVE, Conn(), 0) == (A.address, A.ha_address)
    assert routes.register(A, Conn(), 0) is None
    assert Routes().register(SLAVE, Conn(), 0) is None


def test_one_address_has_one_id(routes: Routes) -> None:
    routes.register(replace(A, broker_id=1), Conn(), 0)
    assert addresses(routes, "T1") == {"broker-a": {1: A.address}}
    routes.register(A, Conn(), 0)
    assert addresses(routes, "T1") == {"broker-a": {0: A.address}}


def test_the_end_of_a_replaced_address_has_no_effect() -> None:
    routes, old, new = Routes(), Conn(), Conn()
    routes.register(A, old, 0)
    routes.register(replace(A, address="10.0.0.9:10911"), new, 0)
    assert addresses(routes, "T1") == {"broker-a": {0: "10.0.0.9:10911"}}
    assert routes.connection_closed(old) == [A.address]
    assert addresses(routes, "T1") == {"broker-a": {0: "10.0.0.9:10911"}}


def test_a_broker_registered_in_a_second_cluster_is_listed_in_both() -> None:
    routes = Routes()
    routes.register(A, Conn(), 0)
    routes.register(replace(A, cluster="C2"), Conn(), 0)
    assert routes.clusters() == {"C1": ["broker-a"], "C2": ["broker-a"]}
    assert [broker.cluster for broker in routes.brokers()] == ["C1"]


def test_queues_are_removed_with_the_last_broker_id(routes: Routes) -> None:
    routes.register(SLAVE, Conn(), 0)
    routes.register(B, Conn(), 0)
    routes.unregister("C1", "broker-a", 0, A.address)
    assert addresses(routes, "T2") == {"broker-a": {1: SLAVE.address}}
    routes.unregister("C1", "broker-a", 1, SLAVE.address)
    assert routes.route("T2") is None
    assert addresses(routes, "T1") == {"broker-b": {0: B.address}}
    assert routes.clusters() == {"C1": ["broker-b"]}
    routes.unregister("C1", "broker-b", 0, B.address)
    assert (routes.topics(), routes.clusters(), routes.brokers()) == ([], {}, [])
    routes.unregister("C1", "broker-b", 0, B.address)


def test_unregistering_under_another_cluster_leaves_the_first_one_listed(routes: Routes) -> None:
    routes.unregister("C2", "broker-a", 0, A.address)
    assert routes.brokers() == []
    assert routes.clusters() == {"C1": ["broker-a"]}


def test_a_slave_stays_when_the_connection_of_its_master_closes() -> None:
    routes, of_master, of_slave = Routes(), Conn(), Conn()
    routes.register(A, of_master, 0)
    routes.register(SLAVE, of_slave, 0)
    routes.connection_closed(of_master)
    assert addresses(routes, "T1") == {"broker-a": {1: SLAVE.address}}
    routes.connection_closed(of_slave)
    assert routes.route("T1") is None
    assert routes.clusters() == {}


def test_only_the_last_connection_of_a_broker_counts() -> None:
    routes, old, new = Routes(), Conn(), Conn()
    routes.register(A, old, 0)
    routes.register(A, new, 1)
    assert routes.connection_closed(old) == []
    assert addresses(routes, "T1") is not None
    assert routes.connection_closed(Conn()) == []


def test_a_silent_broker_expires() -> None:
    routes, connection = Routes(), Conn()
    routes.register(A, connection, 1000)
    routes.register(B, Conn(), 5000)
    assert routes.expire(1000 + EXPIRY_MS) == []
    (expired,) = routes.expire(1001 + EXPIRY_MS)
    assert expired.connection is connection
    assert addresses(routes, "T1") == {"broker-b": {0: B.address}}


def test_a_touched_broker_does_not_expire(routes: Routes) -> None:
    routes.touch(A.address, 50_000)
    routes.touch("unknown:1", 50_000)
    assert routes.expire(1 + EXPIRY_MS) == []
    assert len(routes.expire(50_001 + EXPIRY_MS)) == 1


def test_versions_are_remembered_by_address(routes: Routes) -> None:
    assert routes.version_of(A.address) == V1
    assert routes.version_of("unknown:1") is None


def test_wiped_write_permission_lasts_until_the_broker_changes(routes: Routes) -> None:
    assert routes.wipe_write_permission("broker-a") == 2
    assert perms(routes, "T1") == [4]
    assert perms(routes, "T2") == [5], "only the write bit goes"
    routes.register(A, Conn(), 1)
    assert perms(routes, "T1") == [4]
    assert routes.add_write_permission("broker-a") == 2
    assert perms(routes, "T2") == [6], "what it was before is not remembered"
    routes.wipe_write_permission("broker-a")
    routes.register(replace(A, version=V2), Conn(), 2)
    assert perms(routes, "T1") == [6]
    assert routes.wipe_write_permission("nobody") == 0


def test_wiping_one_broker_keeps_the_permission_of_others(routes: Routes) -> None:
    routes.register(B, Conn(), 0)
    assert routes.wipe_write_permission("broker-b") == 1
    assert perms(routes, "T1") == [6, 4]


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(routes: Routes) -> None:
    routes.register(replace(B, cluster="C2"), Conn(), 0)
    routes.delete_topic("T1", "C1")
    assert addresses(routes, "T1") == {"broker-b": {0: B.address}}
    routes.delete_topic("T1", "C2")
    assert routes.route("T1") is None
    routes.delete_topic("T2")
    routes.delete_topic("T2")
    routes.delete_topic("T2", "C9")
    assert routes.topics() == []


def test_topics_are_listed_by_cluster_and_by_flag(routes: Routes) -> None:
    routes.register(replace(B, cluster="C2"), Conn(), 0)
    assert routes.topics_of_cluster("C1") == ["T1", "T2"]
    assert routes.topics_of_cluster("C2") == ["T1"]
    assert routes.topics_of_cluster("C3") == []
    assert routes.topics_with_flag(lambda flag: bool(flag & 2)) == ["T2"]


@pytest.mark.parametrize(
    ("second", "kept"),
    [(["f:3"], ["f:3"]), ([], None), (None, ["f:1", "f:2"])],
)
def test_filter_servers_follow_the_last_registration(
    second: list[str] | None, kept: list[str] | None
) -> None:
    routes = Routes()
    routes.register(replace(A, filter_servers=["f:1", "f:2"]), Conn(), 0)
    routes.register(replace(A, filter_servers=second), Conn(), 0)
    expected: dict[str, Any] = {} if kept is None else {A.address: kept}
    route = routes.route("T1")
    assert route is not None
    assert route.filter_servers == expected


def test_a_broker_on_any_host_is_marked(routes: Routes) -> None:
    assert not routes.is_any_host(A.address)
    routes.register(replace(A, any_host=True), Conn(), 0)
    assert routes.is_any_host(A.address)
    assert not routes.is_any_host("unknown:1")
