"""Requests about settings, state, counters and queue entries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq._native import loads_lenient, tags_code
from orbitmq.broker.runtime_info import readable_size
from orbitmq.broker.state.stats import BrokerStats
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

from .conftest import Wire

MQADMIN_NEEDS = [
    *("brokerVersionDesc", "putTps", "getTransferedTps", "sendThreadPoolQueueSize"),
    *("pullThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills"),
    *("pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills"),
    *("earliestMessageTimeStamp", "commitLogDiskRatio", "consumeQueueDiskRatio"),
    *("msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalTodayNow"),
    *("msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow"),
    "putMessageAverageSize",
]


def settings(wire: Wire) -> dict[str, str]:
    answer = wire.ask(RequestCode.GET_BROKER_CONFIG)
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


def test_changed_settings_take_effect_and_raise_the_version(
    wire: Wire, cluster: LocalCluster
) -> None:
    version = wire.ask(RequestCode.GET_BROKER_CONFIG).get_ext("version") or ""
    body = b"maxMsgsNumBatch=7\nautoCreateSubscriptionGroup=false\nnobodyKnows=1\n"
    assert wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == ResponseCode.SUCCESS
    shown = settings(wire)
    assert shown["maxMsgsNumBatch"] == "7"
    assert "nobodyKnows" not in shown
    later = wire.ask(RequestCode.GET_BROKER_CONFIG).get_ext("version") or ""
    assert (
        loads_lenient(later.encode())["counter"] == loads_lenient(version.encode())["counter"] + 1
    )
    wire.send("t")
    assert wire.pull("t").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert wire.ask(RequestCode.UPDATE_BROKER_CONFIG).code == ResponseCode.SUCCESS


def test_settings_that_name_files_or_addresses_are_refused_with_all_others(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    before = settings(wire)
    for body, key in (
        (b"storePathRootDir=/elsewhere\n", "storePathRootDir"),
        (b"store\\u0050athCommitLog=/elsewhere\n", "storePathCommitLog"),
        (b"maxMsgsNumBatch=9\nrocketmqHome=/elsewhere\n", "rocketmqHome"),
        (b"namesrvAddr=elsewhere:9876\n", "namesrvAddr"),
        (b"filterServerNums=1\n", "filterServerNums"),
        (b"brokerName=x\n", "brokerName"),
        (b"aclEnable=false\n", "aclEnable"),
    ):
        caplog.clear()
        answer = wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
        assert answer.code == ResponseCode.NO_PERMISSION
        (logged,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert logged.startswith("refused a request of 127.0.0.1:"), "and who has tried it"
        assert key in logged
    assert settings(wire) == before
    answer = wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"a=\\uXX")
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "string2Properties error")


def test_pulls_are_refused_when_the_broker_is_not_readable(wire: Wire) -> None:
    wire.send("t")
    wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=2")
    answer = wire.pull("t")
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[127.0.0.1] pulling message is forbidden"


def test_runtime_info_has_what_the_tools_parse(wire: Wire, cluster: LocalCluster) -> None:
    wire.send("t")
    wire.pull("t")
    wire.send("t", properties="DELAY\x014")
    table = loads_lenient(wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert all(isinstance(value, str) for value in table.values())
    assert set(MQADMIN_NEEDS) <= set(table)
    assert table["putMessageTimesTotal"] == "2"
    assert table["msgGetTotalTodayNow"] == "1"
    assert table["putTps"] == "  " or float(table["putTps"].split(" ")[0]) >= 0
    assert int(table["earliestMessageTimeStamp"]) > 1_600_000_000_000
    assert int(table["commitLogMaxOffset"]) > int(table["commitLogMinOffset"]) == 0
    assert 0 < float(table["commitLogDiskRatio"]) <= 1
    assert table["runtime"].startswith("[ 0 days, 0 hours, 0 minutes, ")


def test_an_empty_broker_has_no_earliest_message(wire: Wire) -> None:
    table = loads_lenient(wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert table["earliestMessageTimeStamp"] == "-1"
    assert table["putMessageTimesTotal"] == "1", "as Java has it, to divide by"


def test_sizes_are_printed_in_binary_units() -> None:
    assert [readable_size(n) for n in (0, 1023, 1024, 1536, 5 << 20, 3 << 40)] == [
        *("0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 TiB")
    ]


def test_counters_are_returned(wire: Wire, on_broker: Callable[..., object]) -> None:
    wire.send("t")
    wire.pull("t")
    for name, key in (
        ("TOPIC_PUT_NUMS", "t"),
        ("GROUP_GET_NUMS", "t@g"),
        ("GROUP_GET_LATENCY", "0@t@g"),
        ("BROKER_PUT_NUMS", "DefaultCluster"),
    ):
        answer = wire.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
        body = loads_lenient(answer.body)
        assert list(body) == ["statsDay", "statsHour", "statsMinute"]
        assert list(body["statsDay"]) == ["avgpt", "sum", "tps"]
    ext = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "none"}
    answer = wire.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The stats <TOPIC_PUT_NUMS> <none> not exist",
    )


def test_totals_of_today_and_yesterday_morning_are_kept() -> None:
    day_ms = 86_400_000
    now = 1_700_000_000_000
    stats = BrokerStats("c", lambda: now)
    stats.put("t", 5, 100)
    stats.sample()
    assert stats.today_morning.put == 0
    now += day_ms
    stats.sample()
    assert (stats.today_morning.put, stats.yesterday_morning.put) == (5, 0)
    stats.put("t", 2, 40)
    now += day_ms
    stats.sample()
    assert (stats.today_morning.put, stats.yesterday_morning.put) == (7, 5)


def test_pull_rates_are_numbers_from_the_start() -> None:
    now = 0
    stats = BrokerStats("c", lambda: now)
    assert stats.per_second("put") == "  "
    assert stats.per_second("pulls") == "0.0 0.0 0.0"
    for _ in range(12):
        stats.put("t", 3, 30)
        now += 1000
        stats.sample()
    assert stats.per_second("put") == "3.0  "


def queue(wire: Wire, **changes: str) -> dict[str, str]:
    return {"topic": "t", "queueId": "0", "index": "0", "count": "10"} | changes


def test_entries_of_a_consume_queue_are_returned(wire: Wire) -> None:
    first = wire.send("t", properties="TAGS\x01a")
    wire.send("t")
    answer = wire.ask(RequestCode.QUERY_CONSUME_QUEUE, queue(wire))
    body = loads_lenient(answer.body)
    assert (body["maxQueueIndex"], body["minQueueIndex"]) == (2, 0)
    one, two = body["queueData"]
    assert one["tagsCode"] == tags_code("a")
    assert two["physicOffset"] == one["physicOffset"] + one["physicSize"]
    assert (first.get_ext("msgId") or "").endswith(f"{one['physicOffset']:016X}")
    answer = wire.ask(RequestCode.QUERY_CONSUME_QUEUE, queue(wire, index="1", count="1"))
    assert loads_lenient(answer.body)["queueData"] == [two]


def test_queries_for_missing_queue_entries_are_answered(wire: Wire) -> None:
    answer = wire.ask(RequestCode.QUERY_CONSUME_QUEUE, queue(wire))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "0@t is not exist!")
    wire.send("t")
    for index in ("1", "-1", "99"):
        answer = wire.ask(RequestCode.QUERY_CONSUME_QUEUE, queue(wire, index=index))
        assert answer.code == ResponseCode.SUCCESS
        assert (answer.remark, answer.body) == (f"Index {index} of 0@t is not exist!", b"")


def test_queue_entries_come_with_the_subscription_of_a_group(wire: Wire) -> None:
    wire.send("t")
    answer = wire.ask(RequestCode.QUERY_CONSUME_QUEUE, queue(wire, consumerGroup="g"))
    assert loads_lenient(answer.body)["filterData"] == "g@t is not online!"
    wire.heartbeat("g", "t")
    answer = wire.ask(RequestCode.QUERY_CONSUME_QUEUE, queue(wire, consumerGroup="g"))
    body = loads_lenient(answer.body)
    assert body["filterData"] == "null"
    assert body["subscriptionData"]["subString"] == "*"


def test_expired_files_are_deleted_on_request(wire: Wire, cluster: LocalCluster) -> None:
    wire.send("t")
    assert wire.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code == ResponseCode.SUCCESS
    (broker,) = cluster.brokers.values()
    assert broker.store.queues() == [("t", 0)], "nothing has expired"
    assert wire.ask(RequestCode.DELETE_EXPIRED_COMMITLOG).code == ResponseCode.SUCCESS
    assert broker.retention.is_due()


def test_a_new_message_size_limit_takes_effect_at_once(wire: Wire) -> None:
    for limit, size, code in (
        (100, 101, ResponseCode.MESSAGE_ILLEGAL),
        (8 << 20, 5 << 20, ResponseCode.SUCCESS),
        (1, 1000, ResponseCode.SUCCESS),  # Too low to be accepted as a limit, as in Java.
    ):
        body = f"maxMessageSize={limit}\n".encode()
        assert wire.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body).code == ResponseCode.SUCCESS
        answer = wire.send("t", b"x" * size)
        assert answer.code == code
        if code == ResponseCode.MESSAGE_ILLEGAL:
            assert f"msg body length limit {limit}B" in (answer.remark or "")
