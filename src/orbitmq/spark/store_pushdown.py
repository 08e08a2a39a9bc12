"""Filters that Spark hands over to the scan of a store directory (``pushFilters=true``).

| on | becomes |
| --- | --- |
| topic, queueId | fewer queues |
| queueOffset | shorter ranges of them |
| storeTimestamp | fewer files |

Spark looks at all rows again: the scan reads less, it does not decide. Where a directory has no
consume queues, only times help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from orbitmq.spark.pushdown import equal_values
from orbitmq.spark.store_format import StoreReader
from orbitmq.spark.store_options import StoreOptions
from orbitmq.storelog import parse_time_ms

if TYPE_CHECKING:
    from orbitmq.storelog import StoreLog

__all__ = ["PushingStoreReader"]

NO_END = 2**63 - 1


class PushingStoreReader(StoreReader):
    """Reads the messages of each split, of as few splits as the query's conditions allow."""

    def __init__(
        self, options: StoreOptions, log: StoreLog, columns: tuple[str, ...], tasks: int | None
    ) -> None:
        super().__init__(options.plan(log, columns, tasks))
        self._options = options
        self._columns = columns
        self._tasks = tasks

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Plan anew with what the filters tell; Spark applies all of them itself."""
        log = self._options.open()
        wishes = dict(self._options.wishes)
        _narrow_times(wishes, filters)
        _narrow_queues(wishes, filters, log)
        self.plan = self._options.with_wishes(wishes).plan(log, self._columns, self._tasks)
        return filters


def _narrow_times(wishes: dict[str, Any], filters: list[Filter]) -> None:
    since, until = (
        None if wishes[name] is None else parse_time_ms(wishes[name]) for name in ("start", "end")
    )
    for each in filters:
        value = getattr(each, "value", None)
        if getattr(each, "attribute", ()) != ("storeTimestamp",) or not isinstance(value, datetime):
            continue
        at_ms = int(value.timestamp() * 1000)
        if isinstance(each, GreaterThan | GreaterThanOrEqual | EqualTo):
            since = at_ms if since is None else max(since, at_ms)
        if isinstance(each, LessThan | LessThanOrEqual | EqualTo):
            # Messages of this very millisecond may be wanted still.
            until = at_ms + 1 if until is None else min(until, at_ms + 1)
    wishes["start"], wishes["end"] = since, until


def _narrow_queues(wishes: dict[str, Any], filters: list[Filter], log: StoreLog) -> None:
    values: dict[str, frozenset[Any]] = {}
    offsets = range(NO_END)
    for each in filters:
        attribute = getattr(each, "attribute", ())
        allowed = equal_values(each)
        if attribute in (("topic",), ("queueId",)) and allowed is not None:
            (name,) = attribute
            values[name] = values.get(name, allowed) & allowed
        if attribute == ("queueOffset",):
            offsets = _narrowed(offsets, each)
    given = wishes["topics"]
    if wishes["topic_pattern"] is not None or (given is None and "topic" not in values):
        return  # which topics are meant the plan alone knows
    names = sorted(values["topic"]) if given is None else list(given)
    chosen: dict[str, list[int]] = {
        name: [] for name in names if name in values.get("topic", names)
    }
    for topic, queue_id, *_ in log.snapshot.queues():
        is_meant = not isinstance(given, dict) or queue_id in given.get(topic, ())
        if topic in chosen and is_meant and queue_id in values.get("queueId", (queue_id,)):
            chosen[topic].append(queue_id)
    if not log.snapshot.queues():
        return
    wishes["topics"] = chosen
    wishes["starting_offsets"] = _bounds(chosen, wishes["starting_offsets"], offsets.start, max)
    wishes["ending_offsets"] = _bounds(chosen, wishes["ending_offsets"], offsets.stop, min)


def _bounds(
    chosen: dict[str, list[int]],
    given: dict[str, dict[int, int]] | None,
    bound: int,
    tighter: Callable[[int, int], int],
) -> dict[str, dict[int, int]]:
    """Return the offsets that the options give, no looser than a bound."""
    return {
        topic: {each: tighter(bound, (given or {}).get(topic, {}).get(each, bound)) for each in ids}
        for topic, ids in chosen.items()
    }


def _narrowed(offsets: range, wanted: Filter) -> range:
    start, stop = offsets.start, offsets.stop
    match wanted:
        case EqualTo(value=value):
            start, stop = max(start, value), min(stop, value + 1)
        case GreaterThan(value=value):
            start = max(start, value + 1)
        case GreaterThanOrEqual(value=value):
            start = max(start, value)
        case LessThan(value=value):
            stop = min(stop, value)
        case LessThanOrEqual(value=value):
            stop = min(stop, value + 1)
    return range(start, max(start, stop))
