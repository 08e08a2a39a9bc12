"""The SQL filters of consumer groups: told by heartbeats, used by pulls, kept in a file.

A filter belongs to a topic and a group. It lives from the heartbeat that brings it until the group
has no member any more, or no longer subscribes to the topic; then it is *dead*, which changes
nothing for pulls, and a day later it is forgotten. A heartbeat with an older subscription changes
nothing, one with a newer expression replaces the filter, or drops it if that expression is none.
All of it is registered whether or not this broker filters by properties at the time: that setting
may change while consumers are connected.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Filter
from orbitmq.broker.bloom import BloomSize
from orbitmq.errors import MalformedFilter
from orbitmq.protocol.bodies import Subscription

__all__ = ["SQL92", "ConsumerFilters", "FilterData", "compiled"]

_log = logging.getLogger(__name__)

SQL92 = "SQL92"
CRASH_GRACE_MS = 30_000
"""A filter that was alive when its broker went down counts as dead since this long ago at most."""


@functools.lru_cache(100)
def compiled(expression_type: str, expression: str) -> Filter | None:
    """Return the filter that an expression stands for, None if it is no good one."""
    if expression_type != SQL92:
        return None
    try:
        return Filter(expression)
    except MalformedFilter:
        return None


@dataclass(slots=True)
class FilterData:
    """What a group wants of a topic, by properties."""

    topic: str
    group: str
    expression: str
    expression_type: str
    client_version: int
    born_ms: int
    filter: Filter
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether nobody uses it at the time."""
        return self.dead_ms >= self.born_ms

    def as_json(self, bloom: BloomSize) -> dict[str, Any]:
        """Return the form of the file."""
        return {
            "bloomFilterData": bloom.as_json(self.group, self.topic),
            "bornTime": self.born_ms,
            "clientVersion": self.client_version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_ms,
            "expression": self.expression,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }


class ConsumerFilters:
    """All filters of this broker."""

    def __init__(
        self, bloom: BloomSize, clean_after_ms: Callable[[], int], clock: Callable[[], int]
    ) -> None:
        self._bloom = bloom
        self._clean_after_ms = clean_after_ms
        self._clock = clock
        self._table: dict[str, dict[str, FilterData]] = {}

    def get(self, topic: str, group: str) -> FilterData | None:
        """Return the filter of a group for a topic."""
        of_topic = self._table.get(topic)
        return None if of_topic is None else of_topic.get(group)

    def of_retries(self, group: str) -> Filter | None:
        """Return the filter for messages that come back to a group, each by the topic it was in."""
        by_topic = {data.topic: data.filter for data in self._of_group(group)}
        return Filter.of_retries(by_topic) if by_topic else None

    def _of_group(self, group: str) -> Iterator[FilterData]:
        for of_topic in self._table.values():
            if group in of_topic:
                yield of_topic[group]

    def heard(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Take the subscriptions of a heartbeat."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not subscription.is_tags and subscription.sub_string:
                self._register(group, subscription)
        if self._table:
            for data in self._of_group(group):
                if data.topic not in topics and not data.is_dead:
                    data.dead_ms = self._clock()

    def _register(self, group: str, wanted: Subscription) -> None:
        of_topic = self._table.get(wanted.topic, {})
        known = of_topic.get(group)
        if known is not None and wanted.sub_version <= known.client_version:
            if wanted.sub_version == known.client_version and known.is_dead:
                known.dead_ms = 0
            return
        said = (wanted.sub_string, wanted.expression_type)
        if known is not None and said == (known.expression, known.expression_type):
            known.client_version = wanted.sub_version
            if known.is_dead:
                known.dead_ms = 0
            return
        selector = compiled(wanted.expression_type, wanted.sub_string)
        if selector is None:
            _log.warning(
                "group %s has no filter for %s: %s %r does not compile",
                group, wanted.topic, wanted.expression_type, wanted.sub_string,
            )  # fmt: skip
            of_topic.pop(group, None)
            return
        self._table.setdefault(wanted.topic, {})[group] = FilterData(
            topic=wanted.topic,
            group=group,
            expression=wanted.sub_string,
            expression_type=wanted.expression_type,
            client_version=wanted.sub_version,
            born_ms=self._clock(),
            filter=selector,
        )

    def group_left(self, group: str) -> None:
        """Tell that a group has no member any more."""
        for data in self._of_group(group):
            if not data.is_dead:
                data.dead_ms = self._clock()

    def clean(self) -> None:
        """Forget what has been dead for too long."""
        before_ms = self._clock() - self._clean_after_ms()
        for topic, of_topic in list(self._table.items()):
            for group, data in list(of_topic.items()):
                if data.is_dead and data.dead_ms <= before_ms:
                    del of_topic[group]
            if not of_topic:
                del self._table[topic]

    # ---- config/consumerFilter.json

    def as_json(self) -> dict[str, Any]:
        """Return the form of the file."""
        by_topic = {
            topic: {
                "groupFilterData": {
                    group: data.as_json(self._bloom) for group, data in of_topic.items()
                },
                "topic": topic,
            }
            for topic, of_topic in self._table.items()
        }
        return {"filterDataByTopic": by_topic}

    def load(self, value: Mapping[str, Any]) -> None:
        """Take the filters of a file; those of a broker with other parameters are not for us."""
        loaded: dict[str, dict[str, FilterData]] = {}
        for topic, of_topic in (value.get("filterDataByTopic") or {}).items():
            for group, entry in (of_topic.get("groupFilterData") or {}).items():
                if entry.get("bloomFilterData") != self._bloom.as_json(group, topic):
                    _log.warning("consumerFilter.json is ignored: its Bloom filter is another")
                    return
                if (data := self._loaded(topic, group, entry)) is not None:
                    loaded.setdefault(topic, {})[group] = data
        self._table = loaded

    def _loaded(self, topic: str, group: str, entry: Mapping[str, Any]) -> FilterData | None:
        expression = entry.get("expression") or ""
        expression_type = entry.get("expressionType") or ""
        selector = compiled(expression_type, expression)
        if selector is None:
            return None
        born_ms = int(entry.get("bornTime", 0))
        alive_until_ms = max(born_ms, self._clock() - CRASH_GRACE_MS)
        return FilterData(
            topic=topic,
            group=group,
            expression=expression,
            expression_type=expression_type,
            client_version=int(entry.get("clientVersion", 0)),
            born_ms=born_ms,
            filter=selector,
            dead_ms=int(entry.get("deadTime", 0)) or alive_until_ms,
        )
