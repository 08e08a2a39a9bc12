"""Routes: decoding, fetching, and the diagnosis when there is none."""

from __future__ import annotations

import json

import pytest

from orbitmq.errors import ConnectionLost, NoRoute, RequestTimeout
from orbitmq.protocol.codes import RequestCode
from orbitmq.rpc.route_table import Nameservers, RouteTable, TopicRoute
from orbitmq.rpc.routes import fetch_route, publish_route, route_or_diagnose
from tests.client.playing import Play, answer

LOST = ConnectionLost("connection refused")
MISSING = answer(17, remark="No topic route info")


def route_body(
    *names: str, perm: int = 6, write: int = 2, read: int = 2, ids: tuple[int, ...] = (0,)
) -> bytes:
    return json.dumps(
        {
            "queueDatas": [
                {
                    "brokerName": name,
                    "readQueueNums": read,
                    "writeQueueNums": write,
                    "perm": perm,
                    "topicSysFlag": 0,
                }
                for name in names
            ],
            "brokerDatas": [
                {
                    "brokerName": name,
                    "cluster": "C",
                    "brokerAddrs": {str(i): f"{name}{i}:10911" for i in ids},
                }
                for name in names
            ],
        }
    ).encode()


def clusters(*names: str) -> bytes:
    return json.dumps({"brokerAddrTable": {name: {} for name in names}}).encode()


def table(*addresses: str) -> RouteTable:
    return RouteTable(Nameservers(addresses or ("ns1:9876", "ns2:9876"), first=0))


def test_a_route_lists_queues_by_permission_and_master() -> None:
    route = TopicRoute.decode("T", route_body("b", "a"))
    assert [(q.broker_name, q.queue_id) for q in route.publish_queues] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    assert not TopicRoute.decode("T", route_body("a", perm=4)).publish_queues
    assert TopicRoute.decode("T", route_body("a", perm=4)).subscribe_queues
    assert not TopicRoute.decode("T", route_body("a", perm=2)).subscribe_queues
    slaves = TopicRoute.decode("T", route_body("a", ids=(1, 2)))
    assert not slaves.publish_queues
    assert len(slaves.subscribe_queues) == 2


def test_unquoted_keys_and_the_queues_of_an_ordered_topic_are_decoded() -> None:
    body = (
        b'{"orderTopicConf":"b:1;a:2","queueDatas":[],'
        b'"brokerDatas":[{"brokerName":"a","brokerAddrs":{0:"h:1"},"cluster":"C"}]}'
    )
    route = TopicRoute.decode("T", body)
    assert route.is_ordered
    assert [(q.broker_name, q.queue_id) for q in route.publish_queues] == [
        ("b", 0),
        ("a", 0),
        ("a", 1),
    ]
    assert route.brokers["a"][0] == "h:1"


def test_the_table_reports_changes_and_new_brokers() -> None:
    routes, told = table(), []
    routes.on_new_brokers = lambda: told.append(1)
    assert routes.apply("T", route_body("a"))
    assert not routes.apply("T", route_body("a"))
    assert routes.apply("T", route_body("a", write=4))
    assert told == [1]
    assert routes.apply("T", route_body("a", "b"))
    assert told == [1, 1]
    assert routes.master("b") == "b0:10911"
    routes.apply("T", route_body("a"))
    routes.drop_unrouted_brokers()
    assert routes.master("b") is None


def test_addresses_for_reading_fall_back_to_another_replica() -> None:
    routes = table()
    routes.apply("T", route_body("a", ids=(0, 2)))
    assert routes.address("a", 0) == "a0:10911"
    assert routes.address("a", 1) == "a2:10911"
    assert routes.address("a", 7) == "a0:10911"
    assert routes.address("a", 7, only_this=True) is None
    assert routes.address("nobody") is None
    assert routes.addresses() == {"a0:10911", "a2:10911"}
    assert routes.addresses(masters_only=True) == {"a0:10911"}


def test_nameservers_are_tried_in_turn_and_the_one_that_answers_is_kept() -> None:
    routes = table()
    play = Play([LOST, answer(body=route_body("a"))])
    assert play.run(fetch_route(routes, "T")) is not None
    assert [call.address for call in play.calls] == ["ns1:9876", "ns2:9876"]
    again = Play([answer(body=route_body("a"))])
    again.run(fetch_route(routes, "T"))
    assert [call.address for call in again.calls] == ["ns2:9876"]


def test_a_topic_that_disappears_keeps_its_route() -> None:
    routes = table()
    routes.apply("T", route_body("a"))
    assert Play([MISSING]).run(fetch_route(routes, "T")) is None
    assert routes.publish_queues("T")


def test_a_new_topic_borrows_the_template_for_writing_only() -> None:
    routes = table()
    play = Play([MISSING, answer(body=route_body("a", perm=7, write=8, read=8))])
    route = play.run(publish_route(routes, "New", max_queues=4))
    assert route.is_borrowed
    assert [q.topic for q in route.publish_queues] == ["New"] * 4
    assert play.calls[1].ext == {"topic": "TBW102", "acceptStandardJsonOnly": "true"}
    assert not routes.subscribe_queues("New")
    assert "New" in routes.watched
    # A second send needs no request.
    assert Play().run(publish_route(routes, "New")) == route
    # The real route replaces it.
    Play([answer(body=route_body("a"))]).run(fetch_route(routes, "New"))
    real = routes.route("New")
    assert real is not None
    assert not real.is_borrowed


def test_an_unreachable_nameserver_is_diagnosed() -> None:
    with pytest.raises(NoRoute, match="no nameserver can be reached") as caught:
        Play([LOST, RequestTimeout("slow")]).run(publish_route(table(), "T"))
    assert caught.value.cause == "no_nameserver"
    assert "ns1:9876: connection refused" in str(caught.value)
    assert "ns2:9876: slow" in str(caught.value)


def test_a_cluster_without_brokers_is_diagnosed() -> None:
    play = Play([MISSING, MISSING, answer(body=clusters())])
    with pytest.raises(NoRoute, match="no broker is registered with nameserver ns1:9876") as caught:
        play.run(publish_route(table(), "T"))
    assert caught.value.cause == "no_broker"
    assert play.calls[-1].code == RequestCode.GET_BROKER_CLUSTER_INFO


def test_a_missing_topic_without_automatic_creation_is_diagnosed() -> None:
    routes = table()
    play = Play([MISSING, MISSING, answer(body=clusters("a"))])
    with pytest.raises(NoRoute, match="autoCreateTopicEnable=true") as caught:
        play.run(publish_route(routes, "T"))
    assert caught.value.cause == "no_topic"
    assert caught.value.topic == "T"
    assert "T" not in routes.watched


def test_a_missing_topic_is_diagnosed_for_a_reader() -> None:
    play = Play([MISSING, answer(body=clusters("a"))])
    with pytest.raises(NoRoute, match="does not exist on a") as caught:
        play.run(route_or_diagnose(table(), "T"))
    assert caught.value.cause == "no_topic"


@pytest.mark.parametrize(
    ("body", "cause", "words"),
    [
        (route_body("a", perm=4), "no_permission", "may not be written .a: R--."),
        (route_body("a", ids=(1,)), "no_broker", "no master of a is registered"),
        (route_body("a", write=0), "no_topic", "it has no queues to be written"),
    ],
)
def test_unusable_routes_are_diagnosed(body: bytes, cause: str, words: str) -> None:
    with pytest.raises(NoRoute, match=words) as caught:
        Play([answer(body=body)]).run(publish_route(table(), "T"))
    assert caught.value.cause == cause


def test_the_address_of_a_broker_instead_of_a_nameserver_is_diagnosed() -> None:
    with pytest.raises(NoRoute, match="address of a broker instead of a nameserver") as caught:
        Play([answer(3, remark=" request type 105 not supported")]).run(publish_route(table(), "T"))
    assert caught.value.cause == "refused"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (route_body("a", read=2**31 - 1), r"queueDatas\[0\].readQueueNums is 2147483647"),
        (route_body("a", write=16_385), r"queueDatas\[0\].writeQueueNums is 16385"),
        (route_body(*(f"b{n}" for n in range(20)), read=16_384), "it has 327680 queues"),
        (b'{"queueDatas":[],"orderTopicConf":"a:999999999"}', "it has 999999999 queues"),
        (b'{"queueDatas":[{"brokerName":7}]}', r"queueDatas\[0\].brokerName is 7"),
        (b'{"brokerDatas":[{"brokerAddrs":{"0":7}}]}', "brokerAddrs.0 is 7"),
        (b'{"brokerDatas":[{"brokerAddrs":{"x":"a:1"}}]}', "brokerAddrs is 'x'"),
        (b"[]", "must be an object"),
        (b"{", "byte"),
    ],
)
def test_an_implausible_route_is_refused_with_its_topic(body: bytes, reason: str) -> None:
    routes = table()
    routes.apply("T", route_body("a"))
    with pytest.raises(NoRoute, match=f"route of topic 'T'.*{reason}") as raised:
        routes.apply("T", body)
    assert raised.value.cause == "refused"
    assert len(routes.publish_queues("T")) == 2, "what was known before is kept"


def test_non_ascii_digits_are_no_count_of_ordered_queues() -> None:
    body = '{"queueDatas":[],"orderTopicConf":"a:²;b:1"}'.encode()
    assert [q.broker_name for q in TopicRoute.decode("T", body).publish_queues] == ["b"]
