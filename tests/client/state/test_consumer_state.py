"""Subscriptions, offsets and settings of consumers."""

from datetime import UTC, datetime

import pytest

from orbitmq._native import java_hash
from orbitmq.client.consumer.offsets import OffsetTable, StartAt, StartRule
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscription import SubscriptionTable, subscribe
from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


@pytest.mark.parametrize("tags", [None, "", "*", " * "])
def test_a_star_subscribes_to_all_messages(tags: str | None) -> None:
    subscription = subscribe("T", tags, None, 5)
    assert (subscription.sub_string, subscription.tags, subscription.sub_version) == ("*", (), 5)


def test_tags_are_split_and_hashed() -> None:
    subscription = subscribe("T", "a || b||", None, 1)
    assert subscription.sub_string == "a || b||"
    assert subscription.tags == ("a", "b")
    assert subscription.codes == (java_hash("a"), java_hash("b"))


def test_a_sql_expression_becomes_a_sql92_subscription() -> None:
    subscription = subscribe("T", None, "price > 10", 1)
    assert subscription.expression_type == "SQL92"
    assert (subscription.sub_string, subscription.tags) == ("price > 10", ())


@pytest.mark.parametrize(("tags", "sql"), [("||", None), ("a", "x = 1"), (None, " ")])
def test_invalid_subscriptions_are_refused(tags: str | None, sql: str | None) -> None:
    with pytest.raises(ConfigError, match="topic T"):
        subscribe("T", tags, sql, 1)


def test_touching_a_subscription_renews_its_version() -> None:
    table = SubscriptionTable()
    table.put(subscribe("T", "a", None, 1))
    table.touch("T", 9)
    table.touch("unknown", 9)
    assert [(s.topic, s.sub_string, s.sub_version) for s in table] == [("T", "a", 9)]
    table.remove("T")
    assert "T" not in table


def test_offsets_only_advance_unless_they_are_put() -> None:
    table = OffsetTable()
    table.advance(QUEUE, -1)
    assert table.get(QUEUE) is None
    table.advance(QUEUE, 5)
    table.advance(QUEUE, 3)
    assert table.get(QUEUE) == 5
    table.put(QUEUE, 3)
    assert table.of_topic("T") == table.of_topic("") == {QUEUE: 3}
    assert table.of_topic("other") == {}
    table.forget(QUEUE)
    assert table.get(QUEUE) is None


@pytest.mark.parametrize(
    ("rule", "topic", "stored", "start"),
    [
        ("last", "T", 7, StartAt("offset", 7)),
        ("last", "T", 0, StartAt("offset", 0)),
        ("last", "T", -1, StartAt("max")),
        ("last", "%RETRY%g", -1, StartAt("offset", 0)),
        ("first", "T", -1, StartAt("offset", 0)),
        ("first", "T", 7, StartAt("offset", 7)),
        ("first", "%RETRY%g", -1, StartAt("offset", 0)),
        (1234, "T", -1, StartAt("time", 1234)),
        (1234, "T", 7, StartAt("offset", 7)),
        (1234, "%RETRY%g", -1, StartAt("max")),
    ],
)
def test_a_queue_begins_by_its_start_rule(
    rule: str | int, topic: str, stored: int, start: StartAt
) -> None:
    assert StartRule.of(rule).start(topic, stored) == start


def test_a_datetime_is_a_start_time() -> None:
    rule = StartRule.of(datetime(2024, 1, 1, tzinfo=UTC))
    assert (rule.where, rule.time_ms) == ("time", 1_704_067_200_000)
    assert rule.java_name == "CONSUME_FROM_TIMESTAMP"


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": ""},
        {"group": "with space"},
        {"group": "x" * 256},
        {"group": "DEFAULT_CONSUMER"},
        {"group": "g", "concurrency": 0},
        {"group": "g", "pull_batch_size": 0},
        {"group": "g", "max_span": 0},
        {"group": "g", "max_cached_messages_of_topic": 0},
        {"group": "g", "max_cached_messages_of_topic": 6_553_501},
        {"group": "g", "max_cached_bytes_of_topic": 0},
        {"group": "g", "max_cached_messages_of_all": 0},
        {"group": "g", "consume_from": "middle"},
        {"group": "g", "pull_timeout_ms": 1},
        {"group": "g", "strategy": "RANDOM"},
    ],
)
def test_invalid_consumer_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ConsumerSettings(**wrong)  # type: ignore[arg-type]


def test_orderly_queues_have_no_span_limit() -> None:
    settings = ConsumerSettings(group="g", max_span=3)
    assert settings.limits(ordered=False).span == 3
    assert settings.limits(ordered=True).span is None
    assert settings.send_back_limit == 16
    assert ConsumerSettings(group="g", max_reconsume_times=2).send_back_limit == 2


def test_the_limit_of_all_queues_is_divided_among_them() -> None:
    settings = ConsumerSettings(
        group="g", max_cached_messages_of_all=100, max_cached_bytes_of_all=1000
    )
    limits = settings.limits(ordered=False, queues=8)
    assert (limits.messages, limits.size_bytes) == (12, 125)
    assert settings.limits(ordered=False, queues=1000).messages == 1


def test_the_limit_of_a_topic_is_divided_among_its_queues() -> None:
    settings = ConsumerSettings(
        group="g", max_cached_messages_of_topic=100, max_cached_bytes_of_topic=1000
    )
    limits = settings.limits(ordered=False, queues=20, of_topic=8)
    assert (limits.messages, limits.size_bytes) == (12, 125)
    assert settings.limits(ordered=False, queues=2000, of_topic=1000).messages == 1


def test_the_smaller_of_two_shared_limits_counts() -> None:
    settings = ConsumerSettings(
        group="g", max_cached_messages_of_topic=100, max_cached_messages_of_all=100
    )
    assert settings.limits(ordered=False, queues=10, of_topic=5).messages == 10
    settings.max_cached_messages_of_topic = 20
    assert settings.limits(ordered=False, queues=10, of_topic=5).messages == 4
    assert settings.limits(ordered=False).size_bytes == settings.max_cached_bytes


@pytest.mark.parametrize("name", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_strategies_are_found_by_name(name: str) -> None:
    assert ConsumerSettings(group="g", strategy=name).allocate_strategy.name == name
