"""SQL filters: told by heartbeats and pulls, kept in a file, asked about each message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import Command, decode_records, dumps_lenient
from orbitmq.broker.bloom import BloomSize
from orbitmq.broker.filters import ConsumerFilters
from orbitmq.protocol.bodies import Subscription
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire, pull_ext

DAY_MS = 86_400_000
BLOOM = BloomSize.of(20, 32)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"enablePropertyFilter": "true"}) as running:
        yield running


class Table:
    """Filters with a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.filters = ConsumerFilters(BLOOM, lambda: DAY_MS, lambda: self.now)

    def heard(
        self, expression: str, version: int = 1, topic: str = "T", kind: str = "SQL92"
    ) -> Any:
        wanted = Subscription(
            topic, sub_string=expression, sub_version=version, expression_type=kind
        )
        self.filters.heard("g", [wanted])
        return self.filters.get(topic, "g")


@pytest.fixture
def table() -> Table:
    return Table()


def test_the_positions_are_those_of_java() -> None:
    assert BloomSize(bits=112, hashes=3) == BLOOM
    assert BLOOM.positions("grp#OrderTopic") == [96, 100, 70]
    assert BloomSize.of(20, 64).positions("grp#OrderTopic") == [72, 4, 102]


def test_a_newer_expression_replaces_an_older_one(table: Table) -> None:
    assert table.heard("a > 1", 5).expression == "a > 1"
    assert table.heard("a > 2", 4).expression == "a > 1", "an older heartbeat changes nothing"
    table.now += 10
    newer = table.heard("a > 2", 6)
    assert (newer.expression, newer.born_ms) == ("a > 2", table.now)
    assert table.heard("a >", 7) is None, "one that does not compile takes the filter away"
    assert table.heard("a > 1", 8, kind="XYZ") is None
    assert table.heard("a > 1", 9, kind="TAG") is None


def test_what_nobody_uses_is_dead_and_forgotten_after_a_day(table: Table) -> None:
    data = table.heard("a > 1", 5)
    table.filters.heard("g", [])
    assert data.is_dead, "the group no longer subscribes to the topic"
    table.heard("a > 1", 5)
    assert not data.is_dead, "it does again"
    table.filters.group_left("g")
    assert data.is_dead
    table.now += DAY_MS - 1
    table.filters.clean()
    assert table.filters.get("T", "g") is data
    table.now += 1
    table.filters.clean()
    assert table.filters.get("T", "g") is None
    assert table.filters.as_json() == {"filterDataByTopic": {}}


def test_the_file_is_javas_and_is_read_back(table: Table) -> None:
    table.heard("a > 5 AND b = 'x'", 9, topic="OrderTopic")
    value = table.filters.as_json()
    assert value["filterDataByTopic"]["OrderTopic"]["groupFilterData"]["g"] == {
        "bloomFilterData": {"bitNum": 112, "bitPos": BLOOM.positions("g#OrderTopic")},
        "bornTime": table.now,
        "clientVersion": 9,
        "consumerGroup": "g",
        "dead": False,
        "deadTime": 0,
        "expression": "a > 5 AND b = 'x'",
        "expressionType": "SQL92",
        "topic": "OrderTopic",
    }
    later = Table()
    later.now += 60_000
    later.filters.load(value)
    data = later.filters.get("OrderTopic", "g")
    assert data is not None
    assert data.dead_ms == later.now - 30_000, "who used it has not been heard of yet"
    later.heard("a > 5 AND b = 'x'", 9, topic="OrderTopic")
    assert not data.is_dead


def test_a_file_with_other_parameters_is_ignored(table: Table) -> None:
    table.heard("a > 5")
    other = ConsumerFilters(BloomSize.of(20, 64), lambda: DAY_MS, lambda: table.now)
    other.load(table.filters.as_json())
    assert other.get("T", "g") is None


# ---- over the wire


def heartbeat(wire: Wire, expression: str, version: int = 1, group: str = "g") -> None:
    retry = {"topic": f"%RETRY%{group}", "subString": "*", "subVersion": 1}
    wanted = {
        "topic": "t",
        "subString": expression,
        "subVersion": version,
        "expressionType": "SQL92",
    }
    consumer = {"groupName": group, "subscriptionDataSet": [wanted, retry]}
    body = dumps_lenient({"clientID": "c1", "consumerDataSet": [consumer]})
    assert wire.ask(RequestCode.HEART_BEAT, body=body).code == 0


def check(wire: Wire, expression: str, kind: str | None = "SQL92") -> Command:
    subscription = {"topic": "t", "subString": expression, "expressionType": kind}
    body = {"clientId": "c1", "group": "g", "subscriptionData": subscription}
    return wire.ask(RequestCode.CHECK_CLIENT_CONFIG, body=dumps_lenient(body))


def test_a_client_asks_before_it_begins(wire: Wire) -> None:
    assert check(wire, "a > 5").code == 0
    assert check(wire, "whatever >", "TAG").code == 0
    bad = check(wire, "a = NULL")
    assert bad.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert bad.remark == "java.lang.RuntimeException: 'NULL' cannot be compared."
    unknown = check(wire, "a > 5", "XYZ")
    assert (unknown.code, unknown.remark) == (ResponseCode.SUBSCRIPTION_PARSE_FAILED, None)


def numbered(wire: Wire, count: int = 10) -> None:
    for number in range(count):
        wire.send("t", b"%d" % number, properties=f"n\x01{number}")


def bodies(found: Command) -> list[bytes]:
    return [record.body for record in decode_records(found.body)]


OF_GROUP: dict[str, Any] = {"sysFlag": "0"}
SQL: dict[str, Any] = {"expressionType": "SQL92"}


def test_a_pull_is_given_what_its_groups_filter_matches(wire: Wire) -> None:
    numbered(wire)
    heartbeat(wire, "n BETWEEN 3 AND 5")
    found = wire.pull("t", **OF_GROUP)
    assert (found.code, bodies(found)) == (0, [b"3", b"4", b"5"])
    assert (found.ext or {})["nextBeginOffset"] == "10"
    heartbeat(wire, "n > 100", version=2)
    nothing = wire.pull("t", **OF_GROUP)
    assert nothing.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    newer = wire.pull("t", **OF_GROUP, subVersion="3")
    assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_a_pull_may_bring_its_own_filter(wire: Wire) -> None:
    numbered(wire)
    assert bodies(wire.pull("t", **SQL, subscription="n IN ('1', '7')")) == [b"1", b"7"]
    assert len(bodies(wire.pull("t", **SQL, subscription="n >"))) == 10, "none, so all"
    empty = wire.pull("t", **SQL, subscription="")
    assert empty.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_group_whose_expression_is_none_is_told(wire: Wire) -> None:
    numbered(wire)
    heartbeat(wire, "n >")
    refused = wire.pull("t", **OF_GROUP)
    assert refused.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert refused.remark == (
        "The broker's consumer filter data is not exist!Your expression may be wrong!"
    )


def test_a_broker_that_does_not_filter_says_so(cluster: LocalCluster, wire: Wire) -> None:
    (broker,) = cluster.brokers.values()
    numbered(wire)
    heartbeat(wire, "n > 5")
    broker.config.enable_property_filter = False
    remark = "The broker does not support consumer to filter message by SQL92"
    for answer in (
        check(wire, "n > 5"),
        wire.pull("t", **OF_GROUP),
        wire.pull("t", **SQL, subscription="n > 5"),
    ):
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_held_pull_is_woken_by_what_it_wants_alone(wire: Wire) -> None:
    numbered(wire, 3)
    heartbeat(wire, "n = 7")
    held = wire.post(
        RequestCode.PULL_MESSAGE,
        pull_ext("t", 3, sysFlag="2", suspendTimeoutMillis="15000"),
    )
    for number in (4, 5, 6):
        wire.send("t", b"%d" % number, properties=f"n\x01{number}")
    assert held not in wire._responses, "answers come in order of events, and none came before"
    wire.send("t", b"7", properties="n\x017")
    found = wire.answer(held)
    assert (found.code, bodies(found)) == (0, [b"7"])


def test_retried_messages_are_filtered_if_wished(cluster: LocalCluster, wire: Wire) -> None:
    (broker,) = cluster.brokers.values()
    heartbeat(wire, "n > 5")
    for number in (1, 9):
        properties = f"RETRY_TOPIC\x01t\x02n\x01{number}"
        wire.send("%RETRY%g", b"%d" % number, properties=properties)
    assert bodies(wire.pull("%RETRY%g", **OF_GROUP)) == [b"1", b"9"]
    broker.config.filter_support_retry = True
    assert bodies(wire.pull("%RETRY%g", **OF_GROUP)) == [b"9"]


def test_filters_survive_a_restart(tmp_path: Path) -> None:
    settings = {"enablePropertyFilter": "true"}
    with LocalCluster(settings=settings, data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        wire = Wire(broker.config.address)
        heartbeat(wire, "n > 5", version=4)
        wire.close()
        file = Path(broker.config.store_path_root_dir) / "config" / "consumerFilter.json"
    kept = json.loads(file.read_bytes())["filterDataByTopic"]["t"]["groupFilterData"]["g"]
    assert (kept["expression"], kept["clientVersion"]) == ("n > 5", 4)
    with LocalCluster(settings=settings, data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        data = broker.filters.get("t", "g")
        assert data is not None
        assert data.is_dead
