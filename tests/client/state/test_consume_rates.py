"""Rates over the last minute, with a clock that a test moves."""

from __future__ import annotations

from orbitmq.client.consumer.rates import ConsumeRates, TopicRates
from tests.client.playing import Clock


def test_rates_are_those_of_the_last_minute() -> None:
    clock = Clock()
    rates = ConsumeRates(clock)
    for _ in range(60):
        clock.now += 1
        rates.pulled("T", 100, 0.002)
        rates.consumed("T", 100, 4, 10, 0.05)
    now = rates.of("T")
    assert 95 < now.pulled_per_s <= 110
    assert 91 < now.done_per_s <= 106
    assert 3.8 < now.failed_per_s <= 4.4
    assert round(now.pull_ms, 6) == 2
    assert round(now.call_ms, 6) == 5
    assert now.failed_in_hour == 240
    clock.now += 80
    assert rates.of("T") == TopicRates(failed_in_hour=240)
    clock.now += 3600
    assert rates.of("T") == TopicRates()


def test_rates_of_a_young_consumer_count_only_its_lifetime() -> None:
    clock = Clock()
    rates = ConsumeRates(clock)
    clock.now += 5
    rates.consumed("T", 1000, 0, 1000, 1.0)
    assert rates.of("T").done_per_s == 200
    assert rates.of("T").call_ms == 1


def test_rates_are_kept_by_topic_and_failures_for_an_hour() -> None:
    clock = Clock()
    rates = ConsumeRates(clock)
    assert rates.of("unknown") == TopicRates()
    for _ in range(1000):
        clock.now += 10
        rates.consumed("T", 1, 1, 1, 0.0)
    rates.consumed("U", 1, 0, 1, 0.0)
    assert 355 <= rates.of("T").failed_in_hour <= 361
    assert rates.of("U").failed_in_hour == 0
