"""Subscriptions of a consumer group by topic, as heartbeats and pulls send them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from orbitmq.errors import ConfigError
from orbitmq.protocol.bodies import Subscription

__all__ = ["SubscriptionTable", "subscribe"]

SQL92 = "SQL92"


def subscribe(topic: str, tags: str | None, sql: str | None, now_ms: int) -> Subscription:
    """Return the subscription to a topic: all messages, or those that an expression selects."""
    if sql is not None:
        if tags not in (None, "*"):
            raise ConfigError(f"topic {topic}: a subscription has either tags or sql, not both")
        if not sql.strip():
            raise ConfigError(f"topic {topic}: the sql expression is empty")
        return Subscription(topic, sub_string=sql, sub_version=now_ms, expression_type=SQL92)
    try:
        return Subscription.of_tags(topic, tags, now_ms)
    except ValueError as error:
        raise ConfigError(f"topic {topic}: tags {error}") from None


class SubscriptionTable:
    """Table of one consumer's subscriptions, by topic."""

    def __init__(self) -> None:
        self._of_topic: dict[str, Subscription] = {}

    def put(self, subscription: Subscription) -> None:
        """Add a subscription, or replace the one to the same topic."""
        self._of_topic[subscription.topic] = subscription

    def remove(self, topic: str) -> None:
        """Remove the subscription to a topic."""
        self._of_topic.pop(topic, None)

    def get(self, topic: str) -> Subscription | None:
        """Return the subscription to a topic, or None without a subscription."""
        return self._of_topic.get(topic)

    def touch(self, topic: str, now_ms: int) -> None:
        """Set a new version of a subscription, so that brokers update it from the heartbeat."""
        subscription = self._of_topic.get(topic)
        if subscription is not None:
            self._of_topic[topic] = replace(subscription, sub_version=now_ms)

    @property
    def topics(self) -> list[str]:
        """Subscribed topics, in the order of subscription."""
        return list(self._of_topic)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._of_topic.values()))

    def __contains__(self, topic: object) -> bool:
        return topic in self._of_topic
