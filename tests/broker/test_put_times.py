"""Durations of puts, as reported to admin tools."""

from __future__ import annotations

import pytest

from orbitmq._native import loads_lenient
from orbitmq.broker.state.stats import SLOWEST_MS, BrokerStats, PutTimes
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address


def test_no_put_times_are_reported_before_a_period_ends() -> None:
    times = PutTimes()
    times.count(3)
    assert times.distribution() is None
    assert times.percentile_ms(0.99) == 0.0
    assert times.slowest_ms == 3


def test_put_time_classes_have_javas_bounds() -> None:
    times = PutTimes()
    for ms in (-1, 0, 0.9, 1, 9, 10, 49, 50, 99, 100, 199, 200, 499, 500, 999, 1000, 1999):
        times.count(ms)
    for ms in (2000, 3000, 4000, 4999, 5000, 9999, 10_000, 99_999):
        times.count(ms)
    times.end_period()
    assert times.distribution() == (
        "[<=0ms]:3 [0~10ms]:2 [10~50ms]:2 [50~100ms]:2 [100~200ms]:2 [200~500ms]:2 "
        "[500ms~1s]:2 [1~2s]:2 [2~3s]:1 [3~4s]:1 [4~5s]:2 [5~10s]:2 [10s~]:2 "
    )
    assert times.slowest_ms == SLOWEST_MS


def test_percentiles_are_those_of_the_last_period() -> None:
    times = PutTimes()
    for _ in range(989):
        times.count(0)
    for ms in (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 500):
        times.count(ms)
    times.end_period()
    assert [times.percentile_ms(fraction) for fraction in (0.5, 0.99, 0.999)] == [0, 7, 16]
    times.end_period()
    assert times.percentile_ms(0.99) == 0.0, "of a period in which nothing was put"
    assert times.slowest_ms == 500, "ever"


def test_put_times_are_reported_by_the_minute() -> None:
    now_ms = 1_700_000_000_000
    stats = BrokerStats("c", lambda: now_ms)
    counters = stats.put_times_ms.now
    stats.put_times_ms.now[2] += 1
    for _ in range(59):
        now_ms += 1000
        stats.sample()
    assert stats.put_times_ms.distribution() is None
    now_ms += 1000
    stats.sample()
    assert "[0~10ms]:1 " in str(stats.put_times_ms.distribution())
    assert stats.put_times_ms.now is counters, "whoever counts may keep it"


def test_pulls_are_timed_by_queue_and_group() -> None:
    now_ms = 1_700_000_000_000
    stats = BrokerStats("c", lambda: now_ms)
    stats.got_in("t", "g", 3, 8)
    stats.got_in("t", "g", 3, 2)
    stats.sample()
    rate = stats.rate("GROUP_GET_LATENCY", "3@t@g", "minute")
    assert rate is not None
    assert (rate.sum, rate.average_per_time) == (10, 5.0)
    assert stats.slowest_get_ms == 8


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_puts_are_timed_until_they_are_acknowledged(flush: str) -> None:
    with LocalCluster(settings={"flushDiskType": flush}) as cluster:
        wire = Wire(broker_address(cluster))
        assert wire.send("t").code == ResponseCode.SUCCESS
        (broker,) = cluster.brokers.values()

        async def end_period() -> None:
            broker.stats.put_times_ms.end_period()

        cluster.run(end_period())
        table = loads_lenient(wire.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
        counted = [int(one.split(":")[1]) for one in table["putMessageDistributeTime"].split()]
        assert (len(counted), sum(counted)) == (13, 1)
        assert table["sendThreadPoolQueueSize"] == "0"
        assert table["sendThreadPoolQueueHeadWaitTimeMills"] == "0"
        assert float(table["putLatency99"]) <= int(table["putMessageEntireTimeMax"]) < SLOWEST_MS
        wire.close()
