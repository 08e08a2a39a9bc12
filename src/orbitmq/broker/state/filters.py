"""The SQL filters of consumer groups: told by heartbeats, used by pulls, kept in a file.

A filter belongs to a topic and a group. It lives from the heartbeat that brings it until the group
has no member any more, or no longer subscribes to the topic; then it is *dead*, which changes
nothing for pulls, and a day later it is forgotten. A heartbeat with an older subscription changes
nothing, one with a newer expression replaces the filter, or drops it if that expression is none.
All of it is registered whether or not this broker filters by properties at the time: that setting
may change while consumers are connected.

Heartbeats and files only bring texts. A text is compiled by the first pull that needs it, and one
that does not compile is dropped then (see `CompiledFilters`). The number and the size of the texts
have a limit, because anybody may send a heartbeat for any group.
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
"""A filter that was alive when its broker went down counts as dead since this long ago at most."""
MAX_FILTERS = 10_000
MAX_CHARS = 16 << 20
"""Expressions of all filters together."""
MAX_NAME_CHARS = 512
"""Topics and groups with longer names cannot exist."""
SHOWN_CHARS = 200
"""Of an expression in the log."""


@dataclass(slots=True)
class FilterData:
    """What a group wants of a topic, by properties."""

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
        """Whether nobody uses it at the time."""
        return self.dead_ms >= self.born_ms

    def as_json(self) -> dict[str, Any]:
        """Return the form of the file."""
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
    """All filters of this broker."""

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
        """Return the filter of a group for a topic; whether it compiles, `selector` says."""
        of_group = self._by_group.get(group)
        return None if of_group is None else of_group.get(topic)

    def selector(self, data: FilterData) -> Filter | None:
        """Return what a filter is compiled to; one that does not compile is dropped."""
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
        """Return the filter for messages that come back to a group, each by the topic it was in."""
        by_topic = {}
        for data in list(self._by_group.get(group, {}).values()):
            if (selector := self.selector(data)) is not None:
                by_topic[data.topic] = selector
        return Filter.of_retries(by_topic) if by_topic else None

    def heard(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Take the subscriptions of a heartbeat."""
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
        """Return True if there is no room, even after dead filters were removed."""

        def is_full() -> bool:
            return self._count >= MAX_FILTERS or self._chars + more_chars > MAX_CHARS

        if not is_full():
            return False
        if not self._was_full:
            # The table is gone through once, and again when something has left it.
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
        """Tell that a group has no member any more."""
        for data in self._by_group.get(group, {}).values():
            if not data.is_dead:
                data.dead_ms = self._clock()

    def clean(self) -> None:
        """Forget what has been dead for too long."""
        self._was_full = False
        self._clean(self._clock() - self._clean_after_ms())

    def _clean(self, before_ms: int) -> None:
        for of_group in list(self._by_group.values()):
            for data in list(of_group.values()):
                if data.is_dead and data.dead_ms <= before_ms:
                    self._forget(data)

    # ---- config/consumerFilter.json

    def as_json(self) -> dict[str, Any]:
        """Return the form of the file."""
        by_topic: dict[str, Any] = {}
        for of_group in self._by_group.values():
            for topic, data in of_group.items():
                of_topic = by_topic.setdefault(topic, {"groupFilterData": {}, "topic": topic})
                of_topic["groupFilterData"][data.group] = data.as_json()
        return {"filterDataByTopic": by_topic}

    def load(self, value: Any) -> None:
        """Take the filters of a file; those of a broker with other parameters are not for us.

        What makes no sense is left out: consumers tell their filters again with each heartbeat.
        """
        loaded: list[FilterData] = []
        for topic, group, entry in _entries(value):
            if len(loaded) >= MAX_FILTERS:
                _log.warning("consumerFilter.json: what follows %d filters is ignored", MAX_FILTERS)
                break
            if not isinstance(entry, Mapping) or max(len(topic), len(group)) > MAX_NAME_CHARS:
                _log.warning("consumerFilter.json: an entry is ignored, because it is no filter")
                continue
            bloom = self._bloom.as_json(group, topic)
            if entry.get("bloomFilterData") != bloom:
                _log.warning("consumerFilter.json is ignored: its Bloom filter is another")
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
            _log.warning("the saved filter of %s for %s is ignored: no expression", group, topic)
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
    """Go through topics, their groups, and what the file has for them."""
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
        "group %.200s has no filter for %.200s: %.20s %.*r is not taken: %s",
        group, topic, kind, SHOWN_CHARS, expression, reason,
    )  # fmt: skip


# ---- Compiled SQL filters, each made when a pull first needs it and kept while there is room
#
# Expressions come from clients, so compiling is left until somebody pulls with one: a heartbeat or
# a saved file may bring thousands. `Filter` bounds a single expression, this table bounds all of
# them together. The one used longest ago goes first and is compiled again when it is wanted again.

SQL92 = "SQL92"
MAX_COMPILED_CHARS = 2 << 20
"""All expressions together; a compiled one takes at most some ten times its text."""
ENTRY_CHARS = 256
"""An expression counts as at least so many, whatever its length."""


class CompiledFilters:
    """Filters by their expression."""

    def __init__(self, max_chars: int = MAX_COMPILED_CHARS) -> None:
        self._max_chars = max_chars
        self._chars = 0
        self._kept: OrderedDict[str, Filter | MalformedFilter] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, expression_type: str, expression: str) -> Filter | None:
        """Return the filter that an expression stands for, None if it is malformed.

        Raises `FilterTooLarge` for one that Java would take and this broker does not.
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
            return  # it was refused for its length, which costs nothing
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
