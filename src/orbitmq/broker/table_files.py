"""The files under ``config/``: which table is in which, and when they are written.

Topics and groups are written soon after they change (`table_saver.py`). Offsets change all the
time: they are written every few seconds, by a thread, if they have changed; what is lost in a crash
is consumed once more.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq._native import dumps_lenient
from orbitmq.broker.delay import DelayService
from orbitmq.broker.filters import ConsumerFilters
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.housekeeping import in_thread
from orbitmq.broker.offsets import ConsumerOffsets
from orbitmq.broker.table_rows import BadRows, good_numbers, set_aside
from orbitmq.broker.table_saver import TableSaver
from orbitmq.broker.timers import TimerService
from orbitmq.broker.topics import TopicTable
from orbitmq.errors import BodyFault
from orbitmq.protocol.members import LONG, Members

__all__ = ["TableFiles"]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TableFiles:
    """Reads the tables when the broker opens, and writes them."""

    directory: Path
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    delay: DelayService
    filters: ConsumerFilters
    timers: TimerService
    topic_saver: TableSaver = field(init=False)
    group_saver: TableSaver = field(init=False)
    _written: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic_saver = TableSaver(self.directory / "topics.json", self.topics.snapshot)
        self.group_saver = TableSaver(
            self.directory / "subscriptionGroup.json", self.groups.snapshot
        )

    def load(self) -> None:
        """Give every table what its file says, if there is one; bad rows are set aside."""
        for name, rows, load in (
            ("topics.json", "topicConfigTable", self.topics.load),
            ("subscriptionGroup.json", "subscriptionGroupTable", self.groups.load),
            ("consumerOffset.json", "offsetTable", self.offsets.load),
            ("delayOffset.json", "offsetTable", self._load_delay_offsets),
            ("consumerFilter.json", "filterDataByTopic", self._load_filters),
            ("timers.json", "heads", self._load_timers),
        ):
            path = self.directory / name
            value = persist.load(path, functools.partial(_parse, rows))
            if value is not None:
                set_aside(path, load(value))

    def _load_delay_offsets(self, value: Members) -> BadRows:
        good, bad = good_numbers(value.table("offsetTable"))
        self.delay.load({"offsetTable": good})
        return bad

    def _load_filters(self, value: Members) -> BadRows:
        try:
            self.filters.load(value.values)
        except Exception as error:  # every group brings its filters again with its next heartbeat
            return {"filterDataByTopic": (value.table("filterDataByTopic"), str(error))}
        return {}

    def _load_timers(self, value: Members) -> BadRows:
        heads, bad = good_numbers(value.table("heads"))
        near, bad_near = {}, value.values.get("near")
        try:
            members = value.member("near")
            near = {name: members.number(name, 0, within=LONG) for name in ("end", "dueUntil")}
        except BodyFault as error:
            bad["near"] = (bad_near, str(error))
        self.timers.load({"heads": heads, "near": near})
        return bad

    def _save(self, name: str, value: dict[str, Any]) -> None:
        persist.save(self.directory / name, dumps_lenient(value))

    def _save_if_new(self, name: str, value: dict[str, Any]) -> None:
        """Write a small table unless its file says the same: at rest, leave the disk be."""
        content = dumps_lenient(value)
        if self._written.get(name) != content:
            persist.save(self.directory / name, content)
            self._written[name] = content

    async def save_offsets(self) -> None:
        """Write how far groups are, if one has moved."""
        if self.offsets.is_dirty:
            self.offsets.is_dirty = False
            try:
                await in_thread(self._save, "consumerOffset.json", self.offsets.as_json())
            except BaseException:
                self.offsets.is_dirty = True  # it is tried again, whether or not one moves
                raise

    async def save_delay_offsets(self) -> None:
        """Write how far delayed messages have been delivered."""
        await in_thread(self._save_if_new, "delayOffset.json", self.delay.as_json())

    async def save_timers(self) -> None:
        """Write how far timers have been delivered, if one has been."""
        if self.timers.is_dirty:
            try:
                await in_thread(self._save, "timers.json", self.timers.as_json())
            except BaseException:
                self.timers.is_dirty = True
                raise

    async def save_filters(self) -> None:
        """Write the groups' filters, without those nobody has used for long."""
        self.filters.clean()
        await in_thread(self._save_if_new, "consumerFilter.json", self.filters.as_json())

    async def save_all(self) -> None:
        """Write what is written now and then, for the last time; one that fails stops no other."""
        self.offsets.is_dirty = self.timers.is_dirty = True
        for save in (
            self.topic_saver.close,
            self.group_saver.close,
            self.save_offsets,
            self.save_delay_offsets,
            self.save_filters,
            self.save_timers,
        ):
            try:
                await save()
            except Exception:
                _log.exception("%s failed", save.__qualname__)


def _parse(rows: str, content: bytes) -> Members:
    value = Members.read(content)
    value.table(rows)  # one that is no table is taken from the backup
    return value
