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

    def heard(self, expression: str, version: int = 1, topic: str = "T", kind: str = "SQL92") -> Any:
        wanted = Subscription(
            topic, sub_string=expression, sub_version=version, expression_type=kind
        )
        self.filters.heard("g", [wanted])
        return self.filters.get(topic, "g")


@pytest.fixture
def table() -> Table:
    return Table()


def test_the_positions_are_those_of_java() -> None:
    assert BLOOM == BloomSize(bits=112, hashes=3)
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
