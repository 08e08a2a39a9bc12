"""Counters and their totals within the last minute, hour and day."""

from __future__ import annotations

import pytest

from orbitmq.broker.state.stats import BrokerStats, GroupLags, Rate


class World:
    """Counters with their own clock; every second is sampled."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.stats = BrokerStats("c", lambda: self.now_ms)
        self.stats.sample()

    def pass_seconds(self, count: int, *, messages: int = 0) -> None:
        for _ in range(count):
            if messages:
                self.stats.put("t", messages, 100 * messages)
            self.now_ms += 1000
            self.stats.sample()

    def rate(self, window: str, name: str = "TOPIC_PUT_NUMS") -> Rate:
        rate = self.stats.rate(name, "t", window)
        assert rate is not None
        return rate


@pytest.fixture
def world() -> World:
    return World()


def test_the_number_of_recorded_lags_is_limited() -> None:
    lags = GroupLags(max_lags=2)
    for queue_id in (0, 1, 0, 2):
        lags.note("t", "g", queue_id, size=queue_id, time_ms=10 * queue_id)
    sizes = [lags.value("GROUP_GET_FALL_SIZE", f"{number}@t@g") for number in range(3)]
    assert sizes == [0, None, 2], "the one that was pulled longest ago is gone"
    assert lags.value("GROUP_GET_FALL_TIME", "2@t@g") == 20
    assert lags.value("GROUP_GET_FALL_TIME", "t@g") is None
    assert lags.value("GROUP_GET_NUMS", "2@t@g") is None


def test_counts_older_than_a_minute_leave_the_minute_total(world: World) -> None:
    world.pass_seconds(60, messages=5)
    assert world.rate("minute").sum == pytest.approx(300, abs=50)
    assert world.rate("minute").tps == pytest.approx(5, rel=0.01)
    assert world.rate("minute").average_per_time == 5.0
    assert world.rate("minute", "TOPIC_PUT_SIZE").average_per_time == 500.0
    world.pass_seconds(70)
    assert world.rate("minute") == Rate(0, 0.0, 0.0)
    assert world.rate("hour").sum == 0, "its next snapshot comes after ten minutes"
    world.pass_seconds(600)
    assert world.rate("hour").sum == 300
    assert world.stats.rate("TOPIC_PUT_NUMS", "unknown", "minute") is None


def test_messages_without_a_producer_count_only_for_the_broker(world: World) -> None:
    world.stats.put("t", 1, 100)
    world.stats.put("t", 1, 100, counts=False)
    world.pass_seconds(11)
    assert world.rate("minute").sum == 1
    assert world.stats.put_times == 2


def test_delayed_and_sent_back_messages_have_separate_counters(world: World) -> None:
    world.stats.scheduled(3, 50)
    world.stats.sent_back("t", "g")
    world.stats.got("t", "g", 2, 80)
    world.pass_seconds(11)
    sums = {
        (name, key): rate.sum
        for name, key in [
            ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2"),
            ("QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@2"),
            ("SNDBCK_PUT_NUMS", "t@g"),
            ("GROUP_GET_NUMS", "t@g"),
            ("GROUP_GET_SIZE", "t@g"),
            ("BROKER_GET_NUMS", "c"),
        ]
        if (rate := world.stats.rate(name, key, "minute")) is not None
    }
    assert list(sums.values()) == [1, 50, 1, 2, 80, 2]
