"""SQL filters: registration by heartbeats and pulls, the filter file, and matching."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq._native import Command, Filter, decode_records, dumps_lenient
from orbitmq.broker.read import long_poll as longpoll
from orbitmq.broker.state import filters as compiled_filters
from orbitmq.broker.state import filters as filters_module
from orbitmq.broker.state.bloom import BloomSize
from orbitmq.broker.state.filters import CompiledFilters, ConsumerFilters
from orbitmq.errors import CorruptStore, FilterTooLarge
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
    """A filter table with a clock that a test sets."""

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
        data = self.filters.get(topic, "g")
        return data if data is not None and self.filters.selector(data) is not None else None


@pytest.fixture
def table() -> Table:
    return Table()


def test_bloom_filter_positions_are_those_of_java() -> None:
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


def test_an_unused_filter_is_dead_and_removed_after_a_day(table: Table) -> None:
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


def test_the_filter_file_has_javas_format_and_is_read_back(table: Table) -> None:
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


def test_a_filter_file_with_other_parameters_is_ignored(table: Table) -> None:
    table.heard("a > 5")
    other = ConsumerFilters(BloomSize.of(20, 64), lambda: DAY_MS, lambda: table.now)
    other.load(table.filters.as_json())
    assert other.get("T", "g") is None


def bomb(levels: int = 40) -> str:
    """Nest BETWEEN so that copying its operand on each level would make 2^levels nodes."""
    text = "a"
    for _ in range(levels):
        text = f"-({text} BETWEEN 1 AND 2)"
    return f"{text} IS NULL"


class Compilations:
    """Counts the expressions that are compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.expressions: list[str] = []

        def counted(expression: str) -> Filter:
            self.expressions.append(expression)
            return Filter(expression)

        monkeypatch.setattr(compiled_filters, "_compiled", counted)


def test_heartbeats_and_files_compile_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilations = Compilations(monkeypatch)
    wanted = [
        Subscription(f"T{n}", sub_string=f"a > {n}", sub_version=1, expression_type="SQL92")
        for n in range(100)
    ]
    table.filters.heard("g", wanted)
    later = Table()
    later.filters.load(table.filters.as_json())
    assert compilations.expressions == []
    data = later.filters.get("T7", "g")
    assert data is not None
    assert later.filters.selector(data) is later.filters.selector(data)
    assert compilations.expressions == ["a > 7"], "compiled once, by the first who needs it"


def test_a_nested_between_is_an_expression_like_any_other(table: Table) -> None:
    assert table.heard(bomb()) is not None


def test_an_expression_beyond_the_limits_is_refused(table: Table) -> None:
    assert table.heard("a = '" + "x" * Filter.MAX_TEXT_BYTES + "'") is None
    assert table.filters.get("T", "g") is None, "its text is not even kept"
    assert table.heard("a" + " OR a" * 5000, 2) is None


def test_the_table_has_a_limit_and_dead_filters_give_way(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters_module, "MAX_FILTERS", 3)
    for number in range(3):
        table.heard("a > 1", topic=f"T{number}")  # drops the topic of the one before
    assert table.heard("a > 1", topic="T3") is not None, "the dead ones have gone"
    everything = [
        Subscription(f"T{n}", sub_string="a > 1", sub_version=9, expression_type="SQL92")
        for n in range(10)
    ]
    table.filters.heard("g", everything)
    assert len(table.filters.as_json()["filterDataByTopic"]) == 3
    monkeypatch.setattr(filters_module, "MAX_FILTERS", 100)
    monkeypatch.setattr(filters_module, "MAX_CHARS", 20)
    table.filters.heard("h", everything)
    assert table.filters.get("T0", "h") is not None
    assert table.filters.get("T1", "h") is None


def test_compiled_filters_are_kept_while_there_is_room() -> None:
    kept = CompiledFilters(max_chars=3 * 300)
    first = kept.get("SQL92", "a > 1")
    for number in range(2, 4):
        kept.get("SQL92", f"a > {number}")
        assert kept.get("SQL92", "a > 1") is first, "used a moment ago"
    kept.get("SQL92", "a > 4")
    assert len(kept) == 3
    assert kept.get("SQL92", "a > 1") is first
    assert kept.get("SQL92", "a >") is None
    with pytest.raises(FilterTooLarge):
        kept.get("SQL92", "(" * 200)
    with pytest.raises(FilterTooLarge):
        kept.get("SQL92", "(" * 200)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON at all",
        b"[1, 2]",
        b'{"filterDataByTopic": 7}',
        b'{"filterDataByTopic": {"t": 7, "u": {"groupFilterData": [1]}}}',
        b'{"filterDataByTopic": {"t": {"groupFilterData": {"g": "x"}}}}',
        b"[" * 100_000,
    ],
)
def test_an_unusable_filter_file_does_not_prevent_the_start(tmp_path: Path, content: bytes) -> None:
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        file = Path(broker.config.store_path_root_dir) / "config" / "consumerFilter.json"
    file.write_bytes(content)
    file.with_name(file.name + ".bak").write_bytes(content)
    with LocalCluster(data=tmp_path) as cluster:
        (broker,) = cluster.brokers.values()
        assert broker.filters.as_json() == {"filterDataByTopic": {}}


def test_a_saved_expression_of_extreme_size_does_not_stall_the_start(table: Table) -> None:
    table.heard("a > 1")
    value = table.filters.as_json()
    entry = value["filterDataByTopic"]["T"]["groupFilterData"]["g"]
    for changed in ({"expression": bomb()}, {"bornTime": "x"}, {"clientVersion": 1 << 70}):
        entry.update(changed)
        later = Table()
        later.filters.load(value)
        assert later.filters.get("T", "g") is not None
    for changed in ({"expression": 7}, {"expression": "x" * 70_000}, {"expression": ""}):
        entry.update(changed)
        later = Table()
        later.filters.load(value)
        assert later.filters.get("T", "g") is None


# ---- Requests over the network


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


def test_a_client_can_check_an_expression_before_it_subscribes(wire: Wire) -> None:
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


def test_a_pull_returns_messages_that_match_the_filter_of_its_group(wire: Wire) -> None:
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


def test_a_pull_may_carry_its_own_filter(wire: Wire) -> None:
    numbered(wire)
    assert bodies(wire.pull("t", **SQL, subscription="n IN ('1', '7')")) == [b"1", b"7"]
    assert len(bodies(wire.pull("t", **SQL, subscription="n >"))) == 10, "none, so all"
    empty = wire.pull("t", **SQL, subscription="")
    assert empty.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_pulls_of_a_group_with_an_invalid_expression_are_refused(wire: Wire) -> None:
    numbered(wire)
    heartbeat(wire, "n >")
    refused = wire.pull("t", **OF_GROUP)
    assert refused.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert refused.remark == (
        "The broker's consumer filter data is not exist!Your expression may be wrong!"
    )


def test_filtered_pulls_are_refused_when_filters_are_disabled(
    cluster: LocalCluster, wire: Wire
) -> None:
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


def test_no_expression_is_compiled_when_filters_are_disabled(
    cluster: LocalCluster, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = cluster.brokers.values()
    broker.config.enable_property_filter = False
    broker.config.filter_support_retry = True
    compilations = Compilations(monkeypatch)
    numbered(wire)
    heartbeat(wire, bomb())
    for answer in (
        check(wire, "n > 5"),
        wire.pull("t", **OF_GROUP),
        wire.pull("t", **SQL, subscription="n > 5"),
    ):
        assert answer.code == ResponseCode.SYSTEM_ERROR
    wire.pull("%RETRY%g", **OF_GROUP)
    assert compilations.expressions == []


def test_a_pull_whose_own_filter_is_too_large_is_refused(wire: Wire) -> None:
    numbered(wire)
    refused = wire.pull("t", **SQL, subscription="n > 5" + " OR n > 5" * 5000)
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "more than 8192 words" in (refused.remark or "")


def test_a_held_pull_is_woken_only_by_messages_that_match(wire: Wire) -> None:
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


def test_a_failed_read_of_one_held_pull_ends_no_other(
    cluster: LocalCluster, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longpoll, "SCAN_S", 3600.0)  # only arrivals wake the pulls
    (broker,) = cluster.brokers.values()
    handlers: Any = broker.held.finds.__self__  # type: ignore[attr-defined]
    store = handlers.store

    class Damaged:
        """A store in which the read for one group meets damage."""

        def __init__(self) -> None:
            self.looks = 0

        def read(self, *args: Any, **how: Any) -> Any:
            if how.get("max_messages") == 1:
                self.looks += 1
                if self.looks == 1:
                    raise CorruptStore("damaged", path=Path("somewhere"))
            return store.read(*args, **how)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    numbered(wire, 3)
    held = [
        wire.post(
            RequestCode.PULL_MESSAGE,
            pull_ext(
                "t", 3, **SQL, sysFlag="6", suspendTimeoutMillis="3600000", subscription=f"n > {n}"
            ),
        )
        for n in (5, 6)
    ]
    wire.send("other")
    handlers.store = Damaged()
    wire.send("t", b"7", properties="n\x017")
    for opaque in held:
        assert bodies(wire.answer(opaque)) == [b"7"], "woken at once, both of them"


def test_retried_messages_are_filtered_when_the_setting_is_on(
    cluster: LocalCluster, wire: Wire
) -> None:
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
