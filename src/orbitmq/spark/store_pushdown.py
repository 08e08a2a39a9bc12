"""Filters that Spark hands over to the scan of a store directory (``pushFilters=true``).

| on | becomes |
| --- | --- |
| topic, queueId | fewer queues |
| queueOffset | shorter ranges of them |
| storeTimestamp | fewer files |

Spark looks at all rows again: the scan reads less, it does not decide. What the options leave open
stays open, whether the directory has queues for it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import Filter

from orbitmq.spark.filters import (
    ALL_OFFSETS,
    column_of,
    narrowed_offsets,
    narrowed_times,
    passing_values,
)
from orbitmq.spark.store_format import StoreReader
from orbitmq.storelog import QueueWishes, ScanPlan, Selection
from orbitmq.storelog.wishes import END, FIRST, OTHER_QUEUES

__all__ = ["PushingStoreReader", "narrow"]


class PushingStoreReader(StoreReader):
    """Reads the messages of each split, of as few splits as the query's conditions allow.

    It is planned when it is first asked what it reads: by then Spark has pushed its filters.
    """

    def __init__(self, selection: Selection, planning: Callable[[Selection], ScanPlan]) -> None:
        self._selection = selection
        self._planning = planning
        self._planned: ScanPlan | None = None

    @property
    def plan(self) -> ScanPlan:
        """What is read."""
        if self._planned is None:
            self._planned = self._planning(self._selection)
        return self._planned

    def __getstate__(self) -> dict[str, object]:
        # Tasks need the plan, and a directory that was looked at cannot be sent to them.
        return {"_planned": self.plan}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what the filters tell; Spark applies all of them itself."""
        self._selection = narrow(self._selection, filters)
        self._planned = None
        return filters


def narrow(selection: Selection, filters: list[Filter]) -> Selection:
    """Return a selection without some of what the filters rule out, and with all the rest."""
    since, until = selection.start_ms, selection.end_ms
    for each in filters:
        if column_of(each) == "storeTimestamp":
            since, until = narrowed_times(since, until, each)
    topics = _narrow_topics(selection.topics, filters)
    return replace(selection, topics=topics, start_ms=since, end_ms=until)


def _narrow_topics(topics: QueueWishes | None, filters: list[Filter]) -> QueueWishes | None:
    values: dict[str, frozenset[Any]] = {}
    offsets = ALL_OFFSETS
    for each in filters:
        name, allowed = column_of(each), passing_values(each)
        if name in ("topic", "queueId") and allowed is not None:
            values[name] = values.get(name, allowed) & allowed
        if name == "queueOffset" and (narrowed := narrowed_offsets(offsets, each)) is not None:
            offsets = narrowed
    if topics is None:
        if "topic" not in values:
            return None  # queues are wanted by their topics
        topics = dict.fromkeys(sorted(values["topic"]))
    names = values.get("topic", topics)
    queue_ids = values.get("queueId")
    return {
        topic: _narrow_queues(queues, queue_ids, offsets)
        for topic, queues in topics.items()
        if topic in names
    }


def _narrow_queues(
    queues: dict[int, tuple[int, int]] | None, queue_ids: frozenset[int] | None, offsets: range
) -> dict[int, tuple[int, int]] | None:
    if queue_ids is None and offsets == ALL_OFFSETS:
        return queues
    wished = {OTHER_QUEUES: (FIRST, END)} if queues is None else queues
    if queue_ids is not None:
        others = wished.get(OTHER_QUEUES)
        given = {number: wished.get(number, others) for number in queue_ids if number >= 0}
        wished = {number: wish for number, wish in given.items() if wish is not None}
    return {
        number: (max(first, offsets.start), min(end, offsets.stop))
        for number, (first, end) in wished.items()
    }
