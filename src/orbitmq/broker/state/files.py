"""Files of the tables under ``config/``, and the times at which they are written.

Topics, groups and their members are written soon after they change (`table_saver.py`). Offsets
change all the time. A thread writes them every few seconds if they have changed. Messages whose
offsets are lost in a crash are consumed once more.

Offsets depend on messages: a delayed or half message behind a committed offset exists again as a
copy. Therefore offsets are written only after the log is on disk up to its end at the time they
were read. Otherwise a power cut could keep the offset and lose the copy.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq._native import Store, dumps_lenient, loads_lenient
from orbitmq.broker.state.awaited_members import AwaitedMembers
from orbitmq.broker.state.filters import ConsumerFilters
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.rows import BadRows, good_numbers, set_aside
from orbitmq.broker.state.topics import TopicTable
from orbitmq.broker.write.delay import DelayService
from orbitmq.broker.write.timers import TimerService
from orbitmq.errors import FAILURES, BodyFault, FlushFailed, UnreadableFile
from orbitmq.protocol.members import LONG, Members
from orbitmq.table_saver import TableSaver
from orbitmq.threads import in_thread

__all__ = ["TableFiles"]

_log = logging.getLogger(__name__)

MAX_FILTERS_FILE_BYTES = 64 << 20
"""Maximum size of `consumerFilter.json`; a larger file is not read."""
FLUSH_TIMEOUT_MS = 60_000
MEMBERS = "groupMembers.json"
"""File with the members of groups; it is OrbitMQ's own."""


@dataclass(slots=True)
class TableFiles:
    """Reads all tables when the broker opens, and writes them."""

    directory: Path
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    delay: DelayService
    filters: ConsumerFilters
    timers: TimerService
    awaited: AwaitedMembers
    store: Store
    topic_saver: TableSaver = field(init=False)
    group_saver: TableSaver = field(init=False)
    member_saver: TableSaver = field(init=False)
    _saving_offsets: asyncio.Lock = field(default_factory=asyncio.Lock)
    _written: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic_saver = TableSaver(self.directory / "topics.json", self.topics.snapshot)
        self.group_saver = TableSaver(
            self.directory / "subscriptionGroup.json", self.groups.snapshot
        )
        self.member_saver = TableSaver(self.directory / MEMBERS, self.awaited.snapshot)

    def load(self) -> None:
        """Load every table from its file, if the file exists; keep bad rows separately."""
        for name, rows, load in (
            ("topics.json", "topicConfigTable", self.topics.load),
            ("subscriptionGroup.json", "subscriptionGroupTable", self.groups.load),
            ("consumerOffset.json", "offsetTable", self.offsets.load),
            ("delayOffset.json", "offsetTable", self._load_delay_offsets),
            ("timers.json", "heads", self._load_timers),
            (MEMBERS, "members", self.awaited.load),
        ):
            path = self.directory / name
            value = persist.load(path, functools.partial(_parse, rows))
            if value is not None:
                set_aside(path, load(value))
        self._load_filters()

    def _load_delay_offsets(self, value: Members) -> BadRows:
        good, bad = good_numbers(value.table("offsetTable"))
        self.delay.load({"offsetTable": good})
        return bad

    def _load_filters(self) -> None:
        """Load the saved filters; the broker starts without them if the file is unusable.

        Nothing is lost: consumers send their filters again with each heartbeat.
        """
        path = self.directory / "consumerFilter.json"
        try:
            for file in (path, persist.backup_of(path)):
                if file.exists() and file.stat().st_size > MAX_FILTERS_FILE_BYTES:
                    raise UnreadableFile(f"{file} has more than {MAX_FILTERS_FILE_BYTES} bytes")
            value = persist.load(path, loads_lenient)
            if value is not None:
                self.filters.load(value)
        except (UnreadableFile, OSError, ValueError, TypeError, AttributeError) as error:
            _log.warning(
                "cannot load the saved filters: %s; the next heartbeats of consumers bring them",
                error,
            )

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
        """Write a small table unless it is unchanged: an idle broker does not write to the disk."""
        content = dumps_lenient(value)
        if self._written.get(name) != content:
            persist.save(self.directory / name, content)
            self._written[name] = content

    async def _save_vouching(
        self, save: Callable[[str, dict[str, Any]], None], name: str, value: dict[str, Any]
    ) -> None:
        """Write a table once the part of the log that it depends on is on disk."""
        await in_thread(self._save_behind_log, save, name, value, self.store.max_physical_offset)

    def _save_behind_log(
        self,
        save: Callable[[str, dict[str, Any]], None],
        name: str,
        value: dict[str, Any],
        end: int,
    ) -> None:
        if not self.store.wait_flushed(end, FLUSH_TIMEOUT_MS):
            raise FlushFailed(
                f"{name} is not written, next try with the next save: the log was not on disk up "
                f"to {end} within {FLUSH_TIMEOUT_MS // 1000} s"
            )
        save(name, value)

    async def save_offsets(self) -> None:
        """Write the committed offsets of groups if any has changed."""
        async with self._saving_offsets:
            if not self.offsets.is_dirty:
                return
            self.offsets.is_dirty = False
            try:
                value = self.offsets.as_json()
                await self._save_vouching(self._save, "consumerOffset.json", value)
            except BaseException:
                self.offsets.is_dirty = True  # the next call tries again, even without a change
                raise

    async def save_delay_offsets(self) -> None:
        """Write the delivered offsets of the delay levels."""
        value = self.delay.as_json()
        await self._save_vouching(self._save_if_new, "delayOffset.json", value)

    async def save_timers(self) -> None:
        """Write the progress of timer messages if any has moved."""
        if self.timers.is_dirty:
            try:
                value = self.timers.as_json()
                await self._save_vouching(self._save, "timers.json", value)
            except BaseException:
                self.timers.is_dirty = True
                raise

    async def save_filters(self) -> None:
        """Write the filters of groups, without those that have been dead for too long."""
        self.filters.clean()
        await in_thread(self._save_if_new, "consumerFilter.json", self.filters.as_json())

    async def save_all(self) -> None:
        """Write all tables for the last time; a failure of one does not prevent the others."""
        self.offsets.is_dirty = self.timers.is_dirty = True
        for save in (
            self.topic_saver.close,
            self.group_saver.close,
            self.member_saver.close,
            self.save_offsets,
            self.save_delay_offsets,
            self.save_filters,
            self.save_timers,
        ):
            try:
                await save()
            except FAILURES:
                _log.exception("last save %s failed, going on with the others", save.__qualname__)


def _parse(rows: str, content: bytes) -> Members:
    value = Members.read(content)
    value.table(rows)  # raises if it is no table, so that the backup is read
    return value
