"""SQL filters of consumer groups: received in heartbeats, used by pulls, saved in a file.

A filter belongs to a topic and a group. It becomes *dead* when the group has no more members or no
longer subscribes to the topic. Pulls still use a dead filter; a day later it is dropped. A
heartbeat with an older subscription changes nothing. A heartbeat with a newer expression replaces
the filter, or drops it if the new expression is invalid. Filters are registered even while the
broker does not filter by properties: that setting may change while consumers are connected.

Heartbeats and files contain only texts. A text is compiled by the first pull that needs it, and is
dropped if it does not compile (see `CompiledFilters`). The number and the size of the texts are
limited, because any client may send a heartbeat for any group.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Filter
from orbitmq.broker.state.bloom import BloomSize
from orbitmq.errors import FilterTooLarge, MalformedFilter
from orbitmq.protocol.bodies import Subscription

__all__ = ["SQL92", "CompiledFilters", "ConsumerFilters", "FilterData"]

_log = logging.getLogger(__name__)

CRASH_GRACE_MS = 30_000
"""Time before loading since which filters count as dead that were alive when they were saved."""
MAX_FILTERS = 10_000
MAX_CHARS = 16 << 20
"""Maximum length of the expressions of all filters together."""
MAX_NAME_CHARS = 512
"""Maximum length of a name; topics and groups with longer names cannot exist."""
SHOWN_CHARS = 200
"""Maximum length of an expression in a log line."""


@dataclass(slots=True)
class FilterData:
    """SQL filter of a group for a topic."""

    topic: str
    group: str
    expression: str
    expression_type: str
    client_version: int
    born_ms: int
    bloom: dict[str, Any]
    dead_ms: int = 0

    @property
    def is_dead(self) -> bool:
        """True if no member of the group uses the filter now."""
        return self.dead_ms >= self.born_ms

    def as_json(self) -> dict[str, Any]:
        """Return the filter in the form of the file."""
        return {
            "bloomFilterData": self.bloom,
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
    """Table of all SQL filters of this broker."""

    def __init__(
        self, bloom: BloomSize, clean_after_ms: Callable[[], int], clock: Callable[[], int]
    ) -> None:
        self._bloom = bloom
        self._clean_after_ms = clean_after_ms
        self._clock = clock
        self.compiled = CompiledFilters()
        self._by_group: dict[str, dict[str, FilterData]] = {}
        self._count = 0
        self._chars = 0
        self._was_full = False

    def get(self, topic: str, group: str) -> FilterData | None:
        """Return the filter of a group for a topic; `selector` then compiles it."""
        of_group = self._by_group.get(group)
        return None if of_group is None else of_group.get(topic)

    def selector(self, data: FilterData) -> Filter | None:
        """Return the compiled filter; drop a filter that does not compile and return None."""
        reason = "it does not compile"
        try:
            selector = self.compiled.get(data.expression_type, data.expression)
        except FilterTooLarge as error:
            selector, reason = None, str(error)
        if selector is None:
            _warn(data.group, data.topic, data.expression_type, data.expression, reason)
            self._forget(data)
        return selector

    def of_retries(self, group: str) -> Filter | None:
        """Return the filter for a group's retried messages, by their original topics."""
        by_topic = {}
        for data in list(self._by_group.get(group, {}).values()):
            if (selector := self.selector(data)) is not None:
                by_topic[data.topic] = selector
        return Filter.of_retries(by_topic) if by_topic else None

    def heard(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Update the filters of a group from the subscriptions of a heartbeat."""
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not subscription.is_tags and subscription.sub_string:
                self._register(group, subscription)
        for data in self._by_group.get(group, {}).values():
            if data.topic not in topics and not data.is_dead:
                data.dead_ms = self._clock()

    def _register(self, group: str, wanted: Subscription) -> None:
        known = self.get(wanted.topic, group)
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
        if known is not None:
            self._forget(known)
        if (reason := self._refusal(group, wanted)) is not None:
            _warn(group, wanted.topic, wanted.expression_type, wanted.sub_string, reason)
            return
        self._add(
            FilterData(
                topic=wanted.topic,
                group=group,
                expression=wanted.sub_string,
                expression_type=wanted.expression_type,
                client_version=wanted.sub_version,
                born_ms=self._clock(),
                bloom=self._bloom.as_json(group, wanted.topic),
            )
        )

    def _refusal(self, group: str, wanted: Subscription) -> str | None:
        if wanted.expression_type != SQL92:
            return "it is in no language that this broker knows"
        if len(wanted.sub_string) > Filter.MAX_TEXT_BYTES:
            return f"it is longer than {Filter.MAX_TEXT_BYTES} bytes"
        if max(len(group), len(wanted.topic)) > MAX_NAME_CHARS:
            return "the name of the group or the topic is too long"
        if self._is_full(len(wanted.sub_string)):
            return f"this broker has {self._count} filters with {self._chars} characters, its limit"
        return None

    def _is_full(self, more_chars: int) -> bool:
        """Return True if there is no room, even after dropping dead filters."""

        def is_full() -> bool:
            return self._count >= MAX_FILTERS or self._chars + more_chars > MAX_CHARS

        if not is_full():
            return False
        if not self._was_full:
            # The table is searched for dead filters once, and again only after one was dropped.
            self._clean(self._clock())
            self._was_full = is_full()
        return is_full()

    def _add(self, data: FilterData) -> None:
        self._by_group.setdefault(data.group, {})[data.topic] = data
        self._count += 1
        self._chars += len(data.expression)

    def _forget(self, data: FilterData) -> None:
        of_group = self._by_group[data.group]
        del of_group[data.topic]
        if not of_group:
            del self._by_group[data.group]
        self._count -= 1
        self._chars -= len(data.expression)
        self._was_full = False

    def group_left(self, group: str) -> None:
        """Mark the filters of a group without members as dead."""
        for data in self._by_group.get(group, {}).values():
            if not data.is_dead:
                data.dead_ms = self._clock()

    def clean(self) -> None:
        """Drop the filters that have been dead for too long."""
        self._was_full = False
        self._clean(self._clock() - self._clean_after_ms())

    def _clean(self, before_ms: int) -> None:
        for of_group in list(self._by_group.values()):
            for data in list(of_group.values()):
                if data.is_dead and data.dead_ms <= before_ms:
                    self._forget(data)

    # ---- config/consumerFilter.json

    def as_json(self) -> dict[str, Any]:
        """Return all filters in the form of the file."""
        by_topic: dict[str, Any] = {}
        for of_group in self._by_group.values():
            for topic, data in of_group.items():
                of_topic = by_topic.setdefault(topic, {"groupFilterData": {}, "topic": topic})
                of_topic["groupFilterData"][data.group] = data.as_json()
        return {"filterDataByTopic": by_topic}

    def load(self, value: Any) -> None:
        """Load the filters of a file; ignore a file with other Bloom filter parameters.

        Invalid entries are skipped: consumers send their filters again with each heartbeat.
        """
        loaded: list[FilterData] = []
        for topic, group, entry in _entries(value):
            if len(loaded) >= MAX_FILTERS:
                _log.warning(
                    "consumerFilter.json has more than %d filters, the rest is ignored until the "
                    "next heartbeats",
                    MAX_FILTERS,
                )
                break
            if not isinstance(entry, Mapping) or max(len(topic), len(group)) > MAX_NAME_CHARS:
                _log.warning(
                    "consumerFilter.json has an entry that is not a filter, the entry is ignored"
                )
                continue
            bloom = self._bloom.as_json(group, topic)
            if entry.get("bloomFilterData") != bloom:
                _log.warning(
                    "consumerFilter.json is ignored: its Bloom filter parameters are not this "
                    "broker's; the next heartbeats bring the filters"
                )
                return
            if (data := self._loaded(topic, group, entry, bloom)) is not None:
                loaded.append(data)
        for data in loaded:
            if self._chars + len(data.expression) <= MAX_CHARS:
                self._add(data)

    def _loaded(
        self, topic: str, group: str, entry: Mapping[str, Any], bloom: dict[str, Any]
    ) -> FilterData | None:
        expression = entry.get("expression")
        if (
            entry.get("expressionType") != SQL92
            or not isinstance(expression, str)
            or not 0 < len(expression) <= Filter.MAX_TEXT_BYTES
        ):
            _log.warning(
                "the saved filter of group %s for topic %s is ignored: no valid SQL92 expression",
                group,
                topic,
            )
            return None
        born_ms = _moment(entry.get("bornTime"))
        alive_until_ms = max(born_ms, self._clock() - CRASH_GRACE_MS)
        return FilterData(
            topic=topic,
            group=group,
            expression=expression,
            expression_type=SQL92,
            client_version=_moment(entry.get("clientVersion")),
            born_ms=born_ms,
            bloom=bloom,
            dead_ms=_moment(entry.get("deadTime")) or alive_until_ms,
        )


def _entries(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield topic, group and entry for each filter in a file."""
    for topic, of_topic in _items(_member(value, "filterDataByTopic")):
        for group, entry in _items(_member(of_topic, "groupFilterData")):
            yield topic, group, entry


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return ()
    return ((name, one) for name, one in value.items() if isinstance(name, str))


def _moment(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _warn(group: str, topic: str, kind: str, expression: str, reason: str) -> None:
    _log.warning(
        "group %.200s has no filter for topic %.200s: %.20s expression %.*r is rejected: %s",
        group, topic, kind, SHOWN_CHARS, expression, reason,
    )  # fmt: skip


# ---- Compiled SQL filters
#
# Expressions come from clients, and a heartbeat or a saved file may bring thousands. Therefore an
# expression is compiled when a pull first needs it, and kept while there is room. `Filter` bounds a
# single expression, this table bounds all of them together. The expression used longest ago is
# dropped first and compiled again when a pull needs it again.

SQL92 = "SQL92"
MAX_COMPILED_CHARS = 2 << 20
"""Maximum length of all compiled expressions together.

A compiled expression takes at most about ten times the memory of its text.
"""
ENTRY_CHARS = 256
"""Characters that each expression counts in addition to its length."""


class CompiledFilters:
    """Cache of compiled filters by expression."""

    def __init__(self, max_chars: int = MAX_COMPILED_CHARS) -> None:
        self._max_chars = max_chars
        self._chars = 0
        self._kept: OrderedDict[str, Filter | MalformedFilter] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, expression_type: str, expression: str) -> Filter | None:
        """Return the filter of an expression, None if the expression is malformed.

        Raises `FilterTooLarge` for an expression that Java accepts and this broker does not.
        """
        if expression_type != SQL92:
            return None
        found = self._kept.get(expression)
        if found is None:
            found = _compiled(expression)
            self._keep(expression, found)
        else:
            self._kept.move_to_end(expression)
        if isinstance(found, FilterTooLarge):
            raise FilterTooLarge(*found.args)
        return None if isinstance(found, MalformedFilter) else found

    def _keep(self, expression: str, found: Filter | MalformedFilter) -> None:
        if len(expression) > Filter.MAX_TEXT_BYTES:
            return  # rejecting it again for its length costs nothing, so it needs no cache
        self._kept[expression] = found
        self._chars += len(expression) + ENTRY_CHARS
        while self._chars > self._max_chars:
            oldest, _ = self._kept.popitem(last=False)
            self._chars -= len(oldest) + ENTRY_CHARS


def _compiled(expression: str) -> Filter | MalformedFilter:
    try:
        return Filter(expression)
    except MalformedFilter as error:
        return error.with_traceback(None)
